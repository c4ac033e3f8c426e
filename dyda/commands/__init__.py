"""The commands as functions: this is the API, and `dyda.cli` is a thin layer over it.

Every function takes the project's folder, does its work and returns plain data that `json.dumps` accepts. Questions
and progress go through callbacks. To import a command costs little: what it takes to do the work (Spark, Arrow, the
parser, maintenance) is imported by the functions that do it.

    project            init, sources check, sources detach
    apply              make the warehouse match views/ and knowledge.toml
    file_check         all new and changed files are checked before anything is asked
    view_files         view files that read other views
    renames            names in a file that its source has renamed
    broken_views       how `apply` recovers broken views
    open_transactions  waiting for open transactions at a source
    knowledge          knowledge.toml: applied, listed
    knowledge_check    its constraints tested against the live data
    daemon             daemon, stop
    daemon_log         what a daemon writes
    daemon_lookout     what it notices beside its units
    daemon_notify      whom it tells
    daemon_standby     a daemon that stands by while another one works
    daemon_warm_up     what a daemon does before its first message
    handover           work done by this process, or by the daemon that holds the lock
    requests           requests of other commands to the daemon
    queue              the queue, and the order in which it will be processed
    events             what happened
    notify             telling somebody of an event
    attention          what an operator must decide; whether all is well
    status             sources, views, everything at a glance
    views              explain, verify, resync
    verify             one view recomputed and compared
    history            a view's versions, and what changed between two
    impact             what some DDL would do to every view
    migrations         migration files in the order in which their tool runs them
    pending            the queue, its order and its picture
    pending_decisions  hold, release, approve, reject, retry, skip
    psql               psql on a source or the warehouse
    demo/              the travel example
"""

# Imported later, these modules would take the place of the functions of their names.
import dyda.commands.events
import dyda.commands.psql
import dyda.commands.views  # noqa: F401
from dyda.commands.apply import ApplyPlan, apply, plan_apply
from dyda.commands.attention import status_check
from dyda.commands.daemon import run_daemon, stop
from dyda.commands.events import events, follow_events
from dyda.commands.history import views_diff, views_history
from dyda.commands.impact import impact
from dyda.commands.knowledge import knowledge, knowledge_check
from dyda.commands.notify import notify_test
from dyda.commands.pending import pending, pending_graph, pending_picture, pending_plan, pending_show
from dyda.commands.pending_decisions import (
    pending_approve,
    pending_hold,
    pending_reject,
    pending_release,
    pending_retry,
    pending_skip,
)
from dyda.commands.project import init, sources_check, sources_detach
from dyda.commands.psql import PsqlCall, psql
from dyda.commands.status import sources, status, views, views_show
from dyda.commands.views import verify, views_explain, views_resync

__all__ = [
    "ApplyPlan",
    "PsqlCall",
    "apply",
    "events",
    "follow_events",
    "impact",
    "init",
    "knowledge",
    "knowledge_check",
    "notify_test",
    "pending",
    "pending_approve",
    "pending_graph",
    "pending_hold",
    "pending_picture",
    "pending_plan",
    "pending_reject",
    "pending_release",
    "pending_retry",
    "pending_show",
    "pending_skip",
    "plan_apply",
    "psql",
    "run_daemon",
    "sources",
    "sources_check",
    "sources_detach",
    "status",
    "status_check",
    "stop",
    "verify",
    "views",
    "views_diff",
    "views_explain",
    "views_history",
    "views_resync",
    "views_show",
]
