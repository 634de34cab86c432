"""Keys that mean something to somebody on their way (P26) are found as themselves, and nothing else is."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from ebb.index.errors import UsageError
from tests.builders import ARROW, integer_table, open_warehouse
from tests.hostile import hostile_keys, quoted
from tests.seeds import drawn_seed, rounds

_AT_ONCE = 50


def test_hostile_keys_are_found_as_themselves_by_every_way_without_a_jvm(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    dice = random.Random(drawn_seed())
    keys = hostile_keys(dice, rounds(500))
    ids = {key: [2 * n, 2 * n + 1] for n, key in enumerate(keys)}  # the model
    rows = [(i, key) for key, found in ids.items() for i in found]
    dice.shuffle(rows)
    table = integer_table(open_warehouse(tmp_path / "w"), grid="2x2")
    numbers, texts = zip(*rows, strict=True)
    ones = [1] * len(rows)
    columns = [numbers, texts, ones, [5] * len(rows), texts]
    table.update(pa.table([pa.array(c, t) for c, t in zip(columns, ARROW.types, strict=True)], names=ARROW.names), at=1)
    window = table.at_latest()
    session = table.warehouse.sql_session()

    for key in keys:
        found = window.probe(key)
        assert sorted(found["id"].to_pylist()) == ids[key], repr(key)
        assert set(found["pay"].to_pylist()) == {key}
        assert window.probe(key + "\x01")["id"].to_pylist() == ids.get(key + "\x01", []), repr(key)
    for some in (keys[start : start + _AT_ONCE] for start in range(0, len(keys), _AT_ONCE)):
        expected = sorted(i for key in some for i in ids[key])
        listed = ", ".join(map(quoted, some))
        scanned = window.scan(columns=["id"], where=f"key in ({listed})").read_all()
        assert sorted(scanned["id"].to_pylist()) == expected
        plain = [key for key in some if "\x00" not in key]  # which the text of a query cannot hold
        asked = session.answer(f"SELECT id FROM t WHERE key IN ({', '.join(map(quoted, plain))})").read_all()  # noqa: S608
        assert sorted(asked["id"].to_pylist()) == sorted(i for key in plain for i in ids[key])
    for key in dice.sample(keys, min(50, len(keys))):
        alone = window.scan(columns=["id"], where=f"pay = {quoted(key)}").read_all()
        assert sorted(alone["id"].to_pylist()) == ids[key], repr(key)
    record_property("figures", f"hostile keys: {len(keys)}, other answers 0")


@pytest.mark.parametrize(
    "where",
    [
        "reflect('java.lang.System', 'exit', 1) = 1", "java_method('java.lang.Runtime', 'x') = 1", "id = (select 1)", "id in (select 1)",
        "read_csv('/etc/passwd') = 1", "key = current_setting('a')", "id = 1; drop table t", "id = 1 -- ", "exists (select 1)",
        "id = sleep(9)", "key = ${x}", "key = 'a' union all select 1", "case when id = 1 then 1 end = 1", "cast(id as int) = 1",
        "transform(key) = 1", "key::int = 1", "id = @x", "id = ?",
    ],
)  # fmt: skip
def test_a_condition_calls_nothing(tmp_path: Path, where: str) -> None:
    table = integer_table(open_warehouse(tmp_path / "w"))

    with pytest.raises(UsageError):
        table.scan(where=where)
