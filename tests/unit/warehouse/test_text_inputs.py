"""CSV and JSON lines as people write them: separators, encodings, names, and where a refused record stands."""

from __future__ import annotations

import gzip
import io
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import ebb
from ebb import OpenTable, Warehouse
from ebb.cli.hints import error_text
from ebb.index.columns import parse_columns
from ebb.index.inputs import InputRules, InputSchema
from ebb.warehouse.intake.readers import read_piece
from ebb.warehouse.intake.samples import infer_columns
from ebb.warehouse.intake.source import check_inputs, find_inputs, split
from ebb.warehouse.intake.text_input import encoding_of
from tests.builders import integer_table, refused_records, scanned
from tests.hostile import peak_bytes

SCHEMA = "code STRING, net DECIMAL(6,2), came BIGINT, until BIGINT"


@pytest.fixture
def table(warehouse: Warehouse) -> OpenTable:
    times: dict[str, Any] = {"inserted": "came", "expires": "until", "tick": 1, "span": 20}
    return warehouse.create("t", schema=SCHEMA, key="code", **times)


def take(table: OpenTable, path: Path, text: str | bytes, **inputs: Any) -> list[dict[str, Any]]:
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    table.update(path, at=5, engine="direct", inputs=inputs)
    return [{name: row[name] for name in ("code", "net")} for row in scanned(table)]


def shown(rows: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return sorted((row["code"], str(row["net"])) for row in rows)


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
def test_the_separator_is_recognised(separator: str, table: OpenTable, tmp_path: Path) -> None:
    lines = [["until", "code", "came", "net"], ["9", '"a;b,c|d"', "5", "1.50"]]
    rows = take(table, tmp_path / "b.csv", "\n".join(separator.join(line) for line in lines))

    assert shown(rows) == [("a;b,c|d", "1.50")]


@pytest.mark.parametrize("name", ["b.tsv", "B.TSV", "b.tsv.gz"])
def test_files_of_tabs_are_known_by_their_suffix(name: str, table: OpenTable, tmp_path: Path) -> None:
    text = b"code\tnet,came;until|x\tcame\tuntil\na,b\t1\t5\t9\n"
    raw = gzip.compress(text) if name.endswith("gz") else text

    assert take(table, tmp_path / name, raw, rename={"net,came;until|x": "net"})[0]["code"] == "a,b"


@pytest.mark.parametrize("name", ["b.csv", "b.tsv"])
def test_another_separator_can_be_named(name: str, table: OpenTable, tmp_path: Path) -> None:
    assert shown(take(table, tmp_path / name, "code~net~came~until\na~1~5~9\n", separator="~")) == [("a", "1.00")]


@pytest.mark.parametrize(
    ("encoding", "inputs"),
    [
        ("utf-8", {}),
        ("utf-8-sig", {}),
        ("utf-16", {}),
        ("utf-32", {}),
        ("utf-8-sig", {"encoding": "utf-8"}),
        ("utf-8-sig", {"encoding": "UTF8"}),
        ("utf-16", {"encoding": "utf-16"}),
        ("utf-16", {"encoding": "utf-16-le"}),
        ("utf-16-le", {"encoding": "utf-16-le"}),
        ("latin-1", {"encoding": "latin-1"}),
        ("cp1252", {"encoding": "cp1252"}),
    ],
)
@pytest.mark.parametrize("form", ["csv", "csv.gz", "jsonl", "jsonl.gz"])
def test_the_encoding_is_recognised_or_named(
    encoding: str, inputs: dict[str, str], form: str, table: OpenTable, tmp_path: Path
) -> None:
    text = "code,net,came,until\r\né,1.5,5,9\r\n"
    if "json" in form:
        text = json.dumps({"code": "é", "net": 1.5, "came": 5, "until": 9}, ensure_ascii=False) + "\r\n"
    raw = text.encode(encoding)
    rows = take(table, tmp_path / f"b.{form}", gzip.compress(raw) if form.endswith("gz") else raw, **inputs)

    assert shown(rows) == [("é", "1.50")]


@pytest.mark.parametrize(
    ("encoding", "named"),
    [
        ("utf-8-sig", "latin-1"),
        ("utf-8-sig", "utf-16"),
        ("utf-16", "utf-8"),
        ("utf-16", "utf-16-be"),
        ("utf-32", "cp1252"),
    ],
)
@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_an_encoding_that_the_first_bytes_contradict_is_refused(
    encoding: str, named: str, form: str, table: OpenTable, tmp_path: Path
) -> None:
    """Under latin-1, the mark was a part of the first name: column ï»¿code is not in the table."""
    told = encoding.removesuffix("-sig")
    with pytest.raises(ebb.UnreadableInputError) as caught:
        take(table, tmp_path / f"b.{form}", "code,net,came,until\n".encode(encoding), encoding=named)

    assert f"first bytes say that it is {told}, and its encoding was named as {named}" in str(caught.value)
    assert error_text(caught.value).endswith(f"; pass --encoding {told}, or write it in {named}")


def test_a_byte_that_is_not_utf_8_refuses_its_record_and_not_the_header(table: OpenTable, tmp_path: Path) -> None:
    rows = take(table, tmp_path / "b.csv", b"code,net,came,until\n\xe9,1,5,9\na,2,5,9\n")

    assert shown(rows) == [("a", "2.00")]
    (refused,) = refused_records(table.table)
    assert (refused.reason, refused.line, refused.record) == ("it is not UTF-8", 2, "\\xe9,1,5,9")
    with pytest.raises(ebb.InputError, match="holds no record that can be applied as it is"):
        table.retry_quarantine(at=6)


def test_columns_are_renamed_and_others_ignored_if_the_rules_say_so(warehouse: Warehouse, tmp_path: Path) -> None:
    inputs = {"rename": ["Post Code=code"], "extra": "ignore"}
    file = tmp_path / "b.csv"
    file.write_text("Post Code,weather,came,until\na,rain,5,9\n")
    table = warehouse.create(
        "t", like=file, schema="code STRING, net DECIMAL(6,2)", key="code", inserted="came", expires="until", tick=1,
        span=20, inputs={"rename": ["Post Code=code"]},
    )  # fmt: skip
    assert [(c.name, c.type) for c in table.table.snapshot().spec.columns] == [
        ("code", "string"), ("weather", "string"), ("came", "bigint"), ("until", "bigint"), ("net", "decimal(6,2)"),
    ]  # fmt: skip
    assert table.update(file, at=5, engine="direct").admitted == 1
    file.with_suffix(".jsonl").write_text('{"Post Code": "b", "wind": 3, "came": 6, "until": 9}\n')
    with pytest.raises(ebb.SchemaDriftError, match="line 1: column wind is not in the table"):
        table.update(file.with_suffix(".jsonl"), at=6, engine="direct")
    table.alter(inputs=inputs)
    assert table.update(file.with_suffix(".jsonl"), at=6, engine="direct").admitted == 1

    assert sorted(row["code"] for row in scanned(table)) == ["a", "b"]
    with pytest.raises(ebb.UsageError, match="has no column 'no'"):
        table.alter(inputs={"rename": {"x": "no"}})


def test_the_lines_of_refused_records_are_told_whatever_stands_between(table: OpenTable, tmp_path: Path) -> None:
    text = 'code,net,came,until\n"two\nlines",1,5,9\n\nb,x,5,9\n"c\n\nc",2,5\nd,3,,9\n'
    take(table, tmp_path / "b.csv", text)

    found = {(r.line, r.reason) for r in refused_records(table.table)}
    assert found == {
        (5, "net does not fit decimal(6,2)"),
        (6, "it has too few fields"),
        (9, "insertion time came is null"),
    }


def test_a_quote_that_is_not_closed_refuses_the_file(table: OpenTable, tmp_path: Path) -> None:
    """The rest of the file was the last field of one admitted record."""
    with pytest.raises(ebb.UnreadableInputError, match="a quote is not closed"):
        take(table, tmp_path / "b.csv", 'net,came,until,code\n1,5,9,"x\n2,5,9,y\n3,5,9,z\n')
    assert shown(take(table, tmp_path / "c.csv", 'net,came,until,code\n1,5,9,"x\ny"\n2,5,9,5" pipe\n')) == [
        ('5" pipe', "2.00"), ("x\ny", "1.00"),
    ]  # fmt: skip


def test_lines_are_right_when_a_file_has_many_blocks(
    table: OpenTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Arrow refuses records of the next block before it hands out this one."""
    monkeypatch.setattr("ebb.warehouse.intake.csv_input._BLOCK_BYTES", 200)
    rows = [f"k{i},1,5,9" if i % 2 else f"k{i},1,5" if i % 4 else f"k{i},x,5,9" for i in range(100)]
    take(table, tmp_path / "b.csv", "\n".join(["code,net,came,until", *rows]) + "\n")

    found = {
        json.loads(r.record)["code"] if r.column else r.record.split(",")[0]: r.line
        for r in refused_records(table.table)
    }
    assert found == {f"k{i}": i + 2 for i in range(0, 100, 2)}


def test_numbers_that_no_computer_holds_refuse_their_record(table: OpenTable, tmp_path: Path) -> None:
    row = '{"code": "a", "net": NUMBER, "came": 5, "until": 9}'
    numbers = ("1e99999999999999999999", "1" * 5000, "-1e400", "1.5")
    rows = take(table, tmp_path / "b.jsonl", "\n".join(row.replace("NUMBER", number) for number in numbers))

    assert shown(rows) == [("a", "1.50")]
    assert len(refused_records(table.table)) == 3


def test_pieces_of_json_lines_are_all_of_it_with_their_lines(tmp_path: Path) -> None:
    schema = InputSchema(columns=integer_table(Warehouse.open(tmp_path / "w")).table.snapshot().spec.columns)
    lines = ["{}" if i % 7 else "broken" + "!" * i for i in range(200)]
    for end in ("\n", "\r\n"):
        path = tmp_path / "b.jsonl"
        path.write_bytes(end.join(lines).encode())
        (whole,) = check_inputs(find_inputs([str(path)]), schema)
        for size in (1, 7, 100, 10**6):
            pieces = split([whole], size)
            tables = [table for piece in pieces for table in read_piece(piece, schema)]
            found = sorted(line for table in tables for line in table["_line"].to_pylist())
            assert found == list(range(1, 201))
            broken = {
                n for t in tables for n, r in zip(t["_line"].to_pylist(), t["_reason"].to_pylist(), strict=True) if r
            }
            assert broken == {i + 1 for i in range(0, 200, 7)}


def test_the_lines_of_a_file_in_pieces_are_counted_in_one_reading(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every piece counted the lines of all pieces before it: 800 GB were read of a file of 10."""
    monkeypatch.setattr("ebb.warehouse.intake.json_input._BLOCK_BYTES", 64)
    path, taken = tmp_path / "b.jsonl", list[int]()
    path.write_bytes(b"{}\n" * 1000)

    class Counted(io.FileIO):
        def read(self, size: int | None = -1, /) -> bytes:
            data = super().read(-1 if size is None else size) or b""
            taken.append(len(data))
            return data

    monkeypatch.setattr("ebb.warehouse.intake.json_input.open_text", Counted)
    (whole,) = check_inputs(find_inputs([str(path)]), InputSchema(columns=()))
    pieces = split([whole], 100)

    assert len(pieces) == 30
    assert sum(taken) < 3000
    assert [piece.first_line for piece in pieces] == [1 + -(-piece.start // 3) for piece in pieces]


def test_a_file_that_is_gone_when_its_lines_are_counted_is_named(tmp_path: Path) -> None:
    path = tmp_path / "b.jsonl"
    path.write_bytes(b"{}\n" * 1000)
    pieces = check_inputs(find_inputs([str(path)]), InputSchema(columns=()))
    path.unlink()

    with pytest.raises(ebb.UnreadableInputError, match=r"b.jsonl: it cannot be read \(.*No such file") as caught:
        split(pieces, 100)
    assert caught.value.file == str(path)


@pytest.mark.parametrize(
    ("name", "text", "columns"),
    [
        ("a.tsv", "a,b\tc\n1\tx\n", [("a,b", "bigint"), ("c", "string")]),
        (
            "a.jsonl",
            '{"Event Time": "2026-01-01T10:00:00.5+01:00", "n": 1}\n{"Event Time": null, "n": 1.5}\n\n',
            [("when", "timestamp"), ("n", "double")],
        ),
        ("a.jsonl", '{"Event Time": "2026-01-01", "n": "2026-01-01"}\n{"n": "?"}', [("when", "date"), ("n", "string")]),
        ("a.csv", "a;b\n1;x\n", [("a", "bigint"), ("b", "string")]),
        ("a.csv", "Event Time,n\n2026-01-01T10:00:00Z,1.5\n", [("when", "timestamp"), ("n", "double")]),
        ("a.jsonl", '{"a": 1, "b": [1]}\n', [("a", "bigint"), ("b", "array<bigint>")]),
    ],
)
def test_columns_are_taken_from_a_sample(name: str, text: str, columns: list[Any], tmp_path: Path) -> None:
    (tmp_path / name).write_text(text)
    found = infer_columns(tmp_path / name, InputRules(rename={"Event Time": "when"}))

    assert [(column.name, column.type) for column in found] == columns


def test_columns_that_are_declared_are_not_told_from_the_sample(tmp_path: Path) -> None:
    """Arrow gave up at the second line, also if the type of the column was given."""
    (tmp_path / "a.jsonl").write_text('{"a": 1, "Net": 1}\n{"a": 2, "Net": "1.5", "b": true}\n')
    declared, rules = parse_columns("net DECIMAL(6,2), c INT"), InputRules(rename={"Net": "net"})
    found = infer_columns(tmp_path / "a.jsonl", rules, declared)

    assert [(c.name, c.type) for c in found] == [("a", "bigint"), ("net", "decimal(6,2)"), ("b", "boolean")]
    with pytest.raises(ebb.SchemaDriftError, match="line 2: column net holds string, and bigint before") as caught:
        infer_columns(tmp_path / "a.jsonl", rules)
    assert error_text(caught.value).endswith('before; declare its type too: --schema "net TYPE"')

    pq.write_table(pa.table({"a": [1], "t": pa.array([1], pa.time64("us"))}), tmp_path / "a.parquet")
    found = infer_columns(tmp_path / "a.parquet", declared=parse_columns("t BIGINT"))
    assert [(c.name, c.type) for c in found] == [("a", "bigint"), ("t", "bigint")]
    with pytest.raises(ebb.UsageError, match="column t has type time64"):
        infer_columns(tmp_path / "a.parquet")


@pytest.mark.parametrize("line", ["[1]", "{", '{"a": 1, "a": 2}', "7"])
def test_a_sample_with_a_line_that_is_no_object_is_refused(line: str, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(f'{{"a": 1}}\n{line}\n')

    with pytest.raises(ebb.UnreadableInputError, match=r"a.jsonl, line 2: it is not a JSON object"):
        infer_columns(tmp_path / "a.jsonl")


def test_a_sample_is_cut_at_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ebb.warehouse.intake.samples._SAMPLE_BYTES", 20)
    (tmp_path / "a.jsonl").write_text('{"a": 1}\n{"a": 22222222222222222222}\n')

    assert [(c.name, c.type) for c in infer_columns(tmp_path / "a.jsonl")] == [("a", "bigint")]


def test_a_sample_in_another_encoding_is_read_too(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes("é;b\n1;x\n".encode("utf-16"))
    assert [column.name for column in infer_columns(tmp_path / "a.csv")] == ["é", "b"]
    assert encoding_of("x".encode("utf-16-le")) is None


@pytest.mark.parametrize(("name", "says"), [("b.jsonl.gz", "a line has more than 64 MiB"), ("b.csv.gz", "a quote is not closed, or a record is larger than 16 MiB")])  # fmt: skip
def test_a_packed_text_that_unpacks_to_one_endless_line_takes_no_memory(
    table: OpenTable, tmp_path: Path, name: str, says: str
) -> None:
    with gzip.open(tmp_path / name, "wb", 1) as packed:
        packed.write(b"code,net,came,until\n" if "csv" in name else b"")
        for _ in range(600):
            packed.write(b"a" * 1024**2)
    before = peak_bytes()

    with pytest.raises(ebb.InputError, match=says):
        table.update(tmp_path / name, at=5, engine="direct")
    assert peak_bytes() - before < 400 * 1024**2
