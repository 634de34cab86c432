from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebb.index.cellfile import CellFile
from ebb.index.grid import Cell
from ebb.index.manifest import Copied, Kept, Manifest, RefusedFile, StoredFile


def a_file(path: str, *, min_exp: int = 3, max_exp: int = 5) -> CellFile:
    return CellFile(
        path=path, cell=Cell(1, 2), size_bytes=9, records=4, min_ins=1, max_ins=2, min_exp=min_exp, max_exp=max_exp
    )


def a_manifest(**changes: Any) -> Manifest:
    facts: dict[str, Any] = {
        "name": "t",
        "table_id": "id",
        "ancestors": ("older",),
        "version": 7,
        "clock": 2,
        "taken_ms": 1000,
        "metadata": {"id": "id", "configuration": {"ebb.tick": "1"}},
        "files": (a_file("u1-a/_g=1/_e=2/x.parquet"), a_file("u2-a/_g=1/_e=2/x.parquet", min_exp=4, max_exp=4)),
        "others": (StoredFile(path="_delta_log/0.json", size_bytes=5, hash="ab"),),
        "refused": (RefusedFile(path="_slot=2/y.parquet", slot=2, size_bytes=6, hash="cd"),),
    }
    return Manifest(**(facts | changes))


def test_a_manifest_is_read_back_as_it_was_written() -> None:
    manifest = a_manifest()

    assert Manifest.loads(manifest.dumps()) == manifest
    assert manifest.size_bytes == 9 + 9 + 5 + 6
    assert len(manifest.expiring) == 3


@given(st.data())
def test_no_changed_byte_of_a_manifest_is_believed(data: st.DataObject) -> None:
    written = a_manifest().dumps()
    place = data.draw(st.integers(0, len(written) - 1))
    changed = bytearray(written)
    changed[place] ^= data.draw(st.integers(1, 255))

    with pytest.raises(ValueError, match="hash"):
        Manifest.loads(bytes(changed))
    with pytest.raises(ValueError, match="hash"):
        Manifest.loads(written[:place])


def test_what_a_table_remembers_is_read_back_and_says_what_expires_first() -> None:
    kept = Kept.of("/b/t", a_manifest(), more=[a_file("u3-a/_g=1/_e=2/x.parquet", min_exp=2, max_exp=9)])

    for one in (kept, replace(kept, failed_ms=1000, reason="away")):
        assert Kept.loads(one.dumps()) == one
    assert (kept.version, kept.clock, kept.oldest, kept.first_dead, kept.first_refused) == (7, 2, 2, 4, 2)
    assert [kept.stale_from(version).stale_since for version in (None, 7, 8)] == [None, None, 8]
    nothing = Kept.of("/b/t", None)
    assert (nothing.version, nothing.oldest, nothing.first_dead, nothing.first_refused) == (None, None, None, None)


def test_a_table_without_the_property_is_nobodys_copy() -> None:
    assert Copied.loads("") is None
