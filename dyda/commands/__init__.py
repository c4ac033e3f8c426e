"""The commands as functions: this is the API, and `dyda.cli` is a thin skin over it.

Every function takes the project's folder, does its work and returns plain data that `json.dumps` accepts. Questions
and progress go through callbacks, so that a program can answer them too.
"""

from dyda.commands.apply import ApplyPlan, apply, plan_apply
from dyda.commands.daemon import run_daemon, stop
from dyda.commands.decisions import (
    pending_approve,
    pending_hold,
    pending_reject,
    pending_release,
    pending_retry,
    pending_skip,
)
from dyda.commands.history import views_diff, views_history
from dyda.commands.impact import impact
from dyda.commands.knowledge import knowledge, knowledge_check
from dyda.commands.listing import sources, status, views, views_show
from dyda.commands.project import init, sources_check, sources_detach
from dyda.commands.queue import pending, pending_graph, pending_picture, pending_plan, pending_show
from dyda.commands.views import verify, views_explain, views_resync

__all__ = [
    "ApplyPlan",
    "apply",
    "impact",
    "init",
    "knowledge",
    "knowledge_check",
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
    "run_daemon",
    "sources",
    "sources_check",
    "sources_detach",
    "status",
    "stop",
    "verify",
    "views",
    "views_diff",
    "views_explain",
    "views_history",
    "views_resync",
    "views_show",
]
