"""View maintenance: what to read from the sources for ΔV, and what to ask of Spark (papers 003 and 001).

Always true here: nothing talks to a database or to Spark; conditions are evaluated by Spark alone, and only what cannot
lose a row is asked of a source (rule R4); a row's counts before and after are exact or provably do not matter.

    block = flatten(view, "decimal(38,18)")                       # ViewDefinition -> JoinBlock
    plan = plan_sweep(block)                                      # join tree; `explain(plan)` prints the same plan
    changes = snapshot.changes(block.wanted, after)               # {RelationName: texts, "#xid", "#count"}
    ours, pending = split(changes)                                # by transaction; the caller's business
    worlds = sweep(plan, ours, pending, ask)                      # {alias: Bag} each
    #   ask(alias, columns, key, values) -> Bag: at least the rows of block.by_alias[alias].relation with such a key
    #   -> {alias: Worlds(table) | Whole(table, reason)}; Whole must be scanned
    #   asking(block, SharedLookups(sources)) lets views of one batch share answers; `workers` asks several at once
    worlds = demand(plan, alias, key, values, pending, ask)       # or: what the rows with these keys are made of
    evaluation = delta_evaluation(block, worlds, scanner)         # scanner(occurrence) -> partitions, for Whole only
    evaluation = world_evaluation(block, worlds, scanner)         # or: the rows that were demanded
    evaluation = build_evaluation(block, partitions, pending)     # or: the whole view, less what is pending
    tables = engine.evaluate([evaluation], reader)                # [c1 … cn text, n bigint], in the same order

    join_block      a view as one join block
    join_tree       the spanning tree along which keys travel
    linear_terms    sums of signed select-project-join terms
    program         a view as steps, each a sum of blocks and a keyed operator above it
    compile         from a view's algebra to its program
    compile_group   GROUP BY as steps
    sweep           SWEEP in both directions over a join tree
    sweep_state     what is known of one occurrence while keys travel
    keys            keys that travel along join edges
    worlds          what a relation was and became, as entries that Spark multiplies through the joins
    evaluation      one evaluation per block: ΔV = new − old
    careful         the same, so that nothing is evaluated for rows that cancel out
    limits          rows for which a condition cannot be true
    unsatisfiable   terms without rows, whatever the relations hold
    shared_sweeps   blocks that are swept alike
    shared_lookups  lookups that several views share
    emptied         what of a view begins with nothing once relations are empty
    fingerprint     what a program is, in one short text
    explain         how a view is maintained, in words
"""

from vm.careful import helps
from vm.compile import compile_view
from vm.compile_group import same_arguments
from vm.emptied import emptied
from vm.evaluation import Evaluation, Scanner, build_evaluation, delta_evaluation, world_evaluation
from vm.explain import explain_program
from vm.fingerprint import fingerprint
from vm.join_block import JoinBlock, Occurrence, flatten
from vm.join_tree import SweepPlan, plan_sweep
from vm.program import WAREHOUSE, Program, Step, Term, state_number
from vm.shared_lookups import Lookup, SharedLookups, asking, needed_columns
from vm.shared_sweeps import course, own_worlds, together
from vm.sweep import Ask, Limit, demand, sweep
from vm.worlds import TAG, Whole, Worlds

__all__ = [
    "TAG",
    "WAREHOUSE",
    "Ask",
    "Evaluation",
    "JoinBlock",
    "Limit",
    "Lookup",
    "Occurrence",
    "Program",
    "Scanner",
    "SharedLookups",
    "Step",
    "SweepPlan",
    "Term",
    "Whole",
    "Worlds",
    "asking",
    "build_evaluation",
    "compile_view",
    "course",
    "delta_evaluation",
    "demand",
    "emptied",
    "explain_program",
    "fingerprint",
    "flatten",
    "helps",
    "needed_columns",
    "own_worlds",
    "plan_sweep",
    "same_arguments",
    "state_number",
    "sweep",
    "together",
    "world_evaluation",
]
