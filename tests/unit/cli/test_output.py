"""Records as tables, CSV, JSON lines, Arrow and Parquet."""

from __future__ import annotations

import csv
import io
import json
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq
import pytest

from ebb.cli.output import render
from ebb.cli.output.records import Format, limited, write_records
from ebb.index.errors import EngineError, UsageError

_SCHEMA = pa.schema(
    [
        ("n", pa.int64()), ("x", pa.float64()), ("s", pa.string()), ("t", pa.timestamp("us", "UTC")), ("d", pa.date32()),
        ("m", pa.decimal128(5, 2)), ("b", pa.binary()), ("y", pa.bool_()), ("l", pa.list_(pa.int32())),
        ("o", pa.struct([("a", pa.string())])),
    ]
)  # fmt: skip
_ROW: dict[str, Any] = {
    "n": -1, "x": 1.5, "s": 'say "a", b', "t": datetime(2013, 1, 1, 5, tzinfo=UTC), "d": date(2013, 1, 2),
    "m": Decimal("1.50"), "b": b"ebb", "y": True, "l": [1, 2], "o": {"a": "ü"},
}  # fmt: skip
_NOTHING: dict[str, Any] = dict.fromkeys(_ROW)


def _table(*rows: dict[str, Any]) -> pa.Table:
    return pa.Table.from_pylist(list(rows), schema=_SCHEMA)


def _texts(*values: str | None) -> pa.Table:
    return pa.table({"s": pa.array(values, pa.string()), "n": pa.array([-1] * len(values))})


def _written(tmp_path: Path, table: pa.Table, form: Format, **options: Any) -> bytes:
    file = tmp_path / "out"
    assert write_records([table], table.schema, form=form, output=file, **options) == table.num_rows
    assert [path.name for path in tmp_path.iterdir()] == ["out"], "no partial file stays"
    return file.read_bytes()


def test_json_lines_hold_every_type(tmp_path: Path) -> None:
    first, second = _written(tmp_path, _table(_ROW, _NOTHING), Format.jsonl).decode().splitlines()

    assert json.loads(first) == {
        "n": -1, "x": 1.5, "s": 'say "a", b', "t": "2013-01-01T05:00:00Z", "d": "2013-01-02", "m": "1.50",
        "b": "ZWJi", "y": True, "l": [1, 2], "o": {"a": "ü"},
    }  # fmt: skip
    assert json.loads(second) == _NOTHING


def test_csv_holds_every_type(tmp_path: Path) -> None:
    text = _written(tmp_path, _table(_ROW, _NOTHING), Format.csv).decode()

    header, first, second = csv.reader(io.StringIO(text))
    assert header == list(_ROW)
    expected = [
        "-1",
        "1.5",
        'say "a", b',
        "2013-01-01T05:00:00Z",
        "2013-01-02",
        "1.50",
        "ZWJi",
        "true",
        "[1, 2]",
        '{"a": "ü"}',
    ]
    assert first == expected
    assert second == [""] * len(_ROW)


def test_csv_tells_the_empty_text_from_nothing_and_quotes_what_it_must(tmp_path: Path) -> None:
    text = _written(tmp_path, _texts("", None, 'a"b', "a,b", "a\nb", "a\rb", " a "), Format.csv).decode()

    assert text == 's,n\n"",-1\n,-1\n"a""b",-1\n"a,b",-1\n"a\nb",-1\n"a\rb",-1\n a ,-1\n'


def test_a_csv_line_is_never_blank(tmp_path: Path) -> None:
    assert _written(tmp_path, pa.table({"s": pa.array([None], pa.string())}), Format.csv) == b's\n""\n'


def test_formulas_are_neutralised_on_request_and_numbers_stay_numbers(tmp_path: Path) -> None:
    payloads = ["=1+1", "+1", "-1", "@SUM(A1)", "\tx", "\rx", "fine", "a=1"]

    guarded = list(
        csv.reader(
            io.StringIO(_written(tmp_path, _texts(*payloads), Format.csv, guard_formulas=True).decode(), newline="")
        )
    )
    assert [row[0] for row in guarded[1:]] == ["'=1+1", "'+1", "'-1", "'@SUM(A1)", "'\tx", "'\rx", "fine", "a=1"]
    assert {row[1] for row in guarded[1:]} == {"-1"}
    plain = list(csv.reader(io.StringIO(_written(tmp_path, _texts(*payloads), Format.csv).decode(), newline="")))
    assert [row[0] for row in plain[1:]] == payloads


@pytest.mark.parametrize("form", [Format.arrow, Format.parquet])
def test_arrow_and_parquet_come_back_as_they_were(tmp_path: Path, form: Format) -> None:
    table = _table(_ROW, _NOTHING)
    data = io.BytesIO(_written(tmp_path, table, form))

    found = pq.read_table(data) if form is Format.parquet else pyarrow.ipc.open_stream(data).read_all()
    assert found.to_pylist() == table.to_pylist()


@pytest.mark.parametrize("form", list(Format))
def test_no_records_are_written_as_no_records(tmp_path: Path, form: Format) -> None:
    assert write_records([], _SCHEMA, form=form, output=tmp_path / "out") == 0


def test_a_table_for_people_is_aligned_and_numbers_stand_right(tmp_path: Path) -> None:
    text = _written(tmp_path, _texts("a", "long text", None), Format.table).decode()

    assert text == "s           n\n─────────  ──\na          -1\nlong text  -1\n           -1\n(3 records)\n"


def test_a_table_for_people_is_cut_and_says_so(tmp_path: Path) -> None:
    table = pa.table({"n": pa.array(range(5000))})

    assert write_records([table], table.schema, form=Format.table, output=tmp_path / "out") == 1000
    assert (tmp_path / "out").read_text(encoding="utf-8").splitlines()[-1].startswith("(1,000 records shown, there are")


_PAYLOADS = [
    "\x1b[31mred\x1b[0m",
    "\x1b]0;title\x07",
    "\x9b2J",
    "a\rb",
    "\u202egnp.exe",
    "\x00",
    "\x7f",
    "new\nline",
    "\u2066x\u2069",
]


@pytest.mark.parametrize("payload", _PAYLOADS)
def test_control_characters_are_shown_instead_of_obeyed(tmp_path: Path, payload: str) -> None:
    shown = _written(tmp_path, _texts(payload), Format.table).decode()
    lines = _written(tmp_path, _texts(payload), Format.jsonl).decode()

    for text in (shown, lines, render.visible(payload)):
        assert not any(character in text for character in "\x1b\x07\x9b\r\x00\x7f\u202e\u2066\u2069")
    assert json.loads(lines)["s"] == payload, "JSON keeps the value"
    assert len(shown.splitlines()) == 4


def test_a_terminal_is_spared_control_characters_in_csv_too(
    capsysbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    table = _texts("\x1b[31mred")
    write_records([table], table.schema, form=Format.csv, output=None)
    assert capsysbinary.readouterr().out == b"s,n\n\x1b[31mred,-1\n"
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)

    write_records([table], table.schema, form=Format.csv, output=None)
    assert capsysbinary.readouterr().out == b"s,n\n\\x1b[31mred,-1\n"
    for form in (Format.arrow, Format.parquet):
        with pytest.raises(UsageError, match="not for a terminal"):
            write_records([table], table.schema, form=form, output=None)


def test_a_column_name_cannot_speak_to_the_terminal() -> None:
    assert "\x1b" not in "".join(render.table_text([("1",)], ("a\x1b[2J",)))


def test_json_has_no_word_for_what_is_no_number(tmp_path: Path) -> None:
    table = pa.table({"x": [float("nan"), float("inf"), float("-inf"), 0.5]})

    lines = _written(tmp_path, table, Format.jsonl).decode().splitlines()
    assert [json.loads(line, parse_constant=pytest.fail)["x"] for line in lines] == [
        "NaN",
        "Infinity",
        "-Infinity",
        0.5,
    ]


def test_two_columns_of_one_name_are_shown_but_not_made_one(tmp_path: Path) -> None:
    table = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"])

    assert _written(tmp_path, table, Format.csv) == b"a,a\n1,2\n"
    assert "1  2" in _written(tmp_path, table, Format.table).decode()
    with pytest.raises(UsageError, match="two columns have one name"):
        write_records([table], table.schema, form=Format.jsonl, output=tmp_path / "out")


def test_a_file_appears_only_when_it_is_complete(tmp_path: Path) -> None:
    def broken() -> Any:
        yield _texts("a")
        raise UsageError("enough")

    (tmp_path / "out").write_bytes(b"old")
    for form in (Format.csv, Format.jsonl, Format.arrow):
        with pytest.raises(UsageError, match="enough"):
            write_records(broken(), _texts("a").schema, form=form, output=tmp_path / "out")

    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert (tmp_path / "out").read_bytes() == b"old"


def test_an_error_in_the_middle_leaves_standard_output_open(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    import sys

    def broken() -> Any:
        yield _texts("a")
        raise UsageError("enough")

    with pytest.raises(UsageError, match="enough"):
        write_records(broken(), _texts("a").schema, form=Format.csv, output=None)

    assert not sys.stdout.buffer.closed


def test_a_pipe_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    import os
    import threading

    os.mkfifo(tmp_path / "pipe")
    heard: list[bytes] = []
    reader = threading.Thread(target=lambda: heard.append((tmp_path / "pipe").read_bytes()))
    reader.start()

    write_records([_texts("a")], _texts("a").schema, form=Format.csv, output=tmp_path / "pipe")

    reader.join(10)
    assert heard == [b"s,n\na,-1\n"]
    assert (tmp_path / "pipe").is_fifo()


def test_a_link_is_followed_and_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "target").write_bytes(b"old")
    (tmp_path / "link").symlink_to("target")

    write_records([_texts("a")], _texts("a").schema, form=Format.csv, output=tmp_path / "link")

    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").read_bytes() == b"s,n\na,-1\n"


def test_a_file_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="it is a folder"):
        write_records([_texts("a")], _texts("a").schema, form=Format.csv, output=tmp_path)
    with pytest.raises(EngineError, match=r"out cannot be written: there is no folder .*no; make it"):
        write_records([_texts("a")], _texts("a").schema, form=Format.csv, output=tmp_path / "no" / "out")


@pytest.mark.parametrize(
    ("limit", "expected"), [(None, [3, 3]), (0, []), (2, [2]), (3, [3]), (4, [3, 1]), (99, [3, 3])]
)
def test_a_limit_cuts_and_stops_reading(limit: int | None, expected: list[int]) -> None:
    parts = [batch for texts in ("abc", "def") for batch in _texts(*texts).to_batches()]

    assert [part.num_rows for part in limited(iter(parts), limit)] == expected


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (1_500_000, "1.5 MB"), (10**15, "1000.0 TB")]
)
def test_bytes_are_written_for_people(count: int, text: str) -> None:
    assert render.bytes_text(count) == text


def test_text_is_written_column_by_column_and_not_value_by_value(tmp_path: Path) -> None:
    """CSV took 80 times as long as Arrow, JSON lines 55 times; a generous bound, as other tests may run beside this one."""
    import time

    rows = 200_000
    table = pa.table(
        {
            "s": pa.array(["a", "San Francisco, CA", "", None] * (rows // 4)), "n": pa.array(range(rows)),
            "x": pa.array(range(rows), pa.float64()), "t": pa.array(range(rows), pa.timestamp("s", "UTC")),
        }
    )  # fmt: skip
    took = {}
    for form in (Format.csv, Format.jsonl):
        began = time.perf_counter()
        write_records([table], table.schema, form=form, output=tmp_path / "out")
        took[form.value] = time.perf_counter() - began

    assert max(took.values()) < 1.0, took  # 0.1 s each; one by one it was 1.7 s and 1.3 s
