"""Looking after all landing folders, round after round.  The clock and sleeping are arguments.

A round looks at every table and does what is due. What goes wrong for one table is an outcome of its own and never stops
another table. What is known of a table is kept: while nothing has arrived, no tick is over and nobody has committed, a
round reads no log and takes no lock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from ebb.index.errors import EngineError, UsageError, WarehouseError
from ebb.maintenance.context import Context
from ebb.maintenance.landing.run import Outcome, files_waiting, has_work, run_table
from ebb.warehouse.table.catalog import find_table, list_tables
from ebb.warehouse.table.snapshot import Snapshot
from ebb.warehouse.table.spec import check_name

__all__ = ["Round", "run"]

_POLL_SECONDS = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """What one look at all tables came to."""

    outcomes: tuple[Outcome, ...]
    tables: int = 0  # that have a landing folder, as far as they can be read
    waiting: int = 0  # files that have arrived for ticks that are not over
    is_news: bool = False  # there is an outcome that the round before did not have, or nothing fails any more

    @property
    def failed(self) -> bool:
        """Whether any table or file failed in this round."""
        return any(outcome.error is not None for outcome in self.outcomes)


def is_news(outcome: Outcome, before: Round) -> bool:
    """Whether an outcome is anything but an error that has stayed since the round before."""
    stayed = any((o.table, o.error) == (outcome.table, outcome.error) for o in before.outcomes if o.is_stopped)
    return not (outcome.is_stopped and stayed)


@dataclass(frozen=True, slots=True)
class _Known:
    """A table when it was last looked at."""

    snapshot: Snapshot
    is_settled: bool  # all was done that was due


def run(
    root: Path,
    context: Context,
    *,
    tables: Sequence[str] = (),
    until: datetime | None = None,
    yes: bool = False,
    allow_repeats: bool = False,
    once: bool = False,
    sleep: Callable[[float], None],
) -> Iterator[Outcome | Round]:
    """Do what is due in the landing folders of some tables, or of all, round after round or ``once``.

    Yields each outcome that is news as soon as it is there, and the round with all its outcomes when it ends. A table that
    is named and has no landing folder fails.
    ``until`` stands for now in every round.
    """
    for name in tables:
        check_name(name)
    known: dict[str, _Known] = {}
    last = Round(outcomes=())
    while True:
        now = context.wall()
        names = tables or [table.name for table in list_tables(root)]
        known = {name: known[name] for name in names if name in known}
        outcomes: list[Outcome] = []
        allowed = {"yes": yes, "allow_repeats": allow_repeats}
        here = replace(context, now=now)
        for outcome in _round(root, names, known, here, until=until or now, is_named=bool(tables), **allowed):
            outcomes.append(outcome)
            if is_news(outcome, last):
                yield outcome
        landing = [table.snapshot for table in known.values() if table.snapshot.spec.landing is not None]
        waiting = sum(map(files_waiting, landing)) if once and not outcomes else 0
        done = Round(outcomes=tuple(outcomes), tables=len(landing), waiting=waiting)
        last = replace(done, is_news=any(is_news(o, last) for o in outcomes) or done.failed != last.failed)
        yield last
        if once:
            return
        sleep(_POLL_SECONDS)


def _round(
    root: Path,
    names: Sequence[str],
    known: dict[str, _Known],
    context: Context,
    *,
    until: datetime,
    is_named: bool,
    **allowed: bool,
) -> Iterator[Outcome]:
    """Look at each table once and do what is due; keeps in ``known`` what was learnt."""
    for name in names:
        try:
            before = known.get(name)
            snapshot = _opened(root, name, before.snapshot if before else None, durable=context.durable)
            is_same = before is not None and before.snapshot is snapshot and before.is_settled
            if is_same and not has_work(snapshot, until):
                continue
            known[name] = _Known(snapshot, is_settled=False)
            if is_named and snapshot.spec.landing is None:
                msg = f"table {name} has no landing folder"
                raise UsageError(msg, "give it one, or do not name it", name, hint="landing")
            is_settled = True
            for outcome in run_table(snapshot, context, until=until, **allowed):
                yield outcome
                is_settled = not outcome.is_stopped
            known[name] = _Known(snapshot, is_settled)
        except WarehouseError as error:
            yield Outcome(table=name, slot=None, files=0, error=str(error), cause=error)


def _opened(root: Path, name: str, known: Snapshot | None, *, durable: bool) -> Snapshot:
    try:
        table = find_table(root, name, durable=durable)
        return (known.table if known else table).snapshot()
    except OSError as error:
        raise EngineError(f"table {name} cannot be opened", error, "check its folder") from error
