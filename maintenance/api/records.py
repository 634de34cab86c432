"""What the commands do that change what was promised about records, for ``table.forget(...)``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ebb.maintenance.values import Duration, Time, Wait, read_duration, read_time
from ebb.warehouse.store.users import user_name
from ebb.warehouse.table.snapshot import Table

if TYPE_CHECKING:
    import pyarrow as pa

    from ebb.maintenance.amend import Amended
    from ebb.maintenance.api.warehouse import Warehouse
    from ebb.maintenance.ask import Ask
    from ebb.maintenance.forget import Forgotten
    from ebb.maintenance.holds import HeldCase, Holding

__all__ = ["RecordChanges"]


class RecordChanges:
    """The part of a table that changes single records.

    ``actor`` is who asked, by default the user of this process; ``case`` is why, a text that the log keeps.
    """

    warehouse: Warehouse
    table: Table

    def forget(
        self,
        *keys: Any,
        where: str | None = None,
        within: Duration | None = None,
        case: str | None = None,
        actor: str | None = None,
        yes: bool = False,
        wait: Wait = None,
        dry_run: bool = False,
        progress: Callable[[str], None] = lambda _: None,
    ) -> Forgotten:
        """Remove records now: those of some keys, or those for which a condition holds.

        Reads hide them from this commit on. ``within``: how long their bytes may stay on disk, 0 for not at all; by
        default the grace period of readers and a tick. Quarantine and landing folder are looked through as well. ``yes``:
        also more than half of the live records by a condition.
        """
        from ebb.maintenance.forget import forget

        ask = self._ask(keys, where, case, actor)
        kind = self.table.snapshot().spec.timeline.kind
        span = None if within is None else 0 if within in (0, "0") else read_duration(kind, within)
        context = self.warehouse.context(wait=wait, dry_run=dry_run, progress=progress)
        return forget(self.table, ask, context, within=span, yes=yes)

    def amend(
        self,
        *keys: Any,
        expires: Time,
        where: str | None = None,
        case: str | None = None,
        actor: str | None = None,
        yes: bool = False,
        wait: Wait = None,
        dry_run: bool = False,
        progress: Callable[[str], None] = lambda _: None,
    ) -> Amended:
        """Let live records of some keys, or those for which a condition holds, expire at another time.

        It must be after the clock, and at most a span after each of them was inserted. A time that the table computed is
        replaced too, and not computed again. ``yes``: also shorten more than half of the live records by a condition.
        """
        from ebb.maintenance.amend import amend

        ask = self._ask(keys, where, case, actor)
        time = read_time(self.table.snapshot().spec.timeline.kind, expires)
        context = self.warehouse.context(wait=wait, dry_run=dry_run, progress=progress)
        return amend(self.table, ask, context, expires=time, yes=yes)

    def hold(
        self,
        *keys: Any,
        case: str,
        where: str | None = None,
        everything: bool = False,
        arrivals: bool | None = None,
        actor: str | None = None,
        wait: Wait = None,
        dry_run: bool = False,
        progress: Callable[[str], None] = lambda _: None,
    ) -> Holding:
        """Keep live records on disk until ``case`` is released: of some keys, those for which a condition holds, or all.

        Reads hide them when they expire. ``arrivals``: also what comes later, which a condition must say; for keys it is
        no unless it is said.
        """
        from ebb.maintenance.holds import hold

        ask = self._ask(keys, where, case, actor, everything=everything)
        return hold(
            self.table, ask, self.warehouse.context(wait=wait, dry_run=dry_run, progress=progress), arrivals=arrivals
        )

    def release(self, case: str, *, actor: str | None = None, wait: Wait = None, dry_run: bool = False) -> Holding:
        """End a hold: what no other case holds goes back to its place if it is live, and otherwise leaves the disk."""
        from ebb.maintenance.ask import check_word
        from ebb.maintenance.holds import release

        by = check_word("actor", user_name() if actor is None else actor)
        return release(self.table, case, self.warehouse.context(wait=wait, dry_run=dry_run), by=by)

    def holds(self) -> tuple[HeldCase, ...]:
        """Return the cases that hold records, the oldest first."""
        from ebb.maintenance.holds import held_cases

        return held_cases(self.table.snapshot())

    def held(self, case: str | None = None, columns: Sequence[str] | None = None) -> pa.RecordBatchReader:
        """Stream the records that a case holds, or all that are held, whether they have expired or not."""
        import pyarrow as pa

        from ebb.maintenance.holds import held_records

        found = held_records(self.warehouse.table(self.table.name).at_latest(), case, columns)
        return pa.RecordBatchReader.from_batches(found.schema, found.batches)

    def _ask(
        self, keys: Sequence[Any], where: str | None, case: str | None, actor: str | None, *, everything: bool = False
    ) -> Ask:
        from ebb.maintenance.ask import Ask
        from ebb.warehouse.read.key_values import key_values

        spec = self.table.snapshot().spec
        columns = [spec.column(name) for name in spec.key]
        return Ask(
            keys=tuple(key_values(columns, keys)),
            where=where,
            everything=everything,
            by=user_name() if actor is None else actor,
            case=case,
        )
