"""Which messages are processed next, and together with which others (paper 001, Sections 4 to 6).

Always true here: planning is pure; messages of one source that concern a view never overtake each other; every decision
carries its reason. Data updates alone need no graph: they are taken in arrival order, in batches (`strong`) or one
source transaction at a time (`complete`, paper 003, Section 5).

    schedule = Schedule([ViewReads("asia_customer", {customer: {"name"}, flight_res: {"name", "age", "dest"}})])
    schedule.add(queue)                                        # whenever messages arrive
    unit = schedule.next_unit(Consistency.STRONG, 10_000)      # the same until something changes
    run = schedule.next_run(10_000)                            # `complete`: units for one pass, a state for each
    schedule.remove(unit.numbers)                              # when it is installed
    schedule.change_views(rewritten)                           # if that rewrote a view
    schedule.broken(unit.numbers, relations)                   # or: it broke while it read these

    message ─▶ Footprint (footprint) ─▶ Dependencies (dependencies) ─▶ Plan (deco) ─▶ Unit (batching)

    queue           the update message queue, and the units of work that leave it
    schedule        the queue as it fills and empties, and the next unit of it
    footprint       what processing a message may read, and whose schema it changes
    stretches       the queue source by source, in pieces that a plan need not look into
    needs           what a message reads that a pending schema change changes
    dependencies    the dependency graph, near linear in the queue's length
    deco            a legal order, with minimal merges
    batching        from an order to units
    rename_classes  what pending renames have called a thing
    graph           the dependency graph for people, as text and dot
"""

from dyda.model.message import MessageState
from scheduler.dependencies import EdgeKind
from scheduler.footprint import Effect, Footprint, Footprints, ViewReads, effect_of
from scheduler.graph import DrawnEdge, dot, text
from scheduler.queue import Consistency, Queued, Unit, UnitKind
from scheduler.rename_classes import Columns
from scheduler.schedule import Detection, Schedule

__all__ = [
    "Columns",
    "Consistency",
    "Detection",
    "DrawnEdge",
    "EdgeKind",
    "Effect",
    "Footprint",
    "Footprints",
    "MessageState",
    "Queued",
    "Schedule",
    "Unit",
    "UnitKind",
    "ViewReads",
    "dot",
    "effect_of",
    "text",
]
