"""What happened, for people and programs; and what any SQL tool may ask: `dyda.events` and `dyda.freshness`.

No table is touched that readers lock. Roles that may read the catalog may read what is new, too: otherwise the commands
of somebody who only looks would fail from now on.
"""

import json
from importlib import resources

from alembic import op

from dyda.warehouse.catalog.cause_codec import cause_from_json, reason_of

revision = "0016"
down_revision = "0015"


def upgrade() -> None:
    execute = op.get_bind().exec_driver_sql
    versions = resources.files("dyda.warehouse.catalog").joinpath("migrations", "versions")
    execute(versions.joinpath("0016_events.sql").read_text("utf-8"))
    for table, key in (("view", "name"), ("message", "id")):
        causes = list(execute(f"SELECT {key}, cause FROM dyda.{table} WHERE cause IS NOT NULL"))
        for row, cause in causes:
            entry = json.loads(cause) if isinstance(cause, str) else cause
            execute(f"UPDATE dyda.{table} SET reason = %s WHERE {key} = %s", (reason_of(cause_from_json(entry)), row))
