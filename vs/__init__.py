"""View synchronization: what becomes of a view's definition when a schema under it moves (paper 001, Section 2; the EVE
project's E-SQL preferences, knowledge base and CVS algorithm).

Always true here: everything is pure; a rewriting refers only to what is there, keeps or replaces or drops each
component only as its author allows, joins only as the view or the knowledge says, and promises of its extent only what
the constraints prove. A view without a legal form is reported broken with the component in the way, never guessed at.

    preferences  what holds for each component          join_paths  ways over the join constraints
    passage      relations before and now               search      candidates for every combination
    evolution    the knowledge follows the schemas      extent      what is proven about the rows
    covers       what the knowledge offers instead      ranking     the best one, and why
    decisions    what may be done about what is gone    assembly    text, read again over today's relations

Several changes that break a view together are synchronized one after the other (in_turn).

A view of several blocks is searched region by region (nested, anatomy, standing, regions); what is proven of a region
is carried up to the view (carrying), and what follows from it for the rest is in consequences. A view below a view is
a derived table in it, with the preferences of its own file.
"""

from vs.candidates import candidate_relations
from vs.evolution import Evolution, evolve
from vs.in_turn import Stage, synchronize_in_turn
from vs.judgement import Alternative, Broken, Holds, Judgement, Rewritten
from vs.preferences import Defaults, EffectivePreferences, effective_preferences
from vs.reading import read, read_what_is_left
from vs.synchronization import World, synchronize

__all__ = [
    "Alternative",
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
