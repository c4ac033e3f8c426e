"""Lanes: what takes long is computed beside the units, at its own snapshot, and joins the others when it has caught up.

    poll ── unit ── unit ── poll ── … ── adopt ── unit (all views, v/next too) ── unit ── show ── …
      │ hands its snapshots over          ▲                                                ▲
      └── read ── compute ── fill ────────┘ v/next is at the snapshots' positions B        │ v/next has what the others
                  (a lane)                                                                   have: it is v from now on

Why the rows are right (rule P5):

1. A lane reads under the snapshots of one poll and nothing else, so what it computes is the view at B, the positions of
   these snapshots. At the end it compares the fingerprints of all that it read (R2) and waits for the sources' disks
   (P2). It writes into tables that no view has; a lane that ends in any other way leaves garbage and nothing else.
   An adaptation reads the view's own extent, too, which must be the one that was planned with: the view waits, so that
   no unit moves its rows; if its version or its positions are others when the lane has ended, the result is thrown
   away. What a unit leaves is adapted under that unit's own poll, with the unit's plan, so B is where the unit would
   have taken the view: nothing can have happened unseen between the extent and the snapshots that the unit did not
   know of. Where that chance is missed (the process ended, no lane was free), the view is built whole.
2. As long as it runs, B takes part in the minimum of all positions: no source is told to forget, and no message leaves
   the queue, that v/next will need.
3. The loop adopts the result in one fenced transaction, as a hidden view v/next at B, if the relations that it read
   are still known to the catalog as they were when the lane began, its sources have lost nothing since, and the view's
   own text is the one that was built. Otherwise the result is thrown away and the lane begins again. So v/next is a
   view like any other: its rows are its definition at its positions.
4. Units take v/next along as they do every view: each view gets what it lacks, by its own positions (P3, I1). Schema
   changes, too: if v/next cannot follow one, it is thrown away, and v is built again.
5. v/next becomes v in one transaction that moves no row, and only when no other view has a transaction of its sources
   that it lacks, and it has all that v had. So no reader ever sees v go back, or views apart that could be together.

    worker     a thread of its own, and the tables that it fills
    lane       one view that is built, or adapted
    rewriting  a narrowed extent gets a table of its own
    lanes      those that run: begin, adopt, show, throw away
"""

from dyda.maintenance.lanes.lanes import Lanes

__all__ = ["Lanes"]
