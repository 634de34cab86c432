"""Records found by one of their times: nothing keeps a time column from being the key, or a part of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from ebb import OpenTable
from tests.builders import open_warehouse, scanned

KEYS = (("came",), ("until",), ("k", "until"), ("until", "came"))
ROWS: list[dict[str, Any]] = [
    {"k": k, "came": slot, "until": slot + life} for slot in range(1, 9) for k in "ab" for life in (2, 5)
]


def filled(root: Path, key: tuple[str, ...], **wish: Any) -> OpenTable:
    """Return a table after eight ticks with four records each."""
    times = {"inserted": "came", "expires": "until", "tick": 1, "span": 6} | wish
    table = open_warehouse(root).create("t", schema="k STRING, came INT, until INT", key=key, **times)
    for slot in range(1, 9):
        table.update(pa.Table.from_pylist([row for row in ROWS if row["came"] == slot]), at=slot)
    return table


@pytest.mark.parametrize("key", KEYS, ids=",".join)
@pytest.mark.parametrize("strategy", ["rebuild", "norebuild", "retire"])
def test_a_time_may_be_the_key(tmp_path: Path, key: tuple[str, ...], strategy: str) -> None:
    """It was refused, and there is no reason to."""
    table = filled(tmp_path / "w", key, strategy=strategy)
    table.seal()
    table.purge()
    live = sorted(
        (row for row in ROWS if row["until"] > 8), key=lambda row: (*(row[name] for name in key), row["until"])
    )

    def ordered(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
        return [(*(row[name] for name in key), row["until"]) for row in rows]

    for row in live:
        wanted = tuple(row[name] for name in key)
        found = table.probe(wanted if len(key) > 1 else wanted[0]).to_pylist()
        assert ordered(found) == [ordered([r])[0] for r in live if tuple(r[name] for name in key) == wanted]
    first, last = (live[place][key[0]] for place in (0, -1))
    assert ordered(table.probe(low=first, high=last).to_pylist()) == ordered(live)
    latest = table.up_to_date().probe(low=first, high=last)
    assert ordered(latest.to_pylist()) == ordered(live)
    assert table.probe(low=first, high=last, columns=["k"]).column_names == ["k"]
    assert len(scanned(table, where=f"{key[0]} = {first!r}")) == sum(row[key[0]] == first for row in live)
    assert table.probe(low=first, high=last, as_of=10).num_rows == sum(row["until"] > 10 for row in live)


def test_a_computed_time_may_be_the_key(tmp_path: Path) -> None:
    warehouse = open_warehouse(tmp_path / "w")
    wish = {"schema": "k STRING", "inserted": "now", "lifetime": "3h", "tick": "1h", "span": "6h"}
    table = warehouse.create("t", key="inserted", **wish)
    (tmp_path / "a.csv").write_text("k\na\nb\n", encoding="utf-8")
    report = table.update(tmp_path / "a.csv", at="2026-01-01T10:00:00Z", engine="direct")

    assert report.admitted == 2
    assert sorted(table.probe("2026-01-01T10:00:00Z")["k"].to_pylist()) == ["a", "b"]
    assert table.probe("2026-01-01T11:00:00Z").num_rows == 0


def test_a_record_without_the_time_that_is_its_key_is_refused(tmp_path: Path) -> None:
    table = filled(tmp_path / "w", ("until",))

    report = table.update(pa.table({"k": ["a"], "came": [9], "until": pa.nulls(1, pa.int32())}), at=9)
    assert report.reasons == {"key until is null": 1}
