"""Intake (P10): every record is admitted, expired on arrival or in quarantine with its reason; every value stays itself."""

from __future__ import annotations

import gzip
import itertools
import json
import math
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ebb import OpenTable, Warehouse
from ebb.index.errors import SchemaDriftError, UnreadableInputError, UsageError
from ebb.maintenance.update import Report
from ebb.warehouse.intake.quarantine import commit_refused, write_refused
from tests.builders import (
    SCHEMA,
    arrow_batch,
    data_files,
    integer_table,
    records,
    refused_records,
    scanned,
    scanned_ids,
    timestamp_table,
    version_of,
    write_batch,
)
from tests.model import Model, Record

LEAST, MOST = -(2**63), 2**63 - 1


def refused(table: OpenTable) -> Counter[str]:
    """Return how many records are in quarantine for each reason."""
    return Counter(record.reason for record in refused_records(table.table))


def adds_up(report: Report) -> bool:
    fates = report.admitted + report.expired_on_arrival + report.quarantined
    return report.received == fates and report.quarantined == sum(report.reasons.values())


def write_lines(path: Path, *lines: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    opened: Any = gzip.open if path.suffix == ".gz" else open
    with opened(path, "wt", encoding="utf-8", newline="") as text:
        text.writelines(line + "\n" for line in lines)
    return path


def write_rows(path: Path, rows: Sequence[dict[str, Any]]) -> Path:
    return write_lines(path, *(json.dumps(row) for row in rows))


# (id, key, inserted, expires) at slot 5 of a table with tick 1 and span 6, and what becomes of it
FATES: list[tuple[tuple[Any, ...], str | None]] = [
    ((1, "a", 5, 8), None),
    ((2, "a", -1, 5), "over"),
    ((3, None, 5, 8), "key key is null"),
    ((4, "a", None, 8), "insertion time inserted is null"),
    ((5, "a", 5, None), "expiration time expires is null"),
    ((6, None, None, None), "key key is null"),
    ((7, "a", 5, 5), "expires at or before its insertion"),
    ((8, "a", 5, 4), "expires at or before its insertion"),
    ((9, "a", 6, 7), "inserted in the future"),
    ((10, "a", 5, 11), None),
    ((11, "a", 5, 12), "lives longer than the span 6"),
    ((12, "a", 2**62, 2**62 + 1), "inserted in the future"),
    ((13, "a", -(2**62), -(2**62) + 1), "over"),
    ((14, "a", -(2**62), 2**62), "lives longer than the span 6"),
    ((15, "a", 2**62, -(2**62)), "expires at or before its insertion"),
    ((16, "a", LEAST, MOST), "lives longer than the span 6"),
    ((17, "a", MOST, LEAST), "expires at or before its insertion"),
    ((18, "a", MOST, MOST), "expires at or before its insertion"),
    ((19, "a", LEAST, LEAST), "expires at or before its insertion"),
    ((20, "a", MOST - 1, MOST), ("its time is out of range")),
    ((21, "a", LEAST, LEAST + 1), "its time is out of range"),
    ((22, "", 5, 6), None),
]


@pytest.mark.parametrize("form", ["parquet", "csv", "jsonl", "direct", "arrow"])
def test_each_record_has_exactly_the_fate_that_its_times_and_key_give_it(
    form: str, warehouse: Warehouse, tmp_path: Path
) -> None:
    table = integer_table(warehouse)
    batch = records(*(row for row, _ in FATES))
    file = write_batch(tmp_path / f"b.{'parquet' if form in ('direct', 'arrow') else form}", batch)
    report = table.update(
        arrow_batch(batch) if form == "arrow" else file, at=5, engine="direct" if form == "direct" else "spark"
    )

    reasons = Counter(fate for _, fate in FATES if fate not in (None, "over"))
    assert report.reasons == reasons == refused(table)
    assert report.expired_on_arrival == sum(fate == "over" for _, fate in FATES)
    assert scanned_ids(table) == [row[0] for row, fate in FATES if fate is None]
    assert adds_up(report)
    kept = {json.loads(record.record)["id"]: (record.slot, record.reason) for record in refused_records(table.table)}
    assert kept == {row[0]: (5, fate) for row, fate in FATES if fate not in (None, "over")}


@pytest.mark.parametrize("origin", [-(2**40), -7, 0, 7, 2**40])
def test_extreme_times_do_not_wrap_around_whatever_the_origin_is(
    origin: int, warehouse: Warehouse, tmp_path: Path
) -> None:
    table = integer_table(warehouse, origin=str(origin), tick="7", span="70")
    edges = [LEAST, LEAST + 1, LEAST + 70, -(2**62), -1, 0, origin, origin + 7, 2**62, MOST - 70, MOST - 1, MOST]
    pairs = list(itertools.product(edges, edges))
    batch = [Record(i, "k", a, b) for i, (a, b) in enumerate(pairs)]
    report = table.update(write_batch(tmp_path / "b.parquet", batch), at=origin + 7)

    line = table.table.snapshot().spec.timeline
    good = [i for i, (a, b) in enumerate(pairs) if 0 < b - a <= 70 and line.slot_of(a) <= 1 < line.slot_of(b)]
    assert scanned_ids(table) == good
    assert report.reasons["expires at or before its insertion"] == sum(b <= a for a, b in pairs)
    assert report.reasons["lives longer than the span 70"] == sum(b - a > 70 for a, b in pairs)
    assert adds_up(report)


def test_records_at_slot_edges_live_exactly_as_long_as_the_model_says(warehouse: Warehouse, tmp_path: Path) -> None:
    table = integer_table(warehouse, tick="10", span="35", origin="3", strategy="norebuild", grid="3x2")
    line = table.table.snapshot().spec.timeline
    edges = [line.end_of(slot) + offset for slot in (3, 4, 5, 6, 8, 9) for offset in (-1, 0, 1)]
    batch = [Record(i, f"k{i % 7}", a, b) for i, (a, b) in enumerate(itertools.product(edges, edges))]
    model = Model(line)
    outcome = model.apply(5, batch)
    report = table.update(write_batch(tmp_path / "b.csv", batch), at=line.end_of(5))

    assert report.admitted == len(outcome.admitted) > 0
    assert report.expired_on_arrival == len(outcome.expired_on_arrival) > 0
    assert report.quarantined == len(outcome.quarantined) > 0
    assert adds_up(report)
    for slot in range(5, 12):
        if slot > 5:
            expired = table.update(at=line.end_of(slot)).expired
            assert expired == model.apply(slot, []).expired
        assert scanned_ids(table) == sorted(record.id for record in model.window())


def test_update_rounds_down_the_time_it_is_given(warehouse: Warehouse, tmp_path: Path) -> None:
    table = integer_table(warehouse, tick="10", span="60")
    assert table.update(write_batch(tmp_path / "b.csv", records((1, "a", 50, 61), (2, "a", 51, 61))), at=59).slot == 5

    assert refused(table) == {"inserted in the future": 1}


@pytest.mark.parametrize("kind", ["FLOAT", "DOUBLE"])
def test_floating_keys_are_finite_and_both_zeros_are_one_key(kind: str, warehouse: Warehouse, tmp_path: Path) -> None:
    schema = f"id BIGINT, key {kind}, inserted BIGINT, expires BIGINT"
    table = integer_table(warehouse, schema=schema)
    keys = [0.0, -0.0, 1.5, math.nan, math.inf, -math.inf, None, 5e-324 if kind == "DOUBLE" else 1e-45, -1.5]
    arrow = pa.float64() if kind == "DOUBLE" else pa.float32()
    columns = [pa.array(range(9)), pa.array(keys, arrow), pa.array([5] * 9), pa.array([8] * 9)]
    pq.write_table(pa.table(columns, names=["id", "key", "inserted", "expires"]), tmp_path / "b.parquet")
    report = table.update(tmp_path / "b.parquet", at=5)

    assert report.reasons == {"key key is not finite": 3, "key key is null": 1}
    for zero in (0.0, -0.0, "0", "-0.0"):
        found = table.probe(zero)
        assert sorted(found["id"].to_pylist()) == [0, 1]
        assert [math.copysign(1, key) for key in found["key"].to_pylist()] == [1, 1]
    assert table.probe(1.5, -1.5)["id"].to_pylist() == [8, 2]
    assert table.probe(math.nan).num_rows == 0
    lines = ["9,NaN,6,8", "10,Infinity,6,8", "11,-0.0,6,8", "12,-Infinity,6,8", "13,,6,8"]
    report = table.update(write_lines(tmp_path / "b.csv", "id,key,inserted,expires", *lines), at=6)
    assert report.reasons == {"key key is not finite": 3, "key key is null": 1}
    assert sorted(table.probe(0)["id"].to_pylist()) == [0, 1, 11]


COMPOSITE = "id BIGINT, inserted BIGINT, a STRING, b INT, c DATE, expires BIGINT"


def test_composite_keys_need_every_part_and_are_found_by_leading_parts(warehouse: Warehouse, tmp_path: Path) -> None:
    table = integer_table(warehouse, schema=COMPOSITE, key=["a", "b", "c"])
    parts: list[tuple[Any, Any, Any]] = [
        ("x", 1, "2020-01-01"),
        ("x", 1, "2020-01-02"),
        ("x", 2, "2020-01-01"),
        ("xy", 1, "2020-01-01"),
        (None, 1, "2020-01-01"),
        ("x", None, "2020-01-01"),
        ("x", 1, None),
        ("", -1, "1969-12-31"),
    ]
    rows = [{"id": i, "inserted": 5, "a": a, "b": b, "c": c, "expires": 9 - i % 3} for i, (a, b, c) in enumerate(parts)]
    report = table.update(write_rows(tmp_path / "b.jsonl", rows), at=5)

    assert report.reasons == {"key a is null": 1, "key b is null": 1, "key c is null": 1}

    def found(*keys: Any) -> list[int]:
        return sorted(table.probe(*keys)["id"].to_pylist())

    assert found("x") == [0, 1, 2]
    assert found(("x", 1)) == [0, 1]
    assert found(("x", 1, date(2020, 1, 2))) == [1]
    assert found(("", "-1", "1969-12-31")) == [7]
    assert found(("x", 2), ("xy",)) == [2, 3]
    assert found(("y", 1)) == []


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("STRING", ["", "a", "ab", "é", "\U0001f600", "\ufb01", "a\nb", 'q"q', "back\\slash", "a,b", " "]),
        ("BINARY", [b"", b"\x00", b"\x00\xff", b"\xff", b"abc", b"\x80"]),
        ("BIGINT", [LEAST, -1, 0, 1, MOST]),
        ("SMALLINT", [-(2**15), -1, 0, 2**15 - 1]),
        ("TINYINT", [-128, -1, 0, 127]),
        ("BOOLEAN", [True, False]),
        ("DECIMAL(20,3)", [Decimal("-99999999999999999.999"), Decimal("0.001"), Decimal("0.000"), Decimal("1.500")]),
        ("DATE", [date(1, 1, 1), date(1969, 12, 31), date(1970, 1, 1), date(9999, 12, 31)]),
        (
            "TIMESTAMP",
            [
                datetime(1582, 10, 1, tzinfo=UTC),
                datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
                datetime(2013, 3, 10, 7, 0, 0, 1, tzinfo=UTC),
                datetime(9999, 12, 31, tzinfo=UTC),
            ],
        ),
    ],
)
def test_keys_of_every_type_are_found_again_behind_nested_columns(
    kind: str, values: list[Any], warehouse: Warehouse, tmp_path: Path, spark: Any
) -> None:
    """Nested columns have several leaves: the key's statistics were looked up under another leaf, and probes missed."""
    schema = (
        f"s STRUCT<a:STRING,b:BIGINT>, m MAP<STRING,BIGINT>, id BIGINT, key {kind}, inserted BIGINT, expires BIGINT"
    )
    table = integer_table(warehouse, schema=schema)
    nested = {"s": {"a": "m", "b": 0}, "m": {"m": 0}}
    for slot in (5, 6):
        rows = [
            nested | {"id": 100 * slot + i, "key": value, "inserted": slot, "expires": slot + 5}
            for i, value in enumerate(values)
        ]
        spark.createDataFrame([tuple(row.values()) for row in rows], schema).write.parquet(str(tmp_path / f"{slot}"))
        assert table.update(tmp_path / f"{slot}", at=slot).admitted == len(values)

    for sealed in (False, True):
        if sealed:
            table.update(at=9, catch_up=True)
            table.seal()
        for i, value in enumerate(values):
            found = table.probe(value)
            assert sorted(found["id"].to_pylist()) == [500 + i, 600 + i]
            assert set(found["key"].to_pylist()) == {value}
    assert len(scanned(table)) == 2 * len(values)


TYPES = (
    "id BIGINT, key STRING, inserted BIGINT, expires BIGINT, text STRING, bytes BINARY, money DECIMAL(38,10), day DATE, "
    "moment TIMESTAMP, flag BOOLEAN, tiny TINYINT, small SMALLINT, whole INT, single FLOAT, real DOUBLE, "
    "list ARRAY<STRING>, tree STRUCT<n:INT,inner:STRUCT<t:TIMESTAMP,l:ARRAY<INT>>>, lookup MAP<STRING,INT>, "
    "deep ARRAY<STRUCT<a:DECIMAL(5,2),m:MAP<STRING,ARRAY<DATE>>>>"
)
MOMENT = datetime(2013, 3, 10, 7, 30, 0, 123456, tzinfo=UTC)
VALUES: list[dict[str, Any]] = [
    {
        "text": 'quote " comma , line\nbreak\r\n tab\t back\\slash \\" ünï \U0001f600 \u2028 end ',
        "bytes": bytes(range(256)),
        "money": Decimal("-1234567890123456789012345678.0123456789"),
        "day": date(1, 1, 1),
        "moment": MOMENT,
        "flag": True,
        "tiny": -128,
        "small": -(2**15),
        "whole": -(2**31),
        "single": 1.1754943508222875e-38,
        "real": 5e-324,
        "list": ["", None, "a\nb", '"'],
        "tree": {"n": None, "inner": {"t": MOMENT, "l": [1, None]}},
        "lookup": [("a", 1), ("", None)],
        "deep": [{"a": Decimal("1.50"), "m": [("k", [date(2020, 2, 29)])]}, None],
    },
    {
        "text": "",
        "bytes": b"",
        "money": Decimal("0E-10"),
        "day": date(9999, 12, 31),
        "moment": datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
        "flag": False,
        "tiny": 127,
        "small": 2**15 - 1,
        "whole": 2**31 - 1,
        "single": math.inf,
        "real": -math.inf,
        "list": [],
        "tree": {"n": 1, "inner": None},
        "lookup": [],
        "deep": [],
    },
    dict.fromkeys(
        ["text", "bytes", "money", "day", "moment", "flag", "tiny", "small", "whole", "single", "real", "list", "tree"]
    )
    | {"lookup": None, "deep": None},
]


@pytest.mark.parametrize("way", ["parquet", "DataFrame"])
def test_every_type_survives_unchanged_through_probe_scan_and_sql(
    way: str, warehouse: Warehouse, tmp_path: Path, spark: Any
) -> None:
    from ebb.warehouse.parquet.arrow import arrow_schema

    table = integer_table(warehouse, schema=TYPES)
    spec = table.table.snapshot().spec
    arrow = pa.schema([f for f in arrow_schema(spec.columns) if not f.name.startswith("_")])
    rows = [{"id": i, "key": "k", "inserted": 5, "expires": 8} | values for i, values in enumerate(VALUES)]
    pq.write_table(pa.Table.from_pylist(rows, schema=arrow), tmp_path / "b.parquet")
    batch = tmp_path / "b.parquet" if way == "parquet" else spark.read.parquet(str(tmp_path / "b.parquet"))
    assert table.update(batch, at=5).admitted == len(rows)
    warehouse.register(spark)

    wanted = pa.Table.from_pylist(rows, schema=arrow).to_pylist()
    assert scanned(table) == wanted
    assert sorted(table.probe("k").to_pylist(), key=lambda row: row["id"]) == wanted
    answer = spark.sql("SELECT * FROM t ORDER BY id").toArrow()
    assert answer.cast(arrow).to_pylist() == wanted
    table.update(at=9, catch_up=True, yes=True)
    assert scanned(table) == []


def test_every_type_that_text_can_hold_comes_unchanged_out_of_json_lines_and_csv(
    warehouse: Warehouse, tmp_path: Path
) -> None:
    schema = (
        "id BIGINT, key STRING, inserted BIGINT, expires BIGINT, text STRING, money DECIMAL(20,4), day DATE, "
        "moment TIMESTAMP, flag BOOLEAN, tiny TINYINT, small SMALLINT, whole INT, single FLOAT, real DOUBLE"
    )
    texts = [
        'say "hi"', '"', '""', "ends with back\\", 'back\\"slash', "a,b", "line\nbreak", "carriage\rreturn", "both\r\nof",
        " spaces ", "", "NULL", "null", "ünï \U0001f600", "#comment", "'", "\t", "end of line\n",
    ]  # fmt: skip
    rows: list[dict[str, Any]] = [
        {
            "id": i, "key": text, "inserted": 5, "expires": 8, "text": text, "money": "-1234567890.1234", "day": "2020-02-29",
            "moment": "2013-03-10T07:30:00.123456Z", "flag": True, "tiny": -128, "small": 32767, "whole": -(2**31),
            "single": 0.1, "real": 0.1,
        }
        for i, text in enumerate(texts)
    ]  # fmt: skip
    rows.append(dict.fromkeys(rows[0]) | {"id": len(texts), "key": "k", "inserted": 5, "expires": 8})
    expected: list[dict[str, Any]] = [
        row if row["day"] is None else row | {
            "money": Decimal(row["money"]), "day": date(2020, 2, 29), "moment": MOMENT, "single": pa.scalar(0.1, pa.float32()).as_py(),
        }
        for row in rows
    ]  # fmt: skip

    def field(value: Any) -> str:
        if isinstance(value, str):
            return '"' + value.replace('"', '""') + '"'
        return "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)

    lines = [",".join(rows[0]), *(",".join(field(value) for value in row.values()) for row in rows)]
    for form, file in (
        ("csv", write_lines(tmp_path / "b.csv", *lines)),
        ("packed_csv", write_lines(tmp_path / "b.csv.gz", *lines)),
        ("jsonl", write_rows(tmp_path / "b.jsonl", rows)),
    ):
        table = integer_table(warehouse, form, schema=schema)
        report = table.update(file, at=5)

        assert report.reasons == {}, form
        assert scanned(table) == expected, form


def test_csv_that_cannot_be_read_goes_to_quarantine_as_the_text_it_was(warehouse: Warehouse, tmp_path: Path) -> None:
    table = integer_table(warehouse)
    broken = [
        "2,a,5",
        "3,a,5,8,x,more",
        "four,a,5,8,x",
        "5,a,5.5,8,x",
        "99999999999999999999,a,5,8,x",
        '6,a,"",8,x',
        ",",
    ]
    lines = ["id,key,inserted,expires,pay", "1,a,5,8,x", *broken, "", "7,,5,8,", '8,"",5,8,""', "9,a,,8,x"]
    report = table.update(write_lines(tmp_path / "b.csv", *lines), at=5)

    assert report.reasons == {
        "it has too few fields": 2,
        "it has too many fields": 1,
        "id does not fit bigint": 2,
        "inserted does not fit bigint": 2,
        "key key is null": 1,
        "insertion time inserted is null": 1,
    }
    kept = refused_records(table.table)
    assert sorted(r.record for r in kept if "fields" in r.reason) == sorted([broken[0], broken[1], broken[6]])
    assert {(r.file, r.line, r.column) for r in kept} == {
        *(("b.csv", line, None) for line in (3, 4, 9, 11, 13)),
        *(("b.csv", line, "id") for line in (5, 7)),
        *(("b.csv", line, "inserted") for line in (6, 8)),
    }
    shown = {"id": "four", "key": "a", "inserted": "5", "expires": "8", "pay": "x"}
    assert shown in [json.loads(r.record) for r in kept if r.column == "id"]
    assert [(row["id"], row["key"], row["pay"]) for row in scanned(table)] == [(1, "a", "x"), (8, "", "")]
    assert adds_up(report)


def test_csv_of_other_systems_is_read_and_an_open_quote_loses_nothing(warehouse: Warehouse, tmp_path: Path) -> None:
    head = "id,key,inserted,expires,pay"
    texts = {
        "windows": f'{head}\r\n1,a,5,8,x\r\n2,"b",5,8,"two\nlines"\r\n',
        "bom": f"\ufeff{head}\n1,a,5,8,x\n2,b,5,8,two\nlines",
        "quoted": '"id","key","inserted","expires","pay"\n"1","a","5","8","x"\n2,b,5,8,say "hi"\n',
        "open": f'{head}\n1,a,5,8,x\n2,"b,5,8,x\n3,c,5,8,y\n',
    }
    found: dict[str, list[Any]] = {}
    for name, text in texts.items():
        (tmp_path / f"{name}.csv").write_bytes(text.encode())
        table = integer_table(warehouse, name)
        assert adds_up(table.update(tmp_path / f"{name}.csv", at=5))
        found[name] = [row["pay"] for row in scanned(table)] + [r.record for r in refused_records(table.table)]

    assert found == {
        "windows": ["x", "two\nlines"],
        "bom": ["x", "two", "lines"],
        "quoted": ["x", 'say "hi"'],
        "open": ["x", '2,"b,5,8,x\n3,c,5,8,y'],
    }


def test_json_that_cannot_be_read_goes_to_quarantine_as_the_text_it_was(warehouse: Warehouse, tmp_path: Path) -> None:
    table = integer_table(warehouse)
    good = {"id": 1, "key": "a", "inserted": 5, "expires": 8, "pay": "x"}
    broken = [
        '{"id":2,"key"',
        json.dumps([good, good]),
        "5",
        '"x"',
        "not json",
        json.dumps(good | {"id": 1.5}),
        json.dumps(good | {"id": 2**64}),
        json.dumps(good | {"inserted": "x"}),
        json.dumps(good | {"id": [1]}),
        json.dumps(good | {"id": True}),
    ]
    lines = [json.dumps(good), *broken, "", "   ", "{}", json.dumps(good | {"id": 7, "key": None})]
    report = table.update(write_lines(tmp_path / "b.jsonl", *lines), at=5)

    assert report.reasons == {
        "it is not JSON": 2,
        "it is not a JSON object": 3,
        "id does not fit bigint": 4,
        "inserted does not fit bigint": 1,
        "key key is null": 2,
    }
    kept = refused_records(table.table)
    assert sorted(r.record for r in kept if "key" not in r.reason) == sorted(broken)
    assert {r.line: r.record for r in kept if "key" not in r.reason} == dict(enumerate(broken, start=2))
    assert scanned(table) == [good]
    assert adds_up(report)


def test_a_line_that_holds_more_than_one_json_record_goes_to_quarantine_whole(
    warehouse: Warehouse, tmp_path: Path
) -> None:
    """Two files joined without a line break: the parser read the first record and the second was lost."""
    schema = "id BIGINT, key STRING, inserted BIGINT, expires BIGINT, x DOUBLE"
    table = integer_table(warehouse, schema=schema)
    good = {"id": 1, "key": 'a}{"', "inserted": 5, "expires": 8, "x": 0.5}
    line = json.dumps(good)
    broken = [line + line, line + " trailing", f"{line},{line}", line + "}", line + ",", line[:-1]]
    odd = json.dumps(good | {"id": 2, "x": math.inf})
    report = table.update(write_lines(tmp_path / "b.jsonl", line, odd, f" {line} \t", *broken), at=5)

    assert report.reasons == {"it is not JSON": len(broken)}
    assert sorted(r.record for r in refused_records(table.table)) == sorted(broken)
    assert [row["x"] for row in scanned(table)] == [0.5, 0.5, math.inf]


def test_packed_files_folders_and_patterns_are_one_batch(warehouse: Warehouse, tmp_path: Path) -> None:
    batch = [Record(i, f"k{i}", 5, 8) for i in range(12)]
    folder = tmp_path / "in"
    write_batch(folder / "a.csv", batch[:3])
    write_batch(folder / "deep" / "b.csv.gz", batch[3:6])
    write_batch(folder / "deep" / "er" / "c.jsonl.gz", batch[6:9])
    write_batch(folder / "d.parquet", batch[9:])
    for hidden in ("_temporary/x.csv", ".hidden/x.csv", "deep/_x.csv", "deep/.x.csv"):
        write_batch(folder / hidden, records((99, "no", 5, 8)))
    patterns: dict[str, Any] = {
        "folder": folder,
        "twice": [folder, folder / "a.csv", f"{folder}/deep/../a.csv"],
        "patterns": [f"{folder}/*.csv", f"{folder}/deep/**/*.gz", f"{folder}/?.parquet"],
    }
    for name, batch_of in patterns.items():
        table = integer_table(warehouse, name)
        assert table.update(batch_of, at=5).received == 12, name
        assert scanned_ids(table) == list(range(12))
    table = integer_table(warehouse, "missing")
    for missing in (tmp_path / "no.csv", f"{folder}/*.nothing", folder / "a.txt"):
        with pytest.raises(UnreadableInputError):
            table.update(missing, at=5)
    assert version_of(table) == 0


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet"])
def test_a_file_is_read_whatever_its_name_and_never_another_one(
    form: str, warehouse: Warehouse, tmp_path: Path
) -> None:
    """Spark takes [1] for a pattern: a[1].csv was read from a1.csv."""
    names = [
        "a[1]",
        "b{x,y}",
        "st*r",
        "q?",
        "back\\slash",
        "sp ace",
        "per%20cent",
        "ü",
        "h#sh",
        "com,ma",
        "pl+us",
        "k=v",
    ]
    for decoy in ("a1", "bx", "by", "starr", "qq", "backslash", "back/slash"):
        write_batch(tmp_path / "in" / f"{decoy}.{form}", records((99, "decoy", 5, 8)))
    batch = [Record(i, name, 5, 8) for i, name in enumerate(names)]
    files = [
        write_batch(tmp_path / "in" / f"{name}.{form}", [record]) for name, record in zip(names, batch, strict=True)
    ]
    table = integer_table(warehouse)

    assert table.update(files, at=5).received == len(names)
    assert scanned_ids(table) == list(range(len(names)))


def test_a_file_that_spark_would_pass_over_is_refused_and_not_lost(warehouse: Warehouse, tmp_path: Path) -> None:
    table = integer_table(warehouse)
    fine = write_batch(tmp_path / "fine.csv", records((1, "a", 5, 8)))
    for name in ("_hidden.csv", ".hidden.csv", "_hidden.parquet", "06:00.csv", "_x.jsonl.gz"):
        with pytest.raises(UnreadableInputError, match="rename it"):
            table.update([fine, write_batch(tmp_path / name, records((2, "a", 5, 8)))], at=5)
    assert version_of(table) == 0


def test_nanoseconds_round_up_to_the_next_microsecond(warehouse: Warehouse, tmp_path: Path) -> None:
    """A nanosecond past the end of a slot belongs to the next one; dividing as doubles lost it."""
    base = int(datetime(2026, 1, 1, 5, tzinfo=UTC).timestamp()) * 10**9
    old = -(10**9) * 86400 * 365 * 50
    for zone in ("UTC", None):
        table = timestamp_table(warehouse, f"zone_{zone}".lower(), span="1000000h")
        extra = [0, 1, 499, 999, 1000, 1001, -1, -999, -1000, -1001]
        inserted = [base + e for e in extra] + [old + e for e in extra]
        expires = [base + 3600 * 10**9] * len(inserted)
        kind = pa.timestamp("ns", zone)
        columns = [
            pa.array(range(20)),
            pa.array(["k"] * 20),
            pa.array(inserted, pa.int64()).cast(kind),
            pa.array(expires, pa.int64()).cast(kind),
        ]
        file = tmp_path / f"{zone}.parquet"
        pq.write_table(pa.table(columns, names=["id", "key", "inserted", "expires"]), file)
        report = table.update(file, at="2026-01-01T05:00:00Z")

        assert report.reasons == {"inserted in the future": 5}
        epoch = datetime(1970, 1, 1, tzinfo=UTC)
        found = {row["id"]: (row["inserted"] - epoch) // timedelta(microseconds=1) for row in scanned(table)}
        assert found == {i: -(-ns // 1000) for i, ns in enumerate(inserted) if ns <= base}


def test_times_without_a_zone_are_utc_on_every_path(warehouse: Warehouse, tmp_path: Path, spark: Any) -> None:
    """Among them Parquet with INT96, which Spark writes by default and which looks like nanoseconds to Arrow."""
    naive = [datetime(2026, 1, 1, 4, 59, 59, 999999), datetime(2026, 1, 1, 7)]  # noqa: DTZ001 - the point of it
    exact = [moment.replace(tzinfo=UTC) for moment in naive]
    batches: dict[str, Any] = {}
    for unit in ("us", "ns"):
        for zone in (None, "UTC", "America/New_York"):
            moments = exact if zone else naive
            columns = [pa.array([1]), pa.array(["k"]), *(pa.array([m], pa.timestamp(unit, zone)) for m in moments)]
            name = f"{unit}_{zone}".lower().replace("/", "_")
            file = batches[name] = tmp_path / f"{name}.parquet"
            pq.write_table(pa.table(columns, names=["id", "key", "inserted", "expires"]), file)
    pq.write_table(pq.read_table(batches["us_utc"]), tmp_path / "96.parquet", use_deprecated_int96_timestamps=True)
    batches["int96"] = tmp_path / "96.parquet"
    head = "id,key,inserted,expires"
    batches["csv"] = write_lines(tmp_path / "n.csv", head, "1,k,2026-01-01 04:59:59.999999,2026-01-01T07:00:00")
    batches["csv_zoned"] = write_lines(
        tmp_path / "z.csv", head, "1,k,2026-01-01T05:59:59.999999+01:00,2026-01-01T07:00:00Z"
    )
    row = {"id": 1, "key": "k", "inserted": "2026-01-01T04:59:59.999999", "expires": "2026-01-01 07:00:00"}
    batches["jsonl"] = write_rows(tmp_path / "n.jsonl", [row])
    texts = "1L id, 'k' key, {0}'2026-01-01 04:59:59.999999' inserted, {0}'2026-01-01 07:00:00' expires"
    batches["frame"] = spark.sql("SELECT " + texts.format("timestamp"))
    batches["frame_ntz"] = spark.sql("SELECT " + texts.format("timestamp_ntz"))
    batches["frame"].write.parquet(str(tmp_path / "spark"))
    batches["spark_parquet"] = tmp_path / "spark"
    digests = set()
    for name, batch in batches.items():
        table = timestamp_table(warehouse, name)
        report = table.update(batch, at="2026-01-01T05:00:00Z")

        assert (report.admitted, report.reasons) == (1, {}), name
        assert [[r["inserted"], r["expires"]] for r in scanned(table)] == [exact], name
        digests.add(table.table.snapshot().ledger.fingerprints.recent[-1][1])
    assert len(digests) == 1


def test_a_naive_time_is_utc_in_a_session_of_another_time_zone(warehouse: Warehouse, spark: Any) -> None:
    other = spark.newSession()
    other.conf.set("spark.sql.session.timeZone", "America/New_York")
    text = (
        "SELECT 1L id, 'k' key, timestamp_ntz'2026-01-01 04:30:00' inserted, timestamp_ntz'2026-01-01 07:00:00' expires"
    )
    table = timestamp_table(warehouse)
    report = table.update(other.sql(text), at="2026-01-01T05:00:00Z")

    assert (report.admitted, report.reasons) == (1, {})
    assert scanned(table)[0]["expires"] == datetime(2026, 1, 1, 7, tzinfo=UTC)
    assert {(f.min_exp, f.max_exp) for f in table.table.snapshot().files} == {(490903, 490903)}


def test_files_without_records_are_an_empty_tick(warehouse: Warehouse, tmp_path: Path, spark: Any) -> None:
    (tmp_path / "none.jsonl").touch()
    (tmp_path / "folder").mkdir()
    with pytest.raises(UnreadableInputError, match="there is no file in it"):
        integer_table(warehouse, "none").update(tmp_path / "folder", at=1)
    with gzip.open(tmp_path / "none.jsonl.gz", "wb"):
        pass
    batches: list[Any] = [
        tmp_path / "none.jsonl",
        tmp_path / "none.jsonl.gz",
        write_batch(tmp_path / "header.csv", []),
        write_batch(tmp_path / "rows.parquet", []),
        write_lines(tmp_path / "blank.jsonl", "", "  "),
        [],
        spark.createDataFrame([], SCHEMA),
        [tmp_path / "header.csv", tmp_path / "rows.parquet", tmp_path / "none.jsonl"],
    ]
    table = integer_table(warehouse)
    for slot, batch in enumerate(batches, start=1):
        report = table.update(batch, at=slot)

        assert (report.slot, report.ticks, report.received, report.already_applied) == (slot, 1, 0, False)
    assert data_files(table) == []
    assert table.table.snapshot().ledger.fingerprints.recent == ()


def test_damaged_files_are_refused_as_a_whole_and_the_next_update_goes_on(warehouse: Warehouse, tmp_path: Path) -> None:
    many = [Record(i, f"k{i}", 5, 8) for i in range(2000)]
    table = integer_table(warehouse)
    (tmp_path / "zero.parquet").touch()
    damaged = [tmp_path / "zero.parquet"]
    for form in ("parquet", "csv.gz", "jsonl.gz"):
        raw = write_batch(tmp_path / f"whole.{form}", many).read_bytes()
        (tmp_path / f"half.{form}").write_bytes(raw[: len(raw) // 2])
        (tmp_path / f"hit.{form}").write_bytes(raw[:30] + b"\xff" * 40 + raw[70:])
        damaged += [tmp_path / f"half.{form}", tmp_path / f"hit.{form}"]
    (tmp_path / "no.csv.gz").write_bytes(b"id,key\n")
    (tmp_path / "bytes.csv").write_bytes(b"\xff\xfe\x00id")
    fine = write_batch(tmp_path / "fine.csv", many[:3])
    for file in [*damaged, tmp_path / "no.csv.gz", tmp_path / "bytes.csv"]:
        with pytest.raises((UnreadableInputError, SchemaDriftError)) as caught:
            table.update([fine, file], at=5)
        assert caught.value.file == str(file)
        assert version_of(table) == 0
        assert data_files(table) == []
    assert table.update(fine, at=5).admitted == 3


def test_names_that_intake_needs_itself_are_refused_for_columns(warehouse: Warehouse) -> None:
    for name in (
        "_raw",
        "_reason",
        "_column",
        "_file",
        "_line",
        "_over",
        "_h1",
        "_f2",
        "_gen",
        "_g",
        "_E",
        "_ins_slot",
    ):
        with pytest.raises(UsageError, match="reserved"):
            integer_table(warehouse, schema=f"{SCHEMA}, {name} STRING")


@pytest.mark.parametrize(
    "names", [["_i", "_x", "_is", "value"], ["r", "k", "w", "fact", "record"], ["ID2", "select", "Ünï"]]
)
def test_columns_may_have_the_names_that_intake_uses_in_passing(
    names: list[str], warehouse: Warehouse, tmp_path: Path
) -> None:
    more = ", ".join(f"`{name}` STRING" for name in names)
    table = integer_table(warehouse, schema=f"{SCHEMA}, {more}")
    row = {"id": 1, "key": "a", "inserted": 5, "expires": 8, "pay": "x"} | {name: f"value of {name}" for name in names}
    bad = row | {"id": 2, "key": None}
    assert table.update(write_rows(tmp_path / "b.jsonl", [row, bad]), at=5).reasons == {"key key is null": 1}

    assert scanned(table) == [row]
    assert json.loads(refused_records(table.table)[0].record) == bad


def test_quarantined_records_go_when_their_time_is_over(warehouse: Warehouse, tmp_path: Path) -> None:
    table = integer_table(warehouse, quarantine_time="3")
    for slot in (5, 6):
        bad = [Record(slot, f"canary{slot}", slot, slot)]
        table.update(write_batch(tmp_path / f"{slot}.csv", bad), at=slot)
    assert [r.slot for r in refused_records(table.table)] == [5, 6]

    def left() -> list[int]:
        files = table.table.quarantine.glob("_slot=*/*.parquet")
        return sorted(int(file.parent.name.removeprefix("_slot=")) for file in files)

    table.erase()
    assert left() == [5, 6]
    table.update(at=7)
    assert table.erase(dry_run=True).quarantine_files_erased == 1
    assert left() == [5, 6]
    assert table.erase().quarantine_files_erased == 1
    assert left() == [6] == [r.slot for r in refused_records(table.table)]
    table.update(at=8)
    table.update(at=9)
    assert left() == []
    assert refused_records(table.table) == []
    log = b"".join(path.read_bytes() for path in table.table.quarantine.rglob("*") if path.is_file())
    assert b"canary" not in log


@pytest.mark.parametrize("again", ["refused", "fine", "empty"])
def test_what_an_unfinished_try_left_in_quarantine_is_replaced(
    again: str, warehouse: Warehouse, tmp_path: Path
) -> None:
    table = integer_table(warehouse)
    table.update(write_batch(tmp_path / "5.csv", records((1, "a", 5, 8), (2, None, 5, 8))), at=5)
    reason, record, nothing = pa.array(["from a try that died"]), pa.array(["{}"]), pa.nulls(1, pa.string())
    stale = pa.table([reason, record, nothing, pa.nulls(1, pa.int64()), nothing], names=list("abcde"))
    for slot in (6, 7):
        folder = f"u{slot}-0123456789ab"
        (table.table.folder / folder).mkdir()
        files = write_refused(str(table.table.folder), folder, [stale])["files"]
        commit_refused(table.table, files, slot=slot, clock=5, now_ms=0)
    batch = {"refused": records((3, None, 6, 8), (4, "a", 6, 6)), "fine": records((3, "a", 6, 8)), "empty": []}[again]
    table.update(write_batch(tmp_path / "6.csv", batch) if batch else None, at=6)

    wanted = (
        {"key key is null": 2, "expires at or before its insertion": 1}
        if again == "refused"
        else {"key key is null": 1}
    )
    assert refused(table) == wanted
    on_disk = list(table.table.quarantine.glob("_slot=*/*.parquet"))
    assert len(on_disk) == (2 if again == "refused" else 1)
