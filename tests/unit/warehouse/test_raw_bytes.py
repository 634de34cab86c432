"""Bytes that are not UTF-8 come through a reader of UTF-8 as they were, however they are cut."""

from __future__ import annotations

import io
from pathlib import Path

import pyarrow as pa
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ebb.warehouse.intake.raw_bytes import Utf8Stream, uncovered, uncovered_batch
from tests.builders import SCHEMA, integer_table, open_warehouse, refused_records

PARTS = st.sampled_from([b"a", b'"', b"\xff", b"\xc3", b"\xc3\xa9", b"\xf4\x8f\xbf", b"\xbf", "\U0010ffb5".encode(), b"\xed\xa0\x80", "€".encode()])  # fmt: skip


@settings(deadline=None)
@given(st.lists(PARTS, max_size=12).map(b"".join), st.integers(1, 9))
@example("\U0010ff80".encode(), 3)
def test_every_byte_comes_back(data: bytes, size: int) -> None:
    stream, pieces = Utf8Stream(io.BytesIO(data), is_utf8=True), list[bytes]()
    while piece := stream.read(size):
        assert len(piece) <= size
        pieces.append(piece)

    there = b"".join(pieces)
    there.decode()  # or it fails
    assert uncovered(there) == data
    assert stream.is_covering == (there != data)
    assert stream.quotes == data.count(b'"')
    column = pa.record_batch([pa.array([there, None], pa.binary())], names=["f0"])
    assert uncovered_batch(column)["f0"].to_pylist() == [data, None]


def test_a_text_of_another_encoding_is_left_alone() -> None:
    assert Utf8Stream(io.BytesIO(b"\xff\xfe"), is_utf8=False).read(9) == b"\xff\xfe"


def test_a_short_record_that_is_not_utf8_is_refused_alone(tmp_path: Path) -> None:
    """Arrow gave the whole file up, printed a traceback, and showed the record in its message."""
    table = integer_table(open_warehouse(tmp_path / "w"), schema=SCHEMA)
    text = b'id,key,inserted,expires,pay\n1,a,1,3,x\n2,caf\xe9,1\n3,caf\xe9,1,3,x\n4,\xf4\x8f\xbf\xbf,1,3,x\n5,b,1,3,"'
    (tmp_path / "b.csv").write_bytes(text + "é\U0010ffe9".encode() + b'"\n')

    report = table.update(tmp_path / "b.csv", at=1, engine="direct")

    assert (report.admitted, report.quarantined) == (3, 2)
    assert table.scan(columns=["pay"]).read_all()["pay"].to_pylist().count("é\U0010ffe9") == 1
    assert table.probe("\U0010ffff")["id"].to_pylist() == [4]
    assert [(r.reason, r.line) for r in sorted(refused_records(table.table), key=lambda r: r.line or 0)] == [
        ("it has too few fields", 3),
        ("it is not UTF-8", 4),
    ]
    assert "caf\\xe9" in refused_records(table.table)[0].record
