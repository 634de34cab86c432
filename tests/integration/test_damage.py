"""Damage: a file is read as it was written or an error names it; a cache is believed only if it is sound; nothing leads
out of a table.

Tables are built once and copied for every experiment. Damage that could end the process is done in child processes:

    python -m tests.integration.test_damage ROOT TURN TURNS SEED

The child reads ROOT after each damage that SEED draws and whose number is TURN modulo TURNS, and prints one line each.
"""

from __future__ import annotations

import io
import json
import os
import random
import shutil
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ebb import OpenTable, Warehouse
from ebb.cli.main import main
from ebb.index.cellfile import CellFile
from ebb.index.columns import SLOT_COLUMNS
from ebb.index.contents import load_side_file
from ebb.index.errors import CorruptionError, LeaseEndedError
from ebb.index.foreign import ForeignCommitWarning
from ebb.warehouse.parquet.datafile import DataFile
from ebb.warehouse.parquet.footer import CONTENTS
from ebb.warehouse.parquet.sizes import ReadSizes
from ebb.warehouse.store.paths import SIDE_SUFFIX, side_file
from tests.builders import integer_table, open_warehouse, refused_records, scanned_ids, version_of, write_batch
from tests.model import Model, Record
from tests.seeds import drawn_seed

ROOT = Path(__file__).parents[2]

WISHES: dict[str, dict[str, Any]] = {
    "points": {"strategy": "retire", "grid": "4x4", "deletion_bound": "8"},
    "runs": {"strategy": "rebuild", "grid": "2x2"},
    "pairs": {"strategy": "norebuild", "grid": "2x2", "deletion_bound": "12", "key": ["key", "id"]},
    "grown": {"strategy": "norebuild", "grid": "2x2", "deletion_bound": "12"},
    "pages": {"strategy": "norebuild", "grid": "2x2", "deletion_bound": "12"},
}
FLIPS = {"header": 150, "page": 110, "filter": 60, "contents": 60, "footer": 60, "tail": 20}  # how often, by where
OTHER = {"cut": 24, "longer": 8, "zeros": 24, "swap": 24}
_HEADER_BYTES = 24  # of a page; most have a few more
_SECTOR = 512


def _batch(name: str, slot: int) -> list[Record]:
    """Return many keys with a few records each, or few keys of which one has thousands."""
    rng = random.Random(f"{name} {slot}")
    if name == "runs":
        return [Record(100_000 * slot + i, f"k{max(0, i % 20 - 15):03}", slot, slot + 1 + i % 5) for i in range(12_000)]
    return [
        Record(100_000 * slot + i, f"k{rng.randrange(300):03}", slot, slot + rng.randrange(1, 7)) for i in range(400)
    ]


def _write(path: Path, name: str, slot: int) -> Path:
    """Write a batch; with a column that was added later, or with records so wide that a few make a page."""
    write_batch(path, _batch(name, slot))
    data = pq.read_table(path)
    ids = data["id"].to_pylist()
    if name == "grown" and slot > 1:
        pq.write_table(data.append_column("more", pa.array([id / 8 for id in ids])), path)
    if name == "pages":
        place = data.schema.get_field_index("pay")
        wide = [random.Random(id).randbytes(1200).hex() for id in ids]
        pq.write_table(data.set_column(place, "pay", pa.array(wide)), path)
    return path


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory, spark: Any) -> Path:
    """Return a warehouse to copy: a table per strategy and shape, with Bloom filters, long runs, an added column, pages."""
    folder = tmp_path_factory.mktemp("damage")
    warehouse = open_warehouse(folder / "w")
    for name, wish in WISHES.items():
        table = integer_table(warehouse, name, **wish)
        model = Model(table.table.snapshot().spec.timeline)
        for slot in (1, 2, 3):
            if name == "grown" and slot == 2:
                table.alter(add_column="more DOUBLE")
            file = _write(folder / "batch.parquet", name, slot)
            table.update(file, at=slot)
            model.apply(slot, _batch(name, slot))
        assert scanned_ids(table) == sorted(record.id for record in model.window())
    footers = {file.path: _footer(table, file) for table in warehouse.tables() for file in _live(table)}
    assert any(_column(footer, "key").bloom_filter_length for footer in footers.values()), "no Bloom filters"
    assert max(footer.num_row_groups for footer in footers.values()) > 1, "no file with several row groups"
    pages = warehouse.table("pages")
    assert all(len(_pages(pages, file, 0, "pay")) > 2 for file in _live(pages)), "no chunks of several pages"
    window = pages.at_latest()
    assert window.probe(_batch("pages", 3)[0].key).num_rows
    assert window.cost.bytes_read < sum(file.size_bytes for file in _live(pages)) / 2, "probes read whole chunks"
    return folder / "w"


@pytest.fixture
def root(built: Path, tmp_path: Path) -> Path:
    """Return a copy of the warehouse."""
    return _copy(built, tmp_path / "w")


def _copy(built: Path, to: Path) -> Path:
    shutil.copytree(built, to)
    return to


def _live(table: OpenTable) -> tuple[CellFile, ...]:
    return table.table.snapshot().files


def _footer(table: OpenTable, file: CellFile) -> Any:
    return pq.read_metadata(table.table.folder / file.path)


def _column(footer: Any, name: str, group: int = 0) -> Any:
    return next(
        footer.row_group(group).column(i) for i in range(footer.num_columns) if footer.schema.column(i).path == name
    )


def _sorted(table: pa.Table) -> pa.Table:
    return table.sort_by("id").combine_chunks()


def _keys(name: str, records: pa.Table) -> list[Any]:
    """Return the key of each record."""
    keys = records["key"].to_pylist()
    return list(zip(keys, records["id"].to_pylist(), strict=True)) if name == "pairs" else keys


class Asked:
    """The same questions again and again, each to a warehouse that is opened anew, with the right answers."""

    def __init__(self, root: Path, name: str) -> None:
        self.root, self.name = root, name
        table = open_warehouse(root).table(name)
        self.records = _sorted(table.scan().read_all())
        self.all_keys = _keys(name, self.records)
        self.keys = {file.path: self._some_keys(table, file) for file in _live(table)}
        self.visible = {file.path for file in table.at_latest().visible_files()}
        self._session: Any = None  # of one round of questions: an engine takes long to start
        self._ways: dict[tuple[str, str], list[tuple[str, Callable[[], Any], Any]]] = {}  # by file and column

    def _some_keys(self, table: OpenTable, file: CellFile) -> list[Any]:
        """Return keys of visible records in a file."""
        held = set(_keys(self.name, pq.read_table(table.table.folder / file.path, partitioning=None)))
        found = sorted(held & set(self.all_keys))
        return found[:: max(1, len(found) // 3)][:3]

    def right(self, is_wanted: Callable[[Any], bool]) -> pa.Table:
        """Return the records whose keys are wanted."""
        return self.records.filter(pa.array([is_wanted(key) for key in self.all_keys], pa.bool_()))

    def table(self) -> OpenTable:
        """Return the table as somebody finds it who has never seen it."""
        return open_warehouse(self.root).table(self.name)

    def sql(self, what: str, condition: str = "true") -> pa.Table:
        """Ask for something in SQL."""
        text = f"SELECT {what} FROM {self.name} WHERE {condition}"  # noqa: S608 - names and keys of this file
        if self._session is None:
            self._session = open_warehouse(self.root).sql_session()
        return self._session.answer(text).read_all()

    def ways(self, path: str, column: str) -> Iterator[tuple[str, Callable[[], Any], Any]]:
        """Yield by which way is read, how, and what is right; most of it needs the file at ``path``."""
        in_order = sorted(set(self.all_keys))
        low, high = in_order[len(in_order) // 3], in_order[len(in_order) // 2]
        asked = {*self.keys[path], in_order[0], ("k~", 1) if self.name == "pairs" else "k~"}
        text = next((key[0] if self.name == "pairs" else key for key in self.keys[path]), "k~")
        of_text = self.right(lambda key: (key[0] if self.name == "pairs" else key) == text)
        values = sorted(value for value in self.records[column].to_pylist() if value is not None)
        facts = [{"n": len(self.records), "most": values[-1] if values else None}]
        schema = self.records.schema
        yield "scan", lambda: _sorted(self.table().scan().read_all()), self.records
        yield "scan one column", lambda: _values(self.table().scan(columns=[column]).read_all()[column]), values
        yield "probe keys", lambda: _sorted(self.table().probe(*asked)), self.right(lambda key: key in asked)
        yield (
            "probe a range",
            lambda: _sorted(self.table().probe(low=low, high=high)),
            self.right(lambda key: low <= key <= high),
        )
        yield "sql", lambda: _sorted(self.sql("*")).cast(schema), self.records
        yield "sql for a key", lambda: _sorted(self.sql("*", f"key = '{text}'")).cast(schema), of_text
        yield "sql for facts", lambda: self.sql(f"count(*) AS n, max({column}) AS most").to_pylist(), facts

    def verdicts(self, path: str, column: str = "id", named: Sequence[str] = ()) -> dict[str, str]:
        """Read by every way: right, error (which names the file), or what went wrong."""
        self._session = None
        if (path, column) not in self._ways:
            self._ways[path, column] = list(self.ways(path, column))
        return {way: _verdict(ask, right, named or [path]) for way, ask, right in self._ways[path, column]}


def _values(column: Any) -> list[Any]:
    return sorted(value for value in column.to_pylist() if value is not None)


def _verdict(ask: Callable[[], Any], right: Any, named: Sequence[str]) -> str:
    try:
        found = ask()
    except CorruptionError as error:
        return "error" if any(path in str(error) for path in named) else f"names no file: {error}"
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "right" if found == right else "WRONG"


@dataclass(frozen=True)
class Damage:
    """What is done to one file, or to two."""

    kind: str
    table: str
    path: str
    at: int = 0
    by: int = 0  # what a byte is xored with
    other: str = ""
    column: str = "id"  # the one that is hit
    is_cache_lost: bool = False

    def do(self, folder: Path) -> Callable[[], None]:
        """Do it, and return how it is undone."""
        names = [name for name in (self.path, self.other) if name]
        before = {name: (folder / name).read_bytes() for name in names}
        data = bytearray(before[self.path])
        match self.kind:
            case "cut":
                del data[self.at :]
            case "longer":
                data += data[: self.at]
            case "zeros":
                data[self.at : self.at + _SECTOR] = bytes(len(data[self.at : self.at + _SECTOR]))
            case "swap":
                data = bytearray(before[self.other])
                if self.by:  # otherwise there are two copies of one
                    (folder / self.other).write_bytes(before[self.path])
            case _:
                data[self.at] ^= self.by
        (folder / self.path).write_bytes(data)
        if self.is_cache_lost:
            (folder / side_file(self.path)).unlink(missing_ok=True)

        def undo() -> None:
            for name, content in before.items():
                (folder / name).write_bytes(content)

        return undo


def _pages(table: OpenTable, file: CellFile, group: int, name: str) -> list[range]:
    """Return where each page of a column is, the dictionary too."""
    opened = DataFile.open(str(table.table.folder), file)
    contents, leaf = opened.contents, opened.leaf(name)
    at, found = contents.chunk_starts[group * contents.leaves + leaf], []
    for page in contents.pages(group, leaf):
        found.append(range(at, at + contents.page_bytes[page]))
        at += contents.page_bytes[page]
    return found


def _spots(table: OpenTable, file: CellFile) -> Iterator[tuple[str, int, int, str]]:
    """Yield kind, start, length and column of every part of a file."""
    footer = _footer(table, file)
    for group in range(footer.num_row_groups):
        for i in range(footer.num_columns):
            column, name = footer.row_group(group).column(i), footer.schema.column(i).path
            pages = _pages(table, file, group, name)
            start = column.dictionary_page_offset if column.has_dictionary_page else column.data_page_offset
            assert (pages[0].start, pages[-1].stop) == (start, start + column.total_compressed_size)
            for page in pages:
                header = min(_HEADER_BYTES, len(page) - 1)
                yield "header", page.start, header, name
                yield "page", page.start + header, len(page) - header, name
            if column.bloom_filter_offset:
                yield "filter", column.bloom_filter_offset, column.bloom_filter_length, name
    offset, length, _ = footer.metadata[CONTENTS.encode()].split()
    yield "contents", int(offset), int(length), "id"
    yield "footer", file.size_bytes - 8 - footer.serialized_size, footer.serialized_size, "id"
    yield "tail", file.size_bytes - 8, 8, "id"


def _damages(root: Path, seed: int) -> list[Damage]:
    """Draw the damages of one run: by kind of place first, so that the few bytes of headers are hit as often."""
    rng = random.Random(seed)
    files = [(table, file) for table in open_warehouse(root).tables() for file in _live(table)]
    spots: dict[str, list[tuple[str, str, int, int, str]]] = {kind: [] for kind in FLIPS}
    for table, file in files:
        for kind, start, length, column in _spots(table, file):
            spots[kind].append((table.name, file.path, start, length, column))
    found = []
    for kind, times in FLIPS.items():
        for turn in range(times):
            name, path, start, length, column = rng.choice(spots[kind])
            by = 1 << rng.randrange(8) if turn % 2 else rng.randrange(1, 256)
            at = start + rng.randrange(length)
            found.append(Damage(kind, name, path, at, by, column=column, is_cache_lost=rng.random() < 0.5))
    for kind, times in OTHER.items():
        for _ in range(times):
            table, file = rng.choice(files)
            beside = rng.choice([f.path for t, f in files if t.name == table.name and f.path != file.path])
            found.append(
                Damage(
                    kind, table.name, file.path, rng.randrange(file.size_bytes), rng.randrange(2),
                    other=beside if kind == "swap" else "", is_cache_lost=rng.random() < 0.5,
                )
            )  # fmt: skip
    return found


def _child(root: Path, turn: int, turns: int, seed: int) -> None:
    asked = {name: Asked(root, name) for name in WISHES}
    for number, damage in enumerate(_damages(root, seed)):
        if number % turns != turn:
            continue
        print(f"next {number}", flush=True)  # heard of if this is the last line
        undo = damage.do(root / damage.table)
        named = [damage.path, damage.other] if damage.other else [damage.path]
        column = "id" if damage.column in SLOT_COLUMNS else damage.column
        verdicts = asked[damage.table].verdicts(damage.path, column, named)
        undo()
        print(json.dumps([number, verdicts]), flush=True)
    for name, ask in asked.items():  # what was written beside a damaged file must not outlast the damage
        for path in ask.keys:
            assert set(ask.verdicts(path).values()) == {"right"}, f"{name}: {path}"
    print("done", flush=True)


def _run_child(root: Path, turn: int, turns: int, seed: int) -> list[str]:
    command = [sys.executable, "-m", "tests.integration.test_damage", str(root), str(turn), str(turns), str(seed)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    ended = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    lines = ended.stdout.splitlines()
    assert ended.returncode == 0, f"the reader died with {ended.returncode} after {lines[-1:]}: {ended.stderr[:2000]}"
    assert lines[-1] == "done"
    return lines


def test_a_damaged_file_gives_the_right_answer_or_an_error_that_names_it(
    built: Path, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """Flips everywhere, cuts, lost sectors, swapped files; read by every way, with and without the cache, in children."""
    seed = drawn_seed()
    roots = [_copy(built, tmp_path / str(turn)) for turn in range(2)]
    damages = _damages(roots[0], seed)
    assert sum(damage.kind in FLIPS for damage in damages) >= 400

    with ThreadPoolExecutor(max_workers=2) as pool:
        outputs = list(pool.map(lambda turn: _run_child(roots[turn], turn, 2, seed), range(2)))

    results = dict(json.loads(line) for lines in outputs for line in lines if line.startswith("["))
    assert len(results) == len(damages)
    wrong = {
        f"{number} {damages[number]}": verdicts
        for number, verdicts in results.items()
        if set(verdicts.values()) - {"right", "error"}
    }
    assert not wrong, "\n".join(f"{damage}: {verdicts}" for damage, verdicts in wrong.items())
    counts = Counter((damages[number].kind, verdict) for number, found in results.items() for verdict in found.values())
    told = ", ".join(f"{kind} {verdict} {n:,}" for (kind, verdict), n in sorted(counts.items()))
    record_property("figures", f"damage, reads of {len(damages)} damaged tables: {told}")
    # Whatever a scan has to read is noticed by it, wherever it is hit.
    asked = {name: Asked(roots[0], name) for name in WISHES}
    for number, damage in enumerate(damages):
        needed = damage.kind in ("contents", "footer", "tail", "cut", "longer", "swap") or (
            damage.kind in ("header", "page") and damage.column not in SLOT_COLUMNS
        )
        if needed and damage.path in asked[damage.table].visible:
            assert results[number]["scan"] == results[number]["sql"] == "error", f"{number} {damage}"


def _page_start(table: OpenTable, file: CellFile, column: str) -> int:
    found = _column(_footer(table, file), column)
    return int(found.dictionary_page_offset if found.has_dictionary_page else found.data_page_offset)


def test_a_damaged_page_header_is_noticed_even_where_only_one_column_is_read(root: Path) -> None:
    """Checksums of pages leave their headers out; a page of another kind is skipped, and nothing else tells of it."""
    asked = Asked(root, "points")
    table = open_warehouse(root).table("points")
    file = next(file for file in _live(table) if file.path in asked.visible)
    start = _page_start(table, file, "pay")
    for at in range(start, start + _HEADER_BYTES, 3):
        for bit in range(8):
            undo = Damage("header", "points", file.path, at, 1 << bit).do(table.table.folder)
            with pytest.raises(CorruptionError, match=file.path):
                open_warehouse(root).table("points").scan(columns=["pay"]).read_all()
            undo()


def test_a_damaged_filter_is_noticed_when_the_cache_is_lost_too(root: Path) -> None:
    """What is written beside a file again must not vouch for what it has just read there."""
    asked = Asked(root, "points")
    table = open_warehouse(root).table("points")
    file = next(file for file in _live(table) if asked.keys[file.path] and _filter_of(table, file))
    offset, length = _filter_of(table, file)
    place = table.table.folder / file.path
    sound = place.read_bytes()
    place.write_bytes(sound[: offset + length - 32] + bytes(32) + sound[offset + length :])
    place.with_suffix(SIDE_SUFFIX).unlink()

    for _ in range(2):  # the second time with the cache that the first might have written
        found = Counter(
            _verdict(lambda: _sorted(asked.table().probe(key)), asked.right(key.__eq__), [file.path])  # noqa: B023
            for key in set(asked.all_keys)
        )
        assert set(found) <= {"right", "error"}, found
        assert found["error"], "whoever needs the filter is told"
        assert not place.with_suffix(SIDE_SUFFIX).exists()
    place.write_bytes(sound)
    assert set(asked.verdicts(file.path).values()) == {"right"}


def _filter_of(table: OpenTable, file: CellFile) -> Any:
    column = _column(_footer(table, file), "key")
    return (column.bloom_filter_offset, column.bloom_filter_length) if column.bloom_filter_offset else None


def test_a_damaged_file_is_never_merged_into_a_sound_one(root: Path) -> None:
    """A rewrite would give the damage new checksums."""
    table = open_warehouse(root).table("runs")
    version = version_of(table)
    damages = [Damage("header", "runs", file.path, _page_start(table, file, "id") + 1, 4) for file in _live(table)]
    undo = [damage.do(table.table.folder) for damage in damages]
    with pytest.raises(CorruptionError, match="a data file is damaged"):
        table.update(at=4)
    for restore in undo:
        restore()

    assert version_of(table) == version
    table.update(at=4)
    assert version_of(table) > version


@pytest.mark.parametrize("name", WISHES)
def test_a_missing_file_gives_an_error_that_names_it_and_never_fewer_records(name: str, root: Path) -> None:
    asked = Asked(root, name)
    folder = root / name
    assert asked.visible
    for path in asked.visible:
        content = (folder / path).read_bytes()
        (folder / path).unlink()
        verdicts = asked.verdicts(path)
        (folder / path).write_bytes(content)

        always = {way: verdicts[way] for way in ("scan", "scan one column", "probe keys", "sql", "sql for facts")}
        assert set(always.values()) == {"error"}, f"{path}: {verdicts}"
        assert set(verdicts.values()) <= {"error", "right"}, f"{path}: {verdicts}"


def _spoiled(side: bytes, another: bytes) -> Iterator[tuple[str, bytes | None]]:
    yield "missing", None
    yield "empty", b""
    for length in (1, 8, 11, 24, len(side) // 2, len(side) - 1):
        yield f"cut at {length}", side[:length]
    yield "longer", side + b"\0"
    yield "of another file", another
    for version in (b"EBBKEYS1", b"EBBKEYS3", b"EBBKEYS\xff", b"PAR1PAR1"):
        yield f"version {version!r}", version + side[8:]
    for at in range(0, len(side), 7):
        yield f"byte {at}", side[:at] + bytes([side[at] ^ 0x55]) + side[at + 1 :]


@pytest.mark.parametrize("name", ["points", "pairs"])
def test_a_spoiled_cache_changes_no_answer_and_is_written_again(name: str, root: Path) -> None:
    table = open_warehouse(root).table(name)
    asked = Asked(root, name)
    first, second = [path for path in sorted(asked.visible) if asked.keys[path]][:2]
    side = table.table.folder / side_file(first)
    sound, another = side.read_bytes(), (table.table.folder / side_file(second)).read_bytes()
    key = asked.keys[first][0]
    right = asked.right(lambda found: found == key)
    for what, content in _spoiled(sound, another):
        side.unlink()
        if content is not None:
            side.write_bytes(content)

        assert _sorted(asked.table().probe(key)) == right, what
        again = load_side_file(Path(first).name, side.read_bytes())
        assert again is not None, what
        assert side.read_bytes() == sound, what
        assert side.read_bytes() != content, what
        assert again.row_groups == _footer(table, next(f for f in _live(table) if f.path == first)).num_row_groups
    assert set(asked.verdicts(first).values()) == {"right"}


@pytest.mark.parametrize("name", WISHES)
def test_without_any_cache_every_way_gives_the_same_answers(name: str, root: Path) -> None:
    asked = Asked(root, name)
    sides = sorted((root / name).rglob(f"*{SIDE_SUFFIX}"))
    for side in sides:
        side.unlink()

    for path in asked.keys:
        assert set(asked.verdicts(path).values()) == {"right"}
    visible = {root / name / side_file(path) for path in asked.visible}
    assert visible <= set((root / name).rglob(f"*{SIDE_SUFFIX}")) <= set(sides), "written again, and nothing else"


def test_a_cache_that_cannot_be_written_is_done_without(root: Path) -> None:
    """Where the folder is another's, or full: here a folder stands where the cache would be."""
    asked = Asked(root, "points")
    for path in asked.keys:
        side = root / "points" / side_file(path)
        side.unlink()
        side.mkdir()

    for path in asked.keys:
        assert set(asked.verdicts(path).values()) == {"right"}
    folders = {(root / "points" / path).parent for path in asked.keys}
    assert all(side.is_dir() for folder in folders for side in folder.glob(f"*{SIDE_SUFFIX}")), "half a cache is left"


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes everywhere")
def test_a_folder_that_may_not_be_written_can_be_read(root: Path) -> None:
    asked = Asked(root, "points")
    for side in (root / "points").rglob(f"*{SIDE_SUFFIX}"):
        side.unlink()
    folders = [folder for folder in (root / "points").rglob("*") if folder.is_dir()]
    for folder in folders:
        folder.chmod(0o500)
    try:
        for path in asked.keys:
            assert set(asked.verdicts(path).values()) == {"right"}
    finally:
        for folder in folders:
            folder.chmod(0o700)


class Watched:
    """A table with its model, for histories that go on."""

    def __init__(self, folder: Path, **wish: Any) -> None:
        self.folder = folder
        self.warehouse = open_warehouse(folder / "w")
        self.table = integer_table(self.warehouse, "t", **wish)
        self.model = Model(self.table.table.snapshot().spec.timeline)
        self.windows: dict[int | None, list[int]] = {}  # the ids by clock

    def update(self, slot: int, *, empty: bool = False) -> None:
        batch = [] if empty else _batch("t", slot)[:60]
        before = Model(self.model.timeline, self.model.clock, list(self.model.kept))
        before.apply(slot, batch)
        self.windows[slot] = sorted(record.id for record in before.window())  # known before anybody can see it
        self.model = before
        self.table.update(None if empty else write_batch(self.folder / f"{slot}.parquet", batch), at=slot)

    def keys(self) -> list[str]:
        return [f"k{i:03}" for i in range(0, 300, 7)]

    def right(self, clock: int | None, keys: Sequence[str] | None = None) -> list[int]:
        known = {record.id: record.key for record in self.model.kept}
        return [id for id in self.windows[clock] if keys is None or known[id] in keys]


def _beside_nothing(folder: Path) -> list[str]:
    """Return the caches whose data file is not there."""
    return [str(side) for side in folder.rglob(f"*{SIDE_SUFFIX}*") if not side.with_suffix(".parquet").exists()]


@pytest.mark.parametrize("strategy", ["retire", "rebuild", "norebuild"])
def test_a_warm_table_keeps_right_answers_through_updates_seals_purges_and_erases(
    strategy: str, tmp_path: Path
) -> None:
    """What it knows of files that are gone is forgotten; no cache is left without its file."""
    watched = Watched(tmp_path, strategy=strategy, grid="3x3", deletion_bound="12", reader_time="1")
    watched.table.read_sizes = ReadSizes(known_bytes=3000)
    session = watched.warehouse.sql_session()
    rng = random.Random(strategy)
    steps: list[Callable[[], Any]] = [watched.table.seal, watched.table.purge, watched.table.erase]
    for slot in range(1, 15):
        watched.update(slot, empty=slot > 5)
        for step in (None, *steps) if slot % 3 == 0 else (None,):
            if step is not None:
                step()
            for side in watched.table.table.folder.rglob(f"*{SIDE_SUFFIX}"):
                if rng.random() < 0.2:
                    side.unlink()
            assert scanned_ids(watched.table) == watched.right(slot)
            found = watched.table.probe(*watched.keys())["id"].to_pylist()
            assert sorted(found) == watched.right(slot, watched.keys())
            assert sorted(session.answer("SELECT id FROM t").read_all()["id"].to_pylist()) == watched.right(slot)
        watched.table.erase()
        assert not _beside_nothing(watched.table.table.folder)
    assert watched.right(14) == []


def test_what_a_table_forgets_it_learns_again(root: Path) -> None:
    """Between two steps of a probe another thread may have read other files."""
    asked = Asked(root, "points")
    tables = [open_warehouse(root).table("points") for _ in range(2)]
    tables[1].read_sizes = ReadSizes(known_bytes=0)
    costs = []
    for table in tables:
        for _ in range(2):
            window = table.at_latest()
            for key in sorted(set(asked.all_keys))[:20]:
                assert _sorted(window.probe(key)) == asked.right(key.__eq__)
            costs.append(window.cost.directory_bytes)

    assert costs[1] == 0, "it knows all files"
    assert 0 < costs[0] < costs[2] == costs[3], "it reads what it knows of a file again and again"
    assert len(tables[1].at_latest().finder._known) <= 1


def test_threads_of_one_warm_table_see_true_windows_while_files_come_and_go(
    tmp_path: Path,
) -> None:
    watched = Watched(tmp_path, strategy="rebuild", grid="3x3", deletion_bound="12", reader_time="3")
    watched.table.read_sizes = ReadSizes(known_bytes=0)  # each thread makes the others forget
    watched.update(1)
    is_over = threading.Event()
    folder = watched.table.table.folder

    def read(thread: int) -> int:
        rng, reads = random.Random(thread), 0
        while not is_over.is_set() or reads < 3:
            window = watched.table.at_latest()
            keys = rng.sample(watched.keys(), 5)
            found = window.probe(*keys, columns=["id"])["id"].to_pylist()
            assert sorted(found) == watched.right(window.clock, keys)
            if thread == 0:
                assert sorted(window.scan(["id"]).read_all()["id"].to_pylist()) == watched.right(window.clock)
                for file in rng.sample(window.visible_files(), 2):
                    (folder / side_file(file.path)).unlink(missing_ok=True)
            reads += 1
        return reads

    with ThreadPoolExecutor(max_workers=4) as pool:
        reading = [pool.submit(read, thread) for thread in range(4)]
        try:
            for slot in range(2, 15):
                watched.update(slot, empty=slot % 3 == 0)
        finally:
            is_over.set()
        assert min(thread.result() for thread in reading) >= 3
    watched.table.erase()
    assert not _beside_nothing(folder)


def test_a_reader_that_learns_of_an_erased_file_leaves_nothing_of_it_behind(root: Path) -> None:
    """It knows the footer, the file and its cache are erased, and it would write the cache again."""
    table = open_warehouse(root).table("points")
    asked = Asked(root, "points")
    path = next(path for path in sorted(asked.visible) if asked.keys[path])
    window = table.at_latest()
    window.scan().read_all()
    file = table.table.folder / path
    file.unlink()
    file.with_suffix(SIDE_SUFFIX).unlink()

    with pytest.raises(CorruptionError, match=path):
        window.probe(asked.keys[path][0])
    assert not _beside_nothing(table.table.folder)
    assert not [name for name in os.listdir(file.parent) if name.startswith(file.stem)]


def _plant(folder: Path, *actions: dict[str, Any]) -> None:
    """Write the next entry of a log by hand."""
    log = folder / "_delta_log"
    newest = max(int(entry.stem) for entry in log.glob("*.json"))
    (log / f"{newest + 1:020}.json").write_text("".join(json.dumps(action) + "\n" for action in actions))


def _added(path: str, values: dict[str, str], size: int = 10, **slots: int) -> dict[str, Any]:
    stats = {"numRecords": 1, "minValues": slots, "maxValues": slots, "nullCount": dict.fromkeys(slots, 0)}
    return {
        "add": {
            "path": path, "partitionValues": values, "size": size, "modificationTime": 0, "dataChange": True,
            "stats": json.dumps(stats),
        }
    }  # fmt: skip


def _removed(path: str) -> dict[str, Any]:
    return {"remove": {"path": path, "dataChange": True, "deletionTimestamp": 0, "partitionValues": {}, "size": 10}}


def _refusal(run: Callable[[], Any]) -> str:
    """Return what is said of damage; nothing if it is not refused."""
    try:
        run()
    except CorruptionError as error:
        return str(error)
    return ""


def _every_command(warehouse: Warehouse, name: str) -> dict[str, Callable[[], Any]]:
    table = warehouse.table(name)
    return {
        "scan": lambda: table.scan().read_all(),
        "probe": lambda: table.probe("k000", "k001", "k002"),
        "sql": lambda: warehouse.sql(f"SELECT * FROM {name}").read_all(),  # noqa: S608 - names of this file
        "update": lambda: table.update(at=4),
        "seal": table.seal,
        "purge": table.purge,
        "erase": table.erase,
        "status": table.status,
    }


@pytest.mark.parametrize(
    "path",
    [
        "{outside}", "file://{outside}", "file:{outside}", "s3://bucket/precious.parquet", "../precious.parquet",
        "u1-ab/../../precious.parquet", "%2e%2e/precious.parquet", "..%2Fprecious.parquet", "%2Fprecious.parquet",
        "./u1-ab/../../precious.parquet", "//precious.parquet", "", ".", "u1-ab//x.parquet", "u1-ab/./x.parquet",
        "u1-ab/x\x00.parquet",
    ],
)  # fmt: skip
def test_a_path_in_the_log_that_leads_out_of_the_table_is_refused_before_anything_is_done(
    path: str, root: Path
) -> None:
    precious = root / "precious.parquet"
    precious.write_bytes(b"precious")
    table = open_warehouse(root).table("runs")
    before = sorted(table.table.all_files())
    add = _added(path.format(outside=precious), {"_gen": "0", "_g": "0", "_e": "0"}, _ins_slot=1, _exp_slot=4)
    _plant(table.table.folder, add)

    for command, run in _every_command(open_warehouse(root), "runs").items():
        assert "outside the table" in _refusal(run), command
    assert precious.read_bytes() == b"precious"
    assert sorted(table.table.all_files()) == before


def test_a_removed_path_that_leads_out_of_the_table_is_never_erased(root: Path) -> None:
    precious = root / "precious.parquet"
    precious.write_bytes(b"precious")
    table = open_warehouse(root).table("points")
    rows = scanned_ids(table)
    _plant(
        table.table.folder, *(_removed(path) for path in ("../precious.parquet", str(precious), f"file://{precious}"))
    )
    with pytest.warns(ForeignCommitWarning):
        assert scanned_ids(table) == rows
    table.adopt()
    for slot in range(4, 12):
        table.update(at=slot)
    table.erase()

    assert precious.read_bytes() == b"precious"
    assert not list(table.table.data_files())


def test_a_path_in_the_log_of_the_quarantine_is_hostile_too(tmp_path: Path) -> None:
    """Its files are deleted by the paths that its log names."""
    warehouse = open_warehouse(tmp_path / "w")
    table = integer_table(warehouse, "t")
    precious = tmp_path / "w" / "precious"
    table.update(write_batch(tmp_path / "1.parquet", [Record(1, "a", 1, 5), Record(2, None, 1, 5)]), at=1)
    precious.write_bytes(b"precious")
    for path, slot in (("../precious", 9), (str(precious), 0)):
        _plant(table.table.quarantine, _added(path, {"_slot": str(slot)}))

    for run in (lambda: table.update(at=2), table.erase, lambda: refused_records(table.table)):
        with pytest.raises(CorruptionError, match="outside the table"):
            run()
    assert precious.read_bytes() == b"precious"


@pytest.mark.parametrize("depth", [1, 2, 99])
def test_a_link_in_place_of_a_file_or_folder_is_refused_before_anything_is_done(
    depth: int, root: Path, tmp_path: Path
) -> None:
    """Even to the same bytes: they are not where the table's owner keeps watch over them."""
    table = open_warehouse(root).table("runs")
    path = min(Asked(root, "runs").visible)
    linked = "/".join(path.split("/")[:depth])
    outside = tmp_path / "outside"
    shutil.move(table.table.folder / linked, outside)
    (table.table.folder / linked).symlink_to(outside)
    before = _content(outside)

    for command, run in _every_command(open_warehouse(root), "runs").items():
        if command in ("seal", "purge", "update", "status"):  # which have nothing to do with the file
            continue
        assert f"symbolic link stands for a part of the table: {linked};" in _refusal(run), command
    assert _content(outside) == before
    assert (table.table.folder / linked).is_symlink(), "nor is the link itself touched"
    table = open_warehouse(root).table("runs")

    def go_on() -> None:
        for slot in range(4, 20):  # until its file would be rewritten or erased
            table.update(at=slot)

    with pytest.raises(CorruptionError, match="symbolic link"):
        go_on()
    assert _content(outside) == before


def _content(place: Path) -> dict[str, bytes]:
    files = [place] if place.is_file() else [file for file in place.rglob("*") if file.is_file()]
    return {str(file): file.read_bytes() for file in files}


def test_a_warehouse_behind_a_link_is_like_any_other(root: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(root)

    assert scanned_ids(open_warehouse(tmp_path / "link").table("runs")) == scanned_ids(
        open_warehouse(root).table("runs")
    )


def _erased_meanwhile(root: Path) -> None:
    """Let the window of all tables go by until the deletion bound ends every lease, and erase its files."""
    table = open_warehouse(root).table("points")
    for slot in range(4, 14):
        table.update(at=slot)
    table.erase()


def test_a_window_whose_files_were_erased_says_so_and_what_to_do(root: Path) -> None:
    warehouse = open_warehouse(root)
    table = warehouse.table("points")
    window, warm = table.at_latest(), table.at_latest()
    warm.probe("k001")
    scan = table.at_latest().scan()
    _erased_meanwhile(root)

    for read in (lambda: window.scan().read_all(), lambda: window.probe(low="k000"), scan.read_all):
        with pytest.raises(LeaseEndedError, match=r"was erased while it was read: .*read the table again"):
            read()


def test_sql_over_files_that_were_erased_says_so_and_what_to_do(root: Path) -> None:
    from ebb.warehouse.sql.duckdb import DuckSession

    table = open_warehouse(root).table("points")
    window = table.at_latest()
    session = DuckSession(["points"], lambda _: window)
    assert session.answer("SELECT count(*) AS n FROM points").read_all()["n"].to_pylist() == [len(scanned_ids(table))]
    _erased_meanwhile(root)

    with pytest.raises(LeaseEndedError, match=r"was erased while it was read: .*read the table again"):
        session.answer("SELECT * FROM points").read_all()


class _Keys(io.StringIO):
    """Standard input whose first reading takes as long as an erasure."""

    def __init__(self, text: str, meanwhile: Callable[[], None]) -> None:
        super().__init__(text)
        self._meanwhile = meanwhile

    def read(self, size: int | None = -1, /) -> str:
        self._meanwhile()
        return super().read(size)


def test_a_command_whose_window_was_erased_ends_with_one_line(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The keys come from standard input, after the window was pinned."""
    keys = "\n".join(f"k{i:03}" for i in range(300))
    monkeypatch.setattr(sys, "stdin", _Keys(keys, lambda: _erased_meanwhile(root)))
    capsys.readouterr()

    assert main(["--warehouse", str(root), "probe", "points", "--keys-from", "-"]) == 1
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith("ebb: version ")
    assert told.err.endswith("deletion bound of 8; run the command again\n")
    assert told.err.count("\n") == 1


@pytest.mark.parametrize("command", [["scan", "points"], ["sql", "SELECT * FROM points"]])
def test_a_command_that_meets_damage_ends_with_one_line_that_names_the_file(command: list[str], root: Path) -> None:
    table = open_warehouse(root).table("points")
    path = min(Asked(root, "points").visible)
    file = next(file for file in _live(table) if file.path == path)
    Damage("header", "points", path, _page_start(table, file, "id") + 1, 4).do(table.table.folder)

    ended = subprocess.run(
        [sys.executable, "-m", "ebb.cli.main", "--warehouse", str(root), *command],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ended.returncode == 1, ended
    assert ended.stderr.count("\n") == 1, ended
    assert path in ended.stderr


if __name__ == "__main__":
    _child(Path(sys.argv[1]), *(int(argument) for argument in sys.argv[2:]))
