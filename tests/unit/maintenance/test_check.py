"""Seeded damage of every kind: found by a check, named with its file and what to do; repaired where that needs no guess."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import ebb
from ebb import OpenTable
from ebb.index.cellfile import CellFile
from ebb.index.grid import Cell
from ebb.index.ledger import Change
from ebb.maintenance.inspect.findings import REPAIRABLE, Finding
from ebb.warehouse.check.last import last_check
from ebb.warehouse.parquet.arrow import arrow_schema
from ebb.warehouse.parquet.builder import FileBuilder
from ebb.warehouse.parquet.datafile import DataFile
from ebb.warehouse.parquet.sizes import WriteSizes
from ebb.warehouse.store.paths import LAST_CHECKPOINT, cell_folder, entry_name, side_file
from ebb.warehouse.table.commit import append, new_id
from ebb.warehouse.table.log import commit_action
from tests.builders import NOW, arrow_batch, integer_table, open_warehouse, scanned_ids, timestamp_table
from tests.foreign import delta
from tests.model import Model, Record

UPDATES, TICKS = 30, 54  # the first bring a batch; all of them are enough for a checkpoint and a state of the ledger
CLOCK = TICKS


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a warehouse to copy: a table with key ranges, a checkpoint, a state and refused records."""
    root = tmp_path_factory.mktemp("check") / "w"
    wish = {"strategy": "norebuild", "grid": "3x2", "span": "90", "deletion_bound": "95", "quarantine_time": "90"}
    table = integer_table(open_warehouse(root), reader_time="1", **wish)
    model = Model(table.table.snapshot().spec.timeline)
    for slot in range(1, TICKS + 1):
        batch = [Record(10 * slot + n, f"k{(7 * n + slot) % 9}", slot, slot + 40 + n) for n in range(6)]
        batch += [Record(10 * slot + 9, None, slot, slot + 1)] * (slot <= 5)  # without a key: refused
        batch = batch if slot <= UPDATES else []
        table.update(arrow_batch(batch) if batch else None, at=slot)
        model.apply(slot, batch)
    assert table.table.snapshot().ledger.ranges
    assert (table.table.log / LAST_CHECKPOINT).exists()
    assert scanned_ids(table) == sorted(record.id for record in model.window())
    assert table.check(deep=True).findings == ()
    return root


@dataclass
class Copy:
    """A copy of the warehouse, and ways to damage it."""

    root: Path
    table: OpenTable = field(init=False)

    def __post_init__(self) -> None:
        self.table = open_warehouse(self.root).table("t")
        self.snapshot = self.table.table.snapshot()

    @property
    def file(self) -> CellFile:
        return self.snapshot.files[0]

    def path(self, name: str) -> Path:
        return self.table.table.folder / name

    def flip(self, name: str, at: int) -> None:
        data = bytearray(self.path(name).read_bytes())
        data[at] ^= 4
        self.path(name).write_bytes(data)

    def entry(self, version: int) -> str:
        return f"_delta_log/{entry_name(version)}"

    def state(self) -> str:
        assert self.snapshot.state is not None
        return f"_ebb/ledger/{self.snapshot.state.name}"

    def ranges(self) -> str:
        return f"_ebb/ranges/{self.snapshot.ledger.ranges[0].name}"

    def refused(self) -> Path:
        return min(self.table.table.quarantine.glob("_slot=*/*.parquet"))

    def write(self, rows: Sequence[Record], cell: Cell | None = None, **wrong: Any) -> CellFile:
        """Write a data file as Ebb does, whatever is in it."""
        spec = self.snapshot.spec
        columns: dict[str, list[Any]] = {
            "id": [r.id for r in rows], "key": [r.key for r in rows], "inserted": [r.inserted for r in rows],
            "expires": [r.expires for r in rows], "pay": ["p"] * len(rows),
            "_ins_slot": [CLOCK + 1] * len(rows), "_exp_slot": [r.expires for r in rows],
        }  # fmt: skip
        table = pa.table(columns | wrong, schema=arrow_schema(spec.columns))
        builder = FileBuilder(table.schema, spec.key, WriteSizes())
        builder.encode([table])
        slots = builder.row_groups[0].slots
        cell = cell or spec.grid.cell_of(slots[0], slots[2])
        folder = cell_folder("u55-seeded", cell)
        self.path(folder).mkdir(parents=True)
        path, size = builder.close(str(self.table.table.folder), folder)
        return CellFile(
            path=path, cell=cell, size_bytes=size, records=len(rows), min_ins=slots[0], max_ins=slots[1], min_exp=slots[2],
            max_exp=slots[3],
        )  # fmt: skip

    def commit(self, files: Sequence[CellFile], arrivals: Mapping[int, int], **said: Any) -> None:
        """Commit files as an update of Ebb."""
        clock, admitted = CLOCK + 1, sum(arrivals.values())
        expired = self.snapshot.ledger.expired_by(clock)
        live = self.snapshot.ledger.live_records - expired + admitted
        report = {
            "op": "update", "slot": clock, "ticks": 1, "received": admitted, "admitted": admitted, "expired_on_arrival": 0,
            "quarantined": 0, "expired": expired, "live": live,
        }  # fmt: skip
        change = Change(clock=clock, arrivals=arrivals)
        self.snapshot.commit(adds=files, removes=(), change=change, report=report | said, data_change=True, now_ms=0)


ROWS = [Record(900, "a", CLOCK, CLOCK + 40), Record(901, "b", CLOCK, CLOCK + 40), Record(902, "c", CLOCK, CLOCK + 40)]
ARRIVALS = {CLOCK + 40: 3}
Seed = Callable[[Copy], str]  # damages, and returns what the finding must name


def _page(c: Copy) -> str:
    c.flip(c.file.path, 60)
    return c.file.path


def _footer(c: Copy) -> str:
    c.flip(c.file.path, c.file.size_bytes - 30)
    return c.file.path


def _contents(c: Copy) -> str:
    data = DataFile.open(str(c.table.table.folder), c.file)
    c.flip(c.file.path, c.file.size_bytes - len(data.tail) - 20)
    return c.file.path


def _filter_or_page(c: Copy) -> str:
    """Damage the last byte before the contents: of a filter, if there is one."""
    data = DataFile.open(str(c.table.table.folder), c.file)
    c.flip(c.file.path, c.file.size_bytes - len(data.tail) - len(data.contents.block) - 1)
    return c.file.path


def _truncated(c: Copy) -> str:
    path = c.path(c.file.path)
    path.write_bytes(path.read_bytes()[:-100])
    return c.file.path


def _missing(c: Copy) -> str:
    c.path(c.file.path).unlink()
    return c.file.path


def _swapped(c: Copy) -> str:
    other = c.snapshot.files[1].path
    one, two = c.path(c.file.path).read_bytes(), c.path(other).read_bytes()
    c.path(c.file.path).write_bytes(two)
    c.path(other).write_bytes(one)
    return other


def _no_side_file(c: Copy) -> str:
    c.path(side_file(c.file.path)).unlink()
    return side_file(c.file.path)


def _bad_side_file(c: Copy) -> str:
    c.flip(side_file(c.file.path), 40)
    return side_file(c.file.path)


def _stray(c: Copy) -> str:
    c.path("u3-gone/_g=0/_e=0").mkdir(parents=True)
    shutil.copy(c.path(c.file.path), c.path("u3-gone/_g=0/_e=0/part-1.parquet"))
    return "u3-gone/_g=0/_e=0/part-1.parquet"


def _wrong_cell(c: Copy) -> str:
    right = c.snapshot.spec.grid.cell_of(CLOCK + 1, CLOCK + 40)
    file = c.write(ROWS, Cell(right.group, 1 - right.cohort))
    c.commit([file], ARRIVALS)
    return file.path


def _one_in_wrong_cell(c: Copy) -> str:
    """Neither the least nor the greatest slot is wrong: only the record itself tells."""
    grid, first = c.snapshot.spec.grid, CLOCK + 40
    last = next(
        slot for slot in range(first + 2, first + 9) if grid.cohorts.partition(slot) == grid.cohorts.partition(first)
    )
    between = next(slot for slot in range(first, last) if grid.cohorts.partition(slot) != grid.cohorts.partition(first))
    slots = [first, between, last]
    file = c.write([replace(r, expires=s) for r, s in zip(ROWS, slots, strict=True)])
    c.commit([file], dict.fromkeys(slots, 1))
    return file.path


def _unsorted(c: Copy) -> str:
    file = c.write([ROWS[0], ROWS[2], ROWS[1], replace(ROWS[2], key="d")])
    c.commit([file], {CLOCK + 40: 4})
    return file.path


def _wrong_slot(c: Copy) -> str:
    file = c.write(ROWS, _exp_slot=[CLOCK + 40, CLOCK + 41, CLOCK + 40], expires=[CLOCK + 40] * 3)
    file = replace(file, cell=c.snapshot.spec.grid.cell_of(CLOCK + 1, CLOCK + 40))
    c.commit([file], {CLOCK + 40: 2, CLOCK + 41: 1})
    return file.path


def _wrong_statistics(c: Copy) -> str:
    file = replace(c.write(ROWS), records=4)
    c.commit([file], ARRIVALS)
    return file.path


def _wrong_counts(c: Copy) -> str:
    c.commit([c.write(ROWS)], {CLOCK + 40: 500})
    return "_ebb/ledger"


def _wrong_slot_counts(c: Copy) -> str:
    """The sum is right, and a slot has a record that another one should have."""
    c.commit([c.write(ROWS)], {CLOCK + 40: 2, CLOCK + 41: 1})
    return "_ebb/ledger"


def _bad_state(c: Copy) -> str:
    c.flip(c.state(), 50)
    return Path(c.state()).name


def _middle_entry(c: Copy) -> str:
    c.path(c.entry(52)).unlink()
    return c.entry(52)


def _oldest_entry(c: Copy) -> str:
    c.path(c.entry(0)).unlink()
    return c.entry(0)


def _changed_entry(c: Copy) -> str:
    path = c.path(c.entry(20))
    path.write_text(
        path.read_text(encoding="utf-8").replace('"dataChange":true', '"dataChange":false'), encoding="utf-8"
    )
    return c.entry(20)


def _unreadable_entry(c: Copy) -> str:
    c.path(c.entry(20)).write_text("{", encoding="utf-8")
    return c.entry(20)


def _newest_entry(c: Copy) -> str:
    c.path(c.entry(c.snapshot.version)).unlink()
    return "_delta_log"


def _no_head(c: Copy) -> str:
    c.path("_ebb/head").unlink()
    return "_ebb/head"


def _bad_head(c: Copy) -> str:
    c.flip("_ebb/head", 60)
    c.flip("_ebb/head", 572)
    return "_ebb/head"


def _bad_head_place(c: Copy) -> str:
    c.flip("_ebb/head", 60)
    return "_ebb/head"


def _no_refused(c: Copy) -> str:
    refused = c.refused()
    refused.unlink()
    return f"t.quarantine/{refused.parent.name}"


def _short_refused(c: Copy) -> str:
    c.refused().write_bytes(c.refused().read_bytes()[:-20])
    return f"t.quarantine/{c.refused().parent.name}"


def _flipped_refused(c: Copy) -> str:
    data = bytearray(c.refused().read_bytes())
    data[60] ^= 4
    c.refused().write_bytes(data)
    return f"t.quarantine/{c.refused().parent.name}"


def _lost_refused(c: Copy) -> str:
    """The quarantine's own log no longer knows of them."""
    for entry in sorted((c.table.table.quarantine / "_delta_log").glob("*.json"))[-1:]:
        entry.unlink()
    return "the quarantine"


def _no_ranges(c: Copy) -> str:
    c.path(c.ranges()).unlink()
    return c.ranges()


def _bad_ranges(c: Copy) -> str:
    c.flip(c.ranges(), 30)
    return c.ranges()


def _foreign(c: Copy) -> str:
    delta(c.table).delete("id = 203")
    return f"version {c.snapshot.version + 1}"


def _no_last_checkpoint(c: Copy) -> str:
    c.path(f"_delta_log/{LAST_CHECKPOINT}").unlink()
    return f"_delta_log/{LAST_CHECKPOINT}"


def _bad_checkpoint(c: Copy) -> str:
    path = next(c.table.table.log.glob("*.checkpoint*.parquet"))
    path.write_bytes(path.read_bytes()[:-50])
    return f"_delta_log/{LAST_CHECKPOINT}"


def _gap_in_history(c: Copy) -> str:
    c.commit([c.write(ROWS)], ARRIVALS, ticks=3)
    return c.entry(c.snapshot.version + 1)


def _wrong_sum(c: Copy) -> str:
    c.commit([c.write(ROWS)], ARRIVALS, received=4)
    return c.entry(c.snapshot.version + 1)


def _wrong_live(c: Copy) -> str:
    c.commit([c.write(ROWS)], ARRIVALS, live=7)
    return c.entry(c.snapshot.version + 1)


def _wrong_clock(c: Copy) -> str:
    id, version, state = new_id(), c.snapshot.version + 1, c.snapshot.state
    assert state is not None
    ledger = {"state": [state.version, state.name], "clock": CLOCK}
    said = commit_action("erase", {"id": id, "op": "erase", "slot": CLOCK, "ledger": ledger}, 0)
    append(
        c.table.table.log,
        version,
        [said, {"txn": {"appId": "ebb", "version": 7}}],
        id=id,
        table="t",
        disk=c.table.table.disk,
    )
    return c.entry(version)


def _link(c: Copy) -> str:
    c.path("u3-link").symlink_to(c.root)
    return "u3-link"


# What is damaged, the code of the finding, and whether it takes a look at every byte and record.
DAMAGES: dict[str, tuple[Seed, str, bool]] = {
    "a flipped byte in a page": (_page, "file-damaged", True),
    "a flipped byte before the contents": (_filter_or_page, "file-damaged", True),
    "a flipped byte in a footer": (_footer, "file-damaged", False),
    "a flipped byte in the contents": (_contents, "file-damaged", False),
    "a truncated file": (_truncated, "file-damaged", False),
    "a missing file": (_missing, "file-missing", False),
    "two files swapped": (_swapped, "file-damaged", False),
    "a lost side file": (_no_side_file, "side-file", False),
    "a damaged side file": (_bad_side_file, "side-file", False),
    "a stray file": (_stray, "stray-file", False),
    "a file in another cell": (_wrong_cell, "cell", False),
    "a record in another cell": (_one_in_wrong_cell, "cell", True),
    "an unsorted run": (_unsorted, "order", True),
    "a wrong slot": (_wrong_slot, "slots", True),
    "wrong statistics in the log": (_wrong_statistics, "statistics", False),
    "wrong counts in the ledger": (_wrong_counts, "ledger", False),
    "wrong counts of a slot in the ledger": (_wrong_slot_counts, "ledger", True),
    "a damaged state of the ledger": (_bad_state, "unreadable", False),
    "a missing log entry in the middle": (_middle_entry, "log-entry", False),
    "a missing log entry at the start": (_oldest_entry, "log-entry", False),
    "a missing log entry at the end": (_newest_entry, "rolled-back", False),
    "a changed log entry": (_changed_entry, "log-entry", False),
    "an unreadable log entry": (_unreadable_entry, "log-entry", False),
    "a lost head record": (_no_head, "head", False),
    "a damaged head record": (_bad_head, "head", False),
    "half a head record": (_bad_head_place, "head-place", False),
    "a missing file of the quarantine": (_no_refused, "quarantine", False),
    "a truncated file of the quarantine": (_short_refused, "quarantine", False),
    "a flipped byte in the quarantine": (_flipped_refused, "quarantine", True),
    "a quarantine whose log was cut": (_lost_refused, "quarantine", False),
    "lost key ranges": (_no_ranges, "key-ranges", False),
    "damaged key ranges": (_bad_ranges, "key-ranges", False),
    "a commit of another tool": (_foreign, "foreign-commit", False),
    "a lost pointer to the checkpoint": (_no_last_checkpoint, "checkpoint", False),
    "a damaged checkpoint": (_bad_checkpoint, "checkpoint", False),
    "a gap in the history": (_gap_in_history, "history", False),
    "a commit whose counts do not add up": (_wrong_sum, "counts", False),
    "a commit with other live records": (_wrong_live, "counts", False),
    "a transaction with another clock": (_wrong_clock, "clock", False),
    "a symbolic link": (_link, "link", False),
}  # fmt: skip


def damaged(built: Path, to: Path, kind: str) -> tuple[Copy, str, str, bool]:
    shutil.copytree(built, to)
    copy = Copy(to)
    seed, code, deep = DAMAGES[kind]
    return copy, seed(copy), code, deep


def found_in(root: Path, *, deep: bool) -> tuple[Finding, ...]:
    return open_warehouse(root).table("t").check(deep=deep).findings


def test_every_kind_of_seeded_damage_is_found_and_named(
    built: Path, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    missed = []
    for number, kind in enumerate(DAMAGES):
        copy, where, code, deep = damaged(built, tmp_path / str(number), kind)
        findings = found_in(copy.root, deep=deep)
        if not any(found.code == code and where in found.where and found.fact and found.step for found in findings):
            missed.append((kind, where, [str(found) for found in findings]))
        if deep:
            quick = found_in(copy.root, deep=False)
            assert not any(found.code == code and where in found.where for found in quick), f"{kind} needs no --deep"
        shutil.rmtree(copy.root)

    assert missed == []
    record_property("figures", f"seeded damages: {len(DAMAGES)} kinds, found {len(DAMAGES) - len(missed)}")


@pytest.mark.parametrize("kind", [kind for kind, (_, code, _) in DAMAGES.items() if code in REPAIRABLE])
def test_what_needs_no_guess_is_repaired(built: Path, tmp_path: Path, kind: str) -> None:
    before = scanned_ids(open_warehouse(built).table("t"))
    copy, _, code, deep = damaged(built, tmp_path / "w", kind)
    table = open_warehouse(copy.root).table("t")

    would = table.repair(dry_run=True)
    assert code in {found.code for found in would.fixed}
    assert any(found.code == code for found in found_in(copy.root, deep=deep)), "a dry run changes nothing"
    done = open_warehouse(copy.root).table("t").repair()

    assert (done.left, done.warnings) == ((), ())
    assert code in {found.code for found in done.fixed}
    assert found_in(copy.root, deep=True) == ()
    assert scanned_ids(open_warehouse(copy.root).table("t")) == before


@pytest.mark.parametrize(
    "kind", ["a missing file", "a changed log entry", "a lost head record", "a record in another cell"]
)
def test_what_needs_a_guess_is_left_with_its_reason(built: Path, tmp_path: Path, kind: str) -> None:
    copy, where, code, deep = damaged(built, tmp_path / "w", kind)
    version = copy.table.table.snapshot().version

    done = open_warehouse(copy.root).table("t").repair()

    assert done.fixed == ()
    assert deep or any(found.code == code and where in found.where for found in done.left)
    assert (done.version, found_in(copy.root, deep=deep)[0].code) == (version, code)


@pytest.mark.parametrize("kind", ["a lost head record", "a damaged head record"])
def test_a_head_record_is_written_again_once_the_log_is_confirmed(built: Path, tmp_path: Path, kind: str) -> None:
    copy, *_ = damaged(built, tmp_path / "w", kind)
    table = open_warehouse(copy.root).table("t")
    with pytest.raises(ebb.LostHeadError):
        table.update(at=CLOCK + 1)

    assert [found.code for found in table.repair(confirm_restore=True).fixed] == ["head"]

    assert found_in(copy.root, deep=True) == ()
    assert table.update(at=CLOCK + 1).slot == CLOCK + 1


def test_a_check_changes_nothing_and_notes_when_it_was_made(built: Path, tmp_path: Path) -> None:
    shutil.copytree(built, tmp_path / "w")
    table = open_warehouse(tmp_path / "w").table("t")
    (table.table.hidden / "checked").unlink()
    before = {path: path.read_bytes() for path in sorted((tmp_path / "w").rglob("*")) if path.is_file()}
    assert last_check(table.table) is None

    for deep in (False, True):
        assert table.check(deep=deep).is_sound

    after = {path: path.read_bytes() for path in sorted((tmp_path / "w").rglob("*")) if path.is_file()}
    assert {path.name for path in after if after[path] != before.get(path)} == {"checked"}
    noted = last_check(table.table, deep=True)
    assert noted is not None
    assert (noted.version, noted.deep, noted.damages, noted.warnings) == (table.table.snapshot().version, True, 0, 0)


def test_who_may_not_write_may_check(built: Path, tmp_path: Path) -> None:
    """The note is a courtesy: without it the check is the same."""
    shutil.copytree(built, tmp_path / "w")
    table = open_warehouse(tmp_path / "w").table("t")
    (table.table.hidden / "checked").unlink()
    (table.table.hidden / "checked").mkdir()  # no file can take its place

    assert table.check().is_sound
    assert last_check(table.table) is None


def test_a_table_is_sound_while_somebody_writes_to_it(tmp_path: Path) -> None:
    """Files leave the table and the disk, side files and key ranges with them, while they are looked at."""
    table = integer_table(open_warehouse(tmp_path / "w"), span="30", strategy="retire", policy="2x2", reader_time="1")
    failures: list[BaseException] = []

    def work() -> None:
        try:
            for slot in range(1, 60):
                batch = [Record(100 * slot + n, f"k{n}", slot, slot + 1 + n) for n in range(12)]
                table.update(arrow_batch(batch), at=slot)
        except BaseException as error:  # told below
            failures.append(error)

    writer = threading.Thread(target=work)
    writer.start()
    checks = 0
    while writer.is_alive() or not checks:
        assert [str(found) for found in found_in(tmp_path / "w", deep=checks % 2 == 1)] == []
        checks += 1
    writer.join()

    assert failures == []
    assert found_in(tmp_path / "w", deep=True) == ()


def test_a_landing_folder_is_looked_into(tmp_path: Path) -> None:
    table = integer_table(open_warehouse(tmp_path / "w"), landing=str(tmp_path / "in"))
    for place in ("_taken/7.part", "_applied/7", "_refused/-3.1", "_taken/odd"):
        (tmp_path / "in" / place).mkdir(parents=True)

    assert [(found.code, found.where) for found in table.check().findings] == [
        ("landing", str(tmp_path / "in" / "_taken" / "odd"))
    ]
    shutil.rmtree(tmp_path / "in")
    assert [(found.code, found.fact) for found in table.check().findings] == [("landing", "cannot be looked into")]


def test_a_bound_that_is_broken_is_a_finding(tmp_path: Path) -> None:
    table = timestamp_table(open_warehouse(tmp_path / "w"), deletion_bound="8h")
    kind = pa.timestamp("us", "UTC")
    rows = {"id": [1], "key": ["a"], "inserted": [NOW - timedelta(minutes=5)], "expires": [NOW + timedelta(hours=1)]}
    table.update(
        pa.table(rows).cast(
            pa.schema([("id", pa.int64()), ("key", pa.string()), ("inserted", kind), ("expires", kind)])
        ),
        at=NOW,
    )
    assert table.check().is_sound

    late = open_warehouse(tmp_path / "w", NOW + timedelta(hours=20)).table("t")

    assert [found.code for found in late.check().findings] == ["bound"]
