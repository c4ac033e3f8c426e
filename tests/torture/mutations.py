"""The mutants: one rule of CORRECTNESS.md broken in each, as an edit of the code's text.

An edit must find its old text exactly once, so a mutant cannot fade away silently when the code moves on:
tests/unit/torture/test_mutants.py asks for that.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

__all__ = ["MUTANTS", "SECTIONS", "Edit", "Mutant"]

SECTIONS = (
    "capture",
    "positions",
    "reading",
    "sweeps",
    "keyed operators",
    "scheduling",
    "installing",
    "synchronization",
)


@dataclass(frozen=True)
class Edit:
    file: str
    old: str
    new: str

    def apply(self, root: Path) -> None:
        path = root / self.file
        text = path.read_text()
        found = text.count(self.old)
        if found != 1:
            raise ValueError(f"{self.file}: the text to mutate is there {found} times, not once:\n{self.old}")
        path.write_text(text.replace(self.old, self.new))


@dataclass(frozen=True)
class Mutant:
    """`scenario` is played against it, and the checker must find a violation.

    `stops`: the rule's only manifestation is that work stops; then a scenario that does not come to its end counts.
    """

    name: str
    section: str
    rule: str
    scenario: str
    edits: tuple[Edit, ...]
    stops: bool = False


def _one(name: str, section: str, rule: str, scenario: str, file: str, old: str, new: str) -> Mutant:
    return Mutant(name, section, rule, scenario, (Edit(file, old, new),))


MUTANTS = (
    # --- capture
    _one(
        "images-in-the-writers-settings",
        "capture",
        "C1",
        "odd-settings",
        "dyda/sources/sql/capture.sql",
        "SET extra_float_digits = 1\nSET IntervalStyle = postgres\n",
        "SET IntervalStyle = postgres\n",
    ),
    Mutant(
        "parents-alone",
        "capture",
        "C2",
        "partitions",
        (
            Edit(
                "dyda/sources/sql/observing.sql",
                "SELECT i.inhrelid FROM below JOIN pg_inherits i ON i.inhparent = below.relid",
                "SELECT i.inhrelid FROM below JOIN pg_inherits i ON i.inhparent = below.relid AND false",
            ),
            Edit(  # what is not captured would be noticed, otherwise
                "dyda/sources/sql/hierarchy.sql",
                "FROM below b JOIN pg_inherits i ON i.inhparent = b.relid",
                "FROM below b JOIN pg_inherits i ON i.inhparent = b.relid AND false",
            ),
        ),
    ),
    _one(
        "truncate-means-nothing",
        "capture",
        "C4",
        "truncation",
        "dyda/sources/sql/capture.sql",
        "            INSERT INTO dyda.log (op, root, relid, image) VALUES ('T', watched_root, TG_RELID, emptied);\n",
        "            NULL;\n",
    ),
    _one(
        "rows-before-a-truncation-stay",
        "sweeps",
        "C4",
        "truncation",
        "dyda/maintenance/execute/deltas.py",
        "parts[0].slice(truncated.before)",
        "parts[0]",
    ),
    _one(
        "a-truncated-part-is-the-whole",
        "capture",
        "C4",
        "truncated-part",
        "dyda/sources/log/messages.py",
        "Truncation(name, image == WHOLE)",
        "Truncation(name, True)",
    ),
    _one(
        "disabled-triggers-are-no-gap",
        "capture",
        "C5",
        "disabled-triggers",
        "dyda/maintenance/observe/unexplained_changes.py",
        "if _unexplained(poll, known, relation, view):",
        "if False:",
    ),
    # --- positions
    Mutant(
        "xmin-instead-of-the-logs-xid",
        "positions",
        "P1",
        "open-subtransaction",
        (
            Edit(
                "dyda/sources/sql/reading.sql",
                "    SELECT l.seq, l.xid, l.op, l.root, l.relid, l.shape, l.image\n"
                "    FROM dyda.log l\n"
                "    WHERE l.xid >= coalesce(pg_snapshot_xmin(after), '0'::xid8)\n"
                "      AND (after IS NULL OR NOT pg_visible_in_snapshot(l.xid, after))\n",
                "    SELECT l.seq, l.xmin::text::xid8, l.op, l.root, l.relid, l.shape, l.image\n"
                "    FROM dyda.log l\n"
                "    WHERE after IS NULL OR NOT pg_visible_in_snapshot(l.xmin::text::xid8, after)\n",
            ),
        ),
    ),
    _one(
        "visible-is-durable",
        "positions",
        "P2",
        "lost-with-the-server",
        "dyda/maintenance/observe/poll.py",
        "snapshot.make_durable(self.marks.get(source))",
        "pass",
    ),
    _one(
        "a-server-that-is-back-never-was-away",
        "positions",
        "P2",
        "lost-inside-a-unit",
        "dyda/sources/reading/snapshot.py",
        '            cursor.execute("SELECT 1")\n',
        "            pass\n",
    ),
    _one(
        "the-snapshot-claims-what-was-left-out",
        "positions",
        "P3",
        "batches",
        "dyda/maintenance/plan/positions.py",
        "            snapshot = snapshot.until(max(at.xmax - 1, *taken))\n",
        "            return snapshot\n",
    ),
    _one(
        "ordered-by-the-first-sequence-number",
        "positions",
        "P4",
        "order-of-conflicts",
        "dyda/sources/sql/messages.sql",
        "max(l.seq) OVER (PARTITION BY l.xid) AS last",
        "min(l.seq) OVER (PARTITION BY l.xid) AS last",
    ),
    _one(
        "all-that-is-visible-is-acknowledged",
        "positions",
        "P5",
        "killed-between-units",
        "dyda/maintenance/install/acknowledge.py",
        "at = common(positions, source) or polled.snapshots[source].position",
        "at = polled.snapshots[source].position",
    ),
    _one(
        "a-lane-is-shown-too-early",
        "positions",
        "P5",
        "lane",
        "dyda/maintenance/lanes/lanes.py",
        "            if not mine and (seen or (any(have) and not beyond)):\n                return False\n",
        "            continue\n",
    ),
    _one(
        "acknowledged-past-a-lane",
        "positions",
        "P5",
        "lane",
        "dyda/maintenance/install/installation.py",
        "    positions |= {name: dict(at) for name, at in known.reserved.items()}\n",
        "",
    ),
    _one(
        "acknowledged-while-a-view-waits",
        "positions",
        "P5",
        "views-that-wait",
        "dyda/maintenance/install/acknowledge.py",
        "return Position.meet({at[source] for at in positions.values() if source in at})",
        "return max((at[source] for at in positions.values() if source in at), key=lambda at: at.xmax, default=None)",
    ),
    _one(
        "a-held-message-is-taken",
        "positions",
        "S1",
        "held-message",
        "dyda/maintenance/waiting.py",
        "    if any(change.relation in view.definition.relations for change in rows):\n        return True\n",
        "    if any(change.relation in view.definition.relations for change in rows):\n        return False\n",
    ),
    _one(
        "what-nobody-has-approved-is-taken",
        "positions",
        "S1",
        "views-that-wait",
        "dyda/maintenance/waiting.py",
        "        return any(effect.view == visible_name(view.name) for effect in cause.effects)\n",
        "        return False\n",
    ),
    # --- reading
    _one(
        "no-check-after-reading",
        "reading",
        "R2",
        "truncated-while-read",
        "dyda/sources/reading/snapshot.py",
        "        after = self.fingerprint_again(names) if names or self.log_read else {}\n",
        "        after = self.fingerprints\n",
    ),
    _one(
        "the-log-is-whole",
        "reading",
        "R1",
        "log-emptied-while-read",
        "dyda/sources/reading/snapshot.py",
        "        after = self.fingerprint_again(names) if names or self.log_read else {}\n",
        "        after = self.fingerprint_again(names) if names else {}\n",
    ),
    _one(
        "the-group-of-nulls-is-looked-up",
        "reading",
        "R5",
        "null-group",
        "vm/sweep.py",
        "without_null = [name for name, array in zip(columns, values.columns, strict=True) if not array.null_count]",
        "without_null = list(columns)",
    ),
    _one(
        "null-matches-nothing",
        "reading",
        "R5",
        "null-group",
        "vm/compile.py",
        "            on = [(equal if key in never_null else same)(key, place) for key, place in places]\n",
        "            on = [equal(key, place) for key, place in places]\n",
    ),
    # --- sweeps
    _one(
        "one-place-of-a-self-join",
        "sweeps",
        "W1",
        "self-join",
        "dyda/maintenance/execute/deltas.py",
        "        for occurrence in block.occurrences:\n            # The decision is made per transaction",
        "        for occurrence in {one.relation: one for one in block.occurrences}.values():\n"
        "            # The decision is made per transaction",
    ),
    _one(
        "no-compensation",
        "sweeps",
        "W3",
        "batches",
        "vm/sweep_state.py",
        "        old = before(read, self._covered(pending), self._covered(self.ours))\n",
        "        old = before(read, self._covered(self.ours))\n",
    ),
    _one(
        "keys-travel-uncompensated",
        "sweeps",
        "W3",
        "batches",
        "vm/sweep_state.py",
        "rows.append(before(fetched, beyond).consolidate().table if len(beyond) else fetched.table)",
        "rows.append(fetched.table)",
    ),
    _one(
        "two-hops-are-added",
        "sweeps",
        "W5",
        "two-hops",
        "vm/sweep_state.py",
        "                fetched = fetched.filter(pc.invert(earlier(fetched.table)))\n",
        "                pass\n",
    ),
    Mutant(
        "the-smaller-tag",
        "sweeps",
        "W6",
        "run-of-transactions",
        (
            Edit("vm/worlds.py", '"greatest(n, {1})"', '"least(n, {1})"'),
            Edit("vm/worlds.py", "pc.max_element_wise(one[1], other[1])", "pc.min_element_wise(one[1], other[1])"),
        ),
    ),
    # --- keyed operators
    _one(
        "padding-stays",
        "keyed operators",
        "K1",
        "keyed-operators",
        "vm/compile.py",
        "            whole = whole + (left - matched).padded(right.columns, self.null(right))\n",
        "            whole = whole + left.padded(right.columns, self.null(right))\n",
    ),
    _one(
        "counts-begin-anew",
        "keyed operators",
        "K1",
        "keyed-operators",
        "dyda/warehouse/sql/combine_counted.sql",
        "           coalesce(e.{left_column}, 0) + l_sum - l AS l_before, ",
        "           l_sum - l AS l_before, ",
    ),
    _one(
        "not-in-without-its-nulls",
        "keyed operators",
        "K2",
        "keyed-operators",
        "vm/compile.py",
        "        known = (any_row - unknown - there + both).where([_is_not_null(x)])\n",
        "        known = (any_row - there).where([_is_not_null(x)])\n",
    ),
    _one(
        "the-only-group-goes",
        "keyed operators",
        "K3",
        "keyed-operators",
        "dyda/warehouse/states/grouping_sql.py",
        '            "after_exists": sql.SQL("true" if alone else "rows_after > 0"),\n',
        '            "after_exists": sql.SQL("rows_after > 0"),\n',
    ),
    _one(
        "the-extreme-stays",
        "keyed operators",
        "K1",
        "keyed-operators",
        "dyda/warehouse/states/grouping_sql.py",
        '            f"rows_after > 0 AND coalesce({removed} {farther[0]} {old}, {removed} IS NOT NULL)"\n',
        '            f"false AND coalesce({removed} {farther[0]} {old}, {removed} IS NOT NULL)"\n',
    ),
    _one(
        "float-sums-are-subtracted",
        "keyed operators",
        "K4",
        "keyed-operators",
        "vm/compile_group.py",
        'self.place(function, argument, "double precision", recomputed=True)',
        'self.place(function, argument, "double precision")',
    ),
    # --- scheduling
    _one(
        "one-message-too-few-is-merged",
        "scheduling",
        "S1",
        "cycle",
        "scheduler/deco.py",
        "(e for run in group.runs for e in run.entries), key=lambda entry: entry.number))\n",
        "(e for run in group.runs for e in run.entries), key=lambda entry: entry.number))[1:]\n",
    ),
    _one(
        "no-order-within-a-source",
        "scheduling",
        "S1",
        "chain-of-a-source",
        "scheduler/deco.py",
        "        if run.previous is not None:\n            yield run.previous.index\n",
        "",
    ),
    # --- installing
    _one(
        "acknowledged-before-installed",
        "installing",
        "P2, exactly once",
        "killed-at-install",
        "dyda/maintenance/units.py",
        '        self.writer.install(prepared)\n        phases.done("install")\n        for one in plan.views',
        "        acknowledge(self.opened, polled, done.positions)\n"
        '        self.writer.install(prepared)\n        phases.done("install")\n        for one in plan.views',
    ),
    _one(
        "rows-before-positions",
        "installing",
        "one transaction",
        "killed-when-merged",
        "dyda/warehouse/install.py",
        '    faults.point("install.merged")\n',
        '    cursor.connection.commit()\n    faults.point("install.merged")\n',
    ),
    _one(
        "no-compare-and-set",
        "installing",
        "I1",
        "stale-install",
        "dyda/warehouse/sql/move_positions.sql",
        "AND p.position = move.expected AND move.new IS NOT NULL",
        "AND move.new IS NOT NULL",
    ),
    _one(
        "no-fence",
        "installing",
        "one writer",
        "lost-lock",
        "dyda/warehouse/fenced_session.py",
        "                    if fence != self.fence:\n",
        "                    if False:\n",
    ),
    _one(
        "older-readers-see-an-empty-view",
        "installing",
        "I2",
        "older-reader",
        "dyda/warehouse/catalog/migrations/versions/0001_extent_visible.sql",
        "    IF EXISTS (SELECT FROM dyda.extent WHERE id = wanted) THEN\n",
        "    IF true THEN\n",
    ),
    _one(
        "a-key-outlives-that-of-its-source",
        "installing",
        "S4",
        "key-given-up",
        "dyda/model/layout.py",
        "types.keys() >= set(known) and keys.includes(known):",
        "types.keys() >= set(known):",
    ),
    _one(
        "published-as-keyed-after-the-key-went",
        "installing",
        "S4",
        "key-given-up",
        "dyda/warehouse/view_installer.py",
        "        return key_places(version.columns, layout) != extent.key\n",
        "        return False\n",
    ),
    # --- synchronization
    _one(
        "containments-column-by-column",
        "synchronization",
        "V2",
        "joint-containment",
        "vs/proof/extent.py",
        "        if provisions:\n            return UNKNOWN  # V2",
        "        if False:\n            return UNKNOWN  # V2",
    ),
    _one(
        "null-keys-find-a-match",
        "synchronization",
        "V3",
        "null-key",
        "vs/proof/extent.py",
        "            if covered and self._lies_inside(promise, hop.start) and self._not_null(hop, own_columns):\n",
        "            if covered and self._lies_inside(promise, hop.start):\n",
    ),
)
