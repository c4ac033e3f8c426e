"""Faults of the warehouse: its server, the way to it, its disk, and readers that stay."""

from __future__ import annotations

from typing import Any

from tests.torture.fault import ALL, Fault, World, until
from tests.torture.places import session
from tests.torture.recording import Change, Writer, connect


class WarehouseKilled(Fault):
    kind = "warehouse server killed"
    lost = ALL
    words = r"warehouse (cannot be reached|was lost)"

    def strike(self) -> None:
        self.places.warehouse.server.crash()

    def heal(self) -> None:
        self.places.warehouse.server.start()


class WarehouseRestarted(WarehouseKilled):
    kind = "warehouse server restarted"

    def strike(self) -> None:
        self.places.warehouse.server.stop()


class WarehouseRefuses(Fault):
    kind = "warehouse connection refused"
    lost = ALL
    words = r"warehouse cannot be reached"

    def strike(self) -> None:
        self.places.warehouse.proxy.refuse()

    def heal(self) -> None:
        self.places.warehouse.proxy.heal()


class WarehouseCut(WarehouseRefuses):
    kind = "warehouse answer cut"
    words = r"warehouse (cannot be reached|was lost)"

    def strike(self) -> None:
        self.places.warehouse.proxy.cut(3000)


class WarehouseSlow(WarehouseRefuses):
    kind = "warehouse slowed"
    lost = frozenset()
    words = ""

    def strike(self) -> None:
        self.places.warehouse.proxy.slow(0.01)


class WarehouseFull(Fault):
    kind = "warehouse disk full"
    lost = ALL
    words = "No space left on device"

    @property
    def why_not(self) -> str:
        return self.places.disk.why_not

    def strike(self) -> None:
        self.places.disk.fill()

    def heal(self) -> None:
        self.places.disk.empty()


class ViewHeld(Fault):
    """A reader's transaction stays open over a view whose columns are to change."""

    kind = "reader holds a view"
    words = r'is being read in an open transaction|"blocked_by": \[\{[^}]*"'
    lost = frozenset({"people"})

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._reader: Any = None

    def strike(self) -> None:
        self._reader = connect(self.places.warehouse.url)
        self._reader.cursor().execute("SELECT count(*) FROM public.accounts_people")
        with session(self.places.sources["people"].url) as cursor:
            cursor.execute("SELECT format_type(atttypid, NULL) FROM pg_attribute WHERE attname = 'amount'")
            wider = "bigint" if cursor.fetchone()[0] == "integer" else "integer"
        writer = Writer(self.world.history, "people", self.places.sources["people"].url, lock_timeout="20s")
        altered = [Change(f"ALTER TABLE account ALTER amount TYPE {wider}", ("account",))]
        until(lambda: writer.transaction(altered) is not None, "account cannot be altered")
        writer.close()

    def heal(self) -> None:
        if self._reader is not None:
            self._reader.close()
