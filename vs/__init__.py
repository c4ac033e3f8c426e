"""View synchronization: what a view's definition becomes when a schema under it changes (paper 001, Section 2; the EVE
project's E-SQL preferences, knowledge base and CVS algorithm).

Always true here: everything is pure. A rewriting reads only what exists, keeps, replaces or drops each component only
as its author allows, joins only as the view or the knowledge says, and promises of its extent only what constraints
prove. A view without a legal rewriting is reported broken, with the component that prevents one; nothing is guessed.

    synchronization      the best legal form of a view after schema changes
    in_turn              changes that break a view together, taken one after the other
    judgement            the outcome: it holds, it is rewritten, or it is broken
    reading              whether a view's text is valid over the relations as they are now
    schema_mapping       from the relations as known before to the relations as they are now
    knowledge_evolution  how the knowledge follows the schemas
    reachable            every relation that a rewriting might read (rule S2)
    view/                the view as synchronization sees it: components, regions, preferences
    search/              what the knowledge offers instead, and every legal combination (CVS)
    proof/               what is proven about the rows
    rewrite/             from a combination to a definition, and which one is best

A view below a view is a derived table in it, with the preferences of its own file.
"""

from vs.in_turn import Stage, synchronize_in_turn
from vs.judgement import Broken, Holds, Judgement, Rewritten
from vs.knowledge_evolution import Evolution, evolve
from vs.reachable import candidate_relations
from vs.reading import read, read_what_is_left
from vs.synchronization import World, synchronize
from vs.view.preferences import Defaults, EffectivePreferences, effective_preferences

__all__ = [
    "Broken",
    "Defaults",
    "EffectivePreferences",
    "Evolution",
    "Holds",
    "Judgement",
    "Rewritten",
    "Stage",
    "World",
    "candidate_relations",
    "effective_preferences",
    "evolve",
    "read",
    "read_what_is_left",
    "synchronize",
    "synchronize_in_turn",
]
