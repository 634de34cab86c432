"""A batch of which no record would be kept, because all had expired when they came: refused unless that is meant."""

from __future__ import annotations

from pathlib import Path

import pytest

from ebb import OpenTable, Warehouse
from ebb.index.errors import ExpiredBatchError
from ebb.maintenance.landing.run import Outcome
from ebb.maintenance.schedule import Round
from ebb.warehouse.settings import Settings
from tests.builders import (
    NOW,
    arrow_batch,
    integer_table,
    open_warehouse,
    records,
    scanned_ids,
    version_of,
    write_batch,
)
from tests.model import Record


@pytest.fixture
def table(tmp_path: Path) -> OpenTable:
    warehouse = Warehouse(Settings(warehouse=tmp_path / "w", engine="direct"), now=lambda: NOW)
    found = integer_table(warehouse, landing=str(tmp_path / "landing"))
    found.update(arrow_batch(records((1, "a", 1, 6))), at=1)
    return found


def late(count: int, first: int = 10, slot: int = 3) -> list[Record]:
    """Return records that have expired by the end of a slot."""
    return [Record(first + n, f"k{n}", slot - 1, slot) for n in range(count)]


def ran(table: OpenTable, *, yes: bool = False) -> tuple[list[Outcome], Round]:
    """Run the landing folder once; return what came of it."""
    events = list(table.warehouse.run(once=True, yes=yes))
    (done,) = (event for event in events if isinstance(event, Round))
    return [event for event in events if isinstance(event, Outcome)], done


def test_a_batch_that_has_expired_as_a_whole_is_refused(table: OpenTable) -> None:
    before = version_of(table)

    with pytest.raises(ExpiredBatchError) as caught:
        table.update(arrow_batch(late(20)), at=3, catch_up=True)

    assert caught.value.args == (20, 3, "3", 0)
    assert "all 20 records of the batch had expired by the end of its tick, 3 (slot 3)" in str(caught.value)
    assert "times are wrong" in str(caught.value)
    assert version_of(table) == before
    with pytest.raises(ExpiredBatchError):
        table.update(arrow_batch(late(20)), at=3, catch_up=True, dry_run=True)
    report = table.update(arrow_batch(late(20)), at=3, catch_up=True, yes=True)
    assert (report.expired_on_arrival, report.admitted) == (20, 0)


def test_a_stream_that_would_send_it_again_for_ever_goes_on(table: OpenTable) -> None:
    report = table.update(arrow_batch(late(20)), 7, at=3, catch_up=True)

    assert (report.expired_on_arrival, report.admitted, table.status().clock) == (20, 0, 3)
    (warning,) = report.warnings
    assert warning.startswith(
        "all 20 records of the batch had expired by the end of its tick, 3 (slot 3); none was kept"
    )
    assert table.update(arrow_batch(late(20)), 7, at=3).already_applied


def test_a_few_late_records_are_no_reason_to_stop(table: OpenTable) -> None:
    assert table.update(arrow_batch(late(19)), at=3, catch_up=True).expired_on_arrival == 19


def test_one_record_that_is_kept_is_enough(table: OpenTable) -> None:
    batch = [*late(500), *records((1, "b", 3, 6))]

    assert table.update(arrow_batch(batch), at=3, catch_up=True).admitted == 1


def test_refused_records_are_told_and_do_not_count(table: OpenTable) -> None:
    batch = [*late(20), *records((1, None, 3, 6), (2, "b", 3, 99))]

    with pytest.raises(ExpiredBatchError, match=r"all 20 records .*, and 2 others were refused; "):
        table.update(arrow_batch(batch), at=3, catch_up=True)
    assert table.quarantine().quarantined == 0


def test_a_load_is_asked_about_too(tmp_path: Path) -> None:
    table = integer_table(open_warehouse(tmp_path))

    with pytest.raises(ExpiredBatchError):
        table.load(arrow_batch(late(20)), at=30)
    assert table.status().clock is None
    assert table.load(arrow_batch(late(20)), at=30, yes=True).expired_on_arrival == 20


def test_a_landed_batch_is_set_aside_and_the_clock_goes_on(table: OpenTable, tmp_path: Path) -> None:
    landing = tmp_path / "landing"
    write_batch(landing / "3-x.parquet", late(15))
    write_batch(landing / "3-y.parquet", late(15, first=50))
    write_batch(landing / "4-z.parquet", records((7, "z", 4, 8)))

    outcomes, done = ran(table)

    assert done.failed
    told = [(o.slot, o.set_aside is not None, o.report is not None) for o in outcomes]
    assert told == [(3, True, False), (3, True, False), (3, False, True), (4, False, True)]
    assert "all 30 records of the batch had expired" in str(outcomes[0].error)
    assert scanned_ids(table) == [1, 7]
    refused = sorted(path.name for path in (landing / "_refused").glob("*/*"))
    assert refused == ["3-x.parquet", "3-y.parquet", "_reasons.jsonl"]


def test_a_landed_batch_is_counted_if_that_is_meant(table: OpenTable, tmp_path: Path) -> None:
    write_batch(tmp_path / "landing" / "3-x.parquet", late(30))

    (outcome,), done = ran(table, yes=True)

    assert not done.failed
    assert outcome.report is not None
    assert outcome.report.expired_on_arrival == 30
