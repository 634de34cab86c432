"""The ledger as docs/format.md describes it, read with the standard library alone, against what Ebb reads."""

from __future__ import annotations

import base64
import json
import struct
import zlib
from collections import Counter
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any

import pytest

from ebb import OpenTable
from ebb.index.ledger import Ledger
from ebb.warehouse.table.snapshot import Table
from tests.builders import arrow_batch, integer_table, open_warehouse, write_batch
from tests.foreign import append, delta
from tests.model import Record

SPAN = 400


@dataclass
class Plain:
    """What the page says that a ledger is."""

    clock: int | None = None
    counts: Counter[int] = field(default_factory=Counter)
    seen: set[tuple[int, int]] = field(default_factory=set)  # fingerprints, each with a slot
    erased_version: int = -1
    ranges: list[list[Any]] = field(default_factory=list)
    counted: str = ""  # how the counts of its state were stored


def ledger_at(folder: Path, version: int) -> Plain:
    """Return the ledger of a version, from the files of the table."""
    said = [_ledger_of(folder / "_delta_log" / f"{number:020}.json") for number in range(version + 1)]
    state = next(change["state"] for change in reversed(said) if change is not None)
    plain = Plain() if state is None else _state(folder / "_ebb" / "ledger", state[1])
    for change in said[0 if state is None else state[0] + 1 :]:
        if change is not None:
            _apply(plain, change)
    return plain


def _ledger_of(entry: Path) -> dict[str, Any] | None:
    actions = map(json.loads, entry.read_text(encoding="utf-8").splitlines())
    said = next(action["commitInfo"] for action in actions if "commitInfo" in action)
    found: dict[str, Any] | None = json.loads(said.get("ebb", "{}")).get("ledger")
    return found


def _apply(plain: Plain, change: dict[str, Any]) -> None:
    clock = change["clock"]
    if plain.clock is not None:
        plain.counts = Counter({slot: n for slot, n in plain.counts.items() if slot > clock})
    arrivals = change.get("arrivals", [])
    if isinstance(arrivals, str):
        gaps, counts = json.loads(zlib.decompress(base64.b85decode(arrivals)))
        slots = [sum(gaps[: place + 1]) for place in range(len(gaps))]
        arrivals = [number for pair in zip(slots, counts, strict=True) for number in pair]
    for slot, count in zip(arrivals[::2], arrivals[1::2], strict=True):
        plain.counts[slot] += count
    packed = base64.b85decode(change.get("files", ""))
    prints = [int.from_bytes(packed[at : at + 8], "little") for at in range(0, len(packed), 8)]
    if "digest" in change:
        prints.append(int.from_bytes(blake2b(change["digest"].encode(), digest_size=8).digest(), "little"))
    plain.seen.update((number, clock) for number in prints)
    plain.clock = clock
    plain.erased_version = change.get("erased_version", plain.erased_version)
    dropped = change.get("ranges_dropped", [])
    plain.ranges = [found for found in plain.ranges if found[2] not in dropped] + change.get("ranges_added", [])


def _state(folder: Path, name: str) -> Plain:
    data = (folder / name).read_bytes()
    assert data[:8] == b"EBBLEDG1"
    crc, length = struct.unpack("<II", data[8:16])
    assert crc == zlib.crc32(data[12:])
    told = json.loads(data[16 : 16 + length])
    raw = zlib.decompress(data[16 + length :])
    how, *rest = told["counts"].split(":")
    if how == "close":
        width = {"B": 1, "H": 2, "I": 4, "Q": 8}[rest[0]]
        numbers = [int.from_bytes(raw[at : at + width], "little") for at in range(0, len(raw), width)]
        counts = {int(rest[1]) + place: count for place, count in enumerate(numbers)}
    else:
        n = len(raw) // 16
        counts = dict(zip(struct.unpack(f"<{n}q", raw[: 8 * n]), struct.unpack(f"<{n}Q", raw[8 * n :]), strict=True))
    assert sum(counts.values()) == told["live_records"]
    plain = Plain(told["clock"], Counter(counts), set(), told["erased_version"], told["ranges"], how)
    for segment in told["segments"]:
        data = (folder / segment).read_bytes()
        assert segment.rsplit("-", 1)[1] == f"{zlib.crc32(data):08x}"
        assert data[:8] == b"EBBSEEN1"
        (n,) = struct.unpack("<Q", data[8:16])
        prints, slots = struct.unpack(f"<{n}Q", data[16 : 16 + 8 * n]), struct.unpack(f"<{n}q", data[16 + 8 * n :])
        assert list(zip(prints, slots, strict=True)) == sorted(zip(prints, slots, strict=True))
        plain.seen.update(zip(prints, slots, strict=True))
    return plain


def same(table: OpenTable) -> Plain:
    """Compare both readings of the newest version, by somebody who has not seen the table before."""
    snapshot = Table(table.table.root, table.name).snapshot()
    ledger: Ledger = snapshot.ledger
    plain = ledger_at(table.table.folder, snapshot.version)
    assert (plain.clock, plain.erased_version) == (ledger.clock, ledger.erased_version)
    assert plain.ranges == [list(found) for found in ledger.ranges]
    assert {slot: count for slot, count in plain.counts.items() if count} == ledger.live
    assert sum(plain.counts.values()) == ledger.live_records
    since = ledger.remembered_since(snapshot.spec.remembered_ticks)
    kept = {(number, slot) for number, slot in plain.seen if slot >= since}
    segments = {pair for s in ledger.fingerprints.segments for pair in zip(s.prints, s.slots, strict=True)}
    recent = {(number, slot) for slot, number in ledger.fingerprints.recent}
    assert kept == {(number, slot) for number, slot in segments | recent if slot >= since}
    for number, slot in kept:
        newest = max(at for other, at in kept if other == number)
        assert ledger.fingerprints.slot_of(number, since=since) == newest >= slot
    return plain


@pytest.mark.parametrize("lifetimes", ["close", "scattered"])
def test_the_page_is_enough_to_read_the_ledger_of_any_version(tmp_path: Path, lifetimes: str) -> None:
    table = integer_table(
        open_warehouse(tmp_path / "w"), span=str(SPAN), remember="70", grid="4x4", strategy="norebuild", reader_time="1"
    )
    same(table)
    seen: list[Plain] = []
    for slot in range(1, 125):
        count = 90 if slot in (7, 60) and lifetimes == "close" else 4 if slot % 3 else 0
        lives = [1 + (7 * slot + n) % (SPAN - 1) if lifetimes == "close" else (1, SPAN)[n % 2] for n in range(count)]
        batch = [Record(1000 * slot + n, f"k{n}", slot, slot + life) for n, life in enumerate(lives)]
        if slot % 10 == 5:  # with fingerprints of files
            table.update(write_batch(tmp_path / f"{slot}.csv", batch), at=slot, engine="direct")
        else:
            table.update(arrow_batch(batch) if batch else None, at=slot)
        if slot == 30:
            delta(table).delete("id % 2 = 1")
            append(table, [Record(9, "k", 30, 33)])
            same(table)
            table.adopt()
        if slot % 7 == 0 or slot in (49, 50, 51, 99, 100, 101):
            seen.append(same(table))

    assert {"", lifetimes} <= {plain.counted for plain in seen}
    assert table.table.snapshot().ledger.erased_version > 0
    kinds = {path.name.split("-")[0] for path in table.table.states.iterdir()}
    assert kinds == {"state", "seen"}
    texts = [json.dumps(entry.ebb.get("ledger")) for entry in table.table.entries(table.table.snapshot().version)]
    assert any('"arrivals": "' in text for text in texts) is (lifetimes == "close"), "many slots are packed"
    assert any('"arrivals": [' in text for text in texts)
    assert any('"files"' in text for text in texts)
