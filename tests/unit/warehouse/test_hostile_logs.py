"""Whatever stands in a log entry or in a file that belongs to a table (P27): an answer or one of our errors, soon, in little
memory, and nothing outside the table is touched.

Checksums are no help here: whoever puts something there puts the right one beside it.
"""

from __future__ import annotations

import base64
import json
import random
import shutil
import struct
import time
import zlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from ebb import OpenTable, Warehouse
from ebb.index.errors import CorruptionError, WarehouseError
from ebb.index.ledger import Ledger
from ebb.index.manifest import byte_hash
from ebb.index.ranges import FileRange, dump_ranges, load_ranges
from tests.builders import scanned_ids
from tests.doors import DOORS, make_table, open_table
from tests.hostile import peak_bytes, spoil, spoiled, vouch
from tests.seeds import drawn_seed, rounds

pytestmark = pytest.mark.filterwarnings("ignore::ebb.ForeignCommitWarning", "ignore::ebb.index.head.LostHeadWarning")
_DOORS: dict[str, Callable[[OpenTable], object]] = {
    **DOORS,
    "check": lambda table: table.check(deep=True),
    "evidence": lambda table: table.evidence().json,
    "forget": lambda table: table.forget("k1"),
    "repair": lambda table: table.repair(),
    "held": lambda table: table.held().read_all(),
    "release": lambda table: table.release("a case"),
    "backup": lambda table: table.backup(table.warehouse.root.parent / "backups"),
    "restore": lambda table: Warehouse.open(table.warehouse.root.parent / "new").restore(
        table.warehouse.root.parent / "backups", "t", new_name="u"
    ),
}
_MOST_SECONDS = 10
_MOST_BYTES = 300 * 1024 * 1024
_BOMB = zlib.compress(bytes(512 * 1024**2), 1)  # half a gigabyte of nothing in two megabytes


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("hostile") / "original"
    make_table(root)
    table = open_table(root)
    table.forget("k2", case="a case")
    table.update(at=4)
    (root / "t" / "_ebb" / "ledger").mkdir(exist_ok=True)
    (root / "t" / "_ebb" / "ranges").mkdir(exist_ok=True)
    return root


def went_through(door: str, table: OpenTable, what: object) -> bool:
    """Go through a door; returns whether it was refused. Whatever comes out and is not ours fails the test."""
    before, started = peak_bytes(), time.monotonic()
    try:
        _DOORS[door](table)
    except WarehouseError as error:
        is_refused = bool(str(error))
    except Exception as error:
        msg = f"{door} after {what}: {error!r}"
        raise AssertionError(msg) from error
    else:
        is_refused = False
    assert time.monotonic() - started < _MOST_SECONDS, (door, what)
    assert peak_bytes() - before < _MOST_BYTES, (door, what)
    return is_refused


def test_no_value_in_a_log_entry_ends_in_a_foreign_error(
    original: Path, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    dice = random.Random(drawn_seed())
    count, refused, precious = rounds(25), 0, tmp_path / "precious"
    precious.write_bytes(b"precious")
    for number in range(count):
        root = tmp_path / str(number)
        shutil.copytree(original, root)
        logs = [entry for folder in ("t", "t", "t.quarantine") for entry in root.glob(f"{folder}/_delta_log/*.json")]
        what = spoil(dice.choice(logs), dice)
        vouch(root / "t")
        print(number, what)
        doors = dice.sample([door for door in _DOORS if door not in ("drop", "restore", "backup", "release")], 3) + [
            "drop"
        ] * (dice.random() < 0.1)
        went = [went_through(door, open_table(root), what) for door in doors]
        refused += any(went)
        assert precious.read_bytes() == b"precious"
        shutil.rmtree(root, ignore_errors=True)
    assert refused
    record_property("figures", f"hostile log entries: {count}, {refused} refused, tracebacks 0")


def _say(root: Path, change: dict[str, Any]) -> OpenTable:
    """Change what the newest commit says about the ledger."""
    entry = max((root / "t" / "_delta_log").glob("*.json"))
    actions = [json.loads(line) for line in entry.read_text(encoding="utf-8").splitlines()]
    info = next(action["commitInfo"] for action in actions if "commitInfo" in action)
    said = json.loads(info["ebb"])
    said["ledger"] |= change
    info["ebb"] = json.dumps(said)
    entry.write_text("".join(json.dumps(action) + "\n" for action in actions), encoding="utf-8")
    vouch(root / "t")
    return open_table(root)


def _state(counts: str = "close:B:0", packed: bytes = zlib.compress(b""), **more: Any) -> bytes:
    """Return a state."""
    value = {"clock": 3, "live_records": 0, "counts": counts, "segments": [], "erased_version": -1, "ranges": []}
    return _state_of(json.dumps(value | more).encode(), packed)


def _state_of(head: bytes, packed: bytes = b"") -> bytes:
    body = struct.pack("<I", len(head)) + head + packed
    return b"EBBLEDG1" + struct.pack("<I", zlib.crc32(body)) + body


HOSTILE_STATES: dict[str, bytes] = {
    "a bomb": _state(packed=_BOMB),
    "a bomb of pairs": _state("scattered", _BOMB),
    "no end": _state(packed=zlib.compress(bytes(100))[:-8]),
    "not packed": _state(packed=b"nothing"),
    "numbers of another kind": _state("close:d:0"),
    "a start that is no number": _state("close:B:../x"),
    "a start out of reach": _state(f"close:B:{10**30}"),
    "no list of segments": _state(segments=7),
    "a segment elsewhere": _state(segments=["../../../precious"]),
    "a segment without end": _state(segments=["/dev/zero"]),
    "a segment that is not there": _state(segments=["seen-0-00000000"]),
    "a clock that is a text": _state(clock="x"),
    "ranges that are none": _state(ranges=[[0, 0]]),
    "deep": _state_of(b"[" * 100_000),
    "no head": b"EBBLEDG1" + struct.pack("<I", zlib.crc32(b"\xff" * 4)) + b"\xff" * 4,
}


@pytest.mark.parametrize("state", HOSTILE_STATES)
def test_a_state_that_nobody_of_ours_wrote_is_damaged(state: str, original: Path, tmp_path: Path) -> None:
    shutil.copytree(original, tmp_path / "w")
    (tmp_path / "precious").write_bytes(b"precious")
    (tmp_path / "w" / "t" / "_ebb" / "ledger" / "state-3-ab").write_bytes(HOSTILE_STATES[state])
    before = peak_bytes()

    with pytest.raises(CorruptionError, match=r"a state of the ledger is (damaged|missing): state-3-ab"):
        _say(tmp_path / "w", {"state": [3, "state-3-ab"]}).status()
    assert peak_bytes() - before < _MOST_BYTES


@pytest.mark.parametrize(
    "state",
    [
        [3, "../../../precious"],
        [3, "/dev/zero"],
        [3, "state-3-ab/../../lock"],
        [3, ""],
        [3],
        "3",
        7,
        [None, "state-3-ab"],
        [3, 7],
    ],
)
def test_the_name_of_a_state_never_leads_elsewhere(state: object, original: Path, tmp_path: Path) -> None:
    """It was opened, whatever it was: ``/dev/zero`` has no end."""
    shutil.copytree(original, tmp_path / "w")

    with pytest.raises(CorruptionError, match=r"what a commit says about the ledger is damaged: version [0-9]+"):
        _say(tmp_path / "w", {"state": state}).status()


@pytest.mark.parametrize(
    "change",
    [
        {"arrivals": base64.b85encode(_BOMB).decode()},
        {"arrivals": base64.b85encode(zlib.compress(b"[[1],[1,2]]")).decode()},
        {"arrivals": base64.b85encode(zlib.compress(b"[" * 100_000)).decode()},
        {"arrivals": "not base 85 \x00"},
        {"arrivals": [1, 2, 3]},
        {"arrivals": [1, "2"]},
        {"files": "abcd"},
        {"files": 7},
        {"clock": 1.5},
        {"digest": []},
        {"ranges_added": [[0, 0, "x"]]},
        {"ranges_dropped": [7]},
        {"erased_version": "all"},
    ],
    ids=lambda change: f"{change!s:.50}",
)
def test_a_change_of_the_ledger_that_is_none_is_damage(change: dict[str, Any], original: Path, tmp_path: Path) -> None:
    shutil.copytree(original, tmp_path / "w")
    before = peak_bytes()

    with pytest.raises(CorruptionError, match=r"what a commit says about the ledger is damaged: version [0-9]+"):
        _say(tmp_path / "w", change).status()
    assert peak_bytes() - before < _MOST_BYTES


def _ranges(body: bytes) -> bytes:
    return b"EBBRNGS1" + struct.pack("<I", zlib.crc32(body)) + body


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("0-0-ab", _ranges(_BOMB)),
        ("0-0-ab", _ranges(b"not packed")),
        ("0-0-ab", _ranges(zlib.compress(struct.pack("<II", 2**32 - 1, 0)))),
        ("0-0-ab", _ranges(zlib.compress(struct.pack("<II", 1, 4) + bytes(12) + b"\xff" * 4))),
        ("0-0-ab", dump_ranges([FileRange("../../precious", b"", None, 1)])),
        ("0-0-ab", b""),
        ("../../../precious", b""),
        ("/dev/zero", b""),
        ("", b""),
    ],
)
def test_key_ranges_that_nobody_of_ours_wrote_are_done_without(
    name: str, data: bytes, original: Path, tmp_path: Path
) -> None:
    shutil.copytree(original, tmp_path / "w")
    expected = scanned_ids(open_table(tmp_path / "w"))
    if name == "0-0-ab":
        (tmp_path / "w" / "t" / "_ebb" / "ranges" / name).write_bytes(data)
    (tmp_path / "precious").write_bytes(b"precious")
    before = peak_bytes()
    table = _say(tmp_path / "w", {"ranges_added": [[0, cohort, name, 1] for cohort in range(4)]})

    assert sorted(table.probe(*(f"k{n}" for n in range(5)))["id"].to_pylist()) == expected
    assert sorted(table.probe(low="a")["id"].to_pylist()) == expected
    for slot in range(5, 9):
        table.update(at=slot)
    assert (tmp_path / "precious").read_bytes() == b"precious"
    assert peak_bytes() - before < _MOST_BYTES


def test_no_manifest_of_a_backup_ends_in_a_foreign_error_or_leads_elsewhere(
    original: Path, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """A backup may come from anybody; its manifest vouches for itself."""
    dice = random.Random(drawn_seed())
    count, refused = rounds(10), 0
    (tmp_path / "precious").write_bytes(b"precious")
    shutil.copytree(original, tmp_path / "first" / "w")
    open_table(tmp_path / "first" / "w").backup(tmp_path / "first" / "backups")
    (manifest,) = (tmp_path / "first" / "backups" / "t").glob("manifest*")
    written = json.loads(manifest.read_bytes().splitlines()[0])
    for number in range(count):
        place = tmp_path / str(number)
        shutil.copytree(tmp_path / "first", place)
        value, what = spoiled(written, dice)
        print(number, what)
        line = json.dumps(value, separators=(",", ":")).encode()
        (place / "backups" / "t" / manifest.name).write_bytes(line + b"\n" + byte_hash(line).encode() + b"\n")
        went = [went_through(door, open_table(place / "w"), what) for door in ("restore", "backup")]
        refused += any(went)
        assert (tmp_path / "precious").read_bytes() == b"precious"
        assert {path.name for path in place.iterdir()} <= {"w", "backups", "new"}
        shutil.rmtree(place)
    assert refused
    record_property("figures", f"hostile manifests: {count}, {refused} refused, tracebacks 0")


def test_no_hidden_file_ends_in_a_foreign_error(
    original: Path, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """Head record, leases, holds, backups, notes of checks, lock: other JSON, or none."""
    dice = random.Random(drawn_seed())
    count, refused = rounds(10), 0
    shutil.copytree(original, tmp_path / "first" / "w")
    table = open_table(tmp_path / "first" / "w")
    table.hold("k1", case="a case")
    table.backup(tmp_path / "first" / "backups")
    table.check()
    window = table.at_latest()  # which has a lease
    names = {path.parent.name for path in table.table.hidden.rglob("*") if path.is_file()}
    assert {"_ebb", "leases", "holds", "backups"} <= names
    for number in range(count):
        place = tmp_path / str(number)
        shutil.copytree(tmp_path / "first", place)
        file = dice.choice(sorted(path for path in (place / "w" / "t" / "_ebb").rglob("*") if path.is_file()))
        file.write_bytes(_other(file.read_bytes(), dice))
        print(number, file.relative_to(place), file.read_bytes()[:60])
        doors = dice.sample([door for door in _DOORS if door != "drop"], 5)
        went = [went_through(door, open_table(place / "w"), file) for door in doors]
        refused += any(went)
        shutil.rmtree(place)
    del window
    record_property("figures", f"hostile hidden files: {count}, {refused} refused, tracebacks 0")


def _other(data: bytes, dice: random.Random) -> bytes:
    if dice.random() < 0.5:
        return dice.choice(
            (b"", b"{", b"[" * 100_000, b"\xff\xfe", b"null", b"7", b'"x"', b"{}", b"[]", b"EBBHEAD1 0 {}")
        )
    try:
        lines = data.splitlines()
        place = dice.randrange(len(lines))
        lines[place] = json.dumps(spoiled(json.loads(lines[place]), dice)[0]).encode()
        return b"\n".join(lines) + b"\n"
    except (ValueError, IndexError):
        flipped = bytearray(data or b"x")
        flipped[dice.randrange(len(flipped))] = dice.randrange(256)
        return bytes(flipped)


def _changed(data: bytes, dice: random.Random) -> bytes:
    """Return a side file with other numbers in it and the checksum that fits them."""
    body = bytearray(data[12:])
    for _ in range(dice.choice((1, 1, 2, 5))):
        at = dice.randrange(8, len(body)) // 4 * 4
        if dice.random() < 0.5:
            body[at] = dice.randrange(256)
        else:
            body[at : at + 4] = struct.pack("<I", dice.choice((0, 1, 255, 2**20, 2**31, 2**32 - 1)))
    if dice.random() < 0.1:
        del body[dice.randrange(len(body)) :]
    return data[:8] + struct.pack("<I", zlib.crc32(body)) + bytes(body)


def test_no_side_file_ends_in_a_foreign_error_or_takes_gigabytes(
    original: Path, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """A number too many, and a probe ended in an IndexError, an OverflowError, or took a gigabyte."""
    dice = random.Random(drawn_seed())
    count, refused = rounds(12), 0
    for number in range(count):
        root = tmp_path / str(number)
        shutil.copytree(original, root)
        for side in sorted(root.glob("t/u*/**/*.keys")):
            side.write_bytes(_changed(side.read_bytes(), dice))
        went = [went_through(door, open_table(root), number) for door in ("probe", "scan where", "seal")]
        refused += any(went)
        shutil.rmtree(root)
    record_property("figures", f"hostile side files: {count} tables, {refused} refused, tracebacks 0")


def test_other_bytes_under_the_right_checksum_are_a_value_or_none() -> None:
    dice = random.Random(drawn_seed())
    ranges = [FileRange(f"u1-a/0/_g=0/_e={n}/part-{n}.parquet", b"a%d" % n, b"b%d" % n, n) for n in range(9)]
    for _ in range(rounds(300)):
        packed = bytearray(zlib.decompress(dump_ranges(ranges)[12:]))
        packed[dice.randrange(len(packed))] = dice.randrange(256)
        assert isinstance(load_ranges(_ranges(zlib.compress(bytes(packed)))), tuple | None)
        state = bytearray(_state("scattered", zlib.compress(bytes(160)))[12:])
        state[dice.randrange(len(state))] = dice.randrange(256)
        with suppress(ValueError, KeyError, TypeError, struct.error):  # nothing else
            Ledger.loads(b"EBBLEDG1" + struct.pack("<I", zlib.crc32(state)) + bytes(state))
