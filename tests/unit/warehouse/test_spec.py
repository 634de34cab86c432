"""The declaration of a table is kept as properties and read back as it was."""

from __future__ import annotations

from dataclasses import replace
from importlib.metadata import version
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ebb.index.columns import parse_columns
from ebb.index.errors import FeatureError, InputError, UpgradeError, UsageError
from ebb.index.features import Features
from ebb.index.grid import Axis, Grid, Ring, Shuffle
from ebb.index.strategy import Strategy
from ebb.index.timeline import TimeKind, Timeline
from ebb.warehouse.table.spec import FORMAT_VERSION, TableSpec, check_name, check_new_columns

laws = settings(deadline=None)

COLUMNS = {
    TimeKind.INTEGER: parse_columns("a STRING, b INT, i BIGINT, e BIGINT"),
    TimeKind.TIMESTAMP: parse_columns("a STRING, b INT, i TIMESTAMP, e TIMESTAMP"),
    TimeKind.DATE: parse_columns("a STRING, b INT, i DATE, e DATE"),
}
axes: st.SearchStrategy[Axis] = st.builds(Ring, st.integers(1, 9), st.integers(1, 9)) | st.builds(
    Shuffle, st.integers(1, 9), st.integers(0, 2**40)
)


@st.composite
def specs(draw: st.DrawFn) -> TableSpec:
    kind = draw(st.sampled_from(TimeKind))
    tick = draw(st.integers(1, 10**6))
    return TableSpec(
        name="t",
        columns=COLUMNS[kind],
        key=draw(st.sampled_from([("a",), ("a", "b"), ("b",)])),
        inserted="i",
        expires="e",
        timeline=Timeline(kind=kind, origin=draw(st.integers(-(10**15), 10**15)), tick=tick, span=tick * draw(st.integers(1, 99))),
        grid=Grid(draw(axes), draw(axes), draw(st.integers(0, 9))),
        strategy=Strategy.REBUILD,
        bound=10**9,
        reader_time=draw(st.integers(0, 10**6)),
        quarantine_time=draw(st.integers(0, 10**9)),
        log_retention=draw(st.integers(0, 10**9)),
        landing=draw(st.none() | st.just("/landing/t")),
        features=Features(writer=draw(st.sampled_from([(), ("keeps",), ("keeps", "leases")]))),
    )  # fmt: skip


@laws
@given(specs())
def test_a_declaration_is_read_back_from_its_properties(spec: TableSpec) -> None:
    properties = spec.properties()

    assert all(isinstance(value, str) for value in properties.values())
    assert TableSpec.from_properties("t", spec.columns, properties) == spec
    assert TableSpec.from_properties("t", spec.columns, properties | {"delta.other": "x"}) == spec


@laws
@given(specs(), st.integers(0, 99).filter(lambda number: number != FORMAT_VERSION))
def test_another_format_asks_for_another_ebb(spec: TableSpec, number: int) -> None:
    with pytest.raises(UpgradeError) as refused:
        TableSpec.from_properties("t", spec.columns, spec.properties() | {"ebb.formatVersion": str(number)})

    assert refused.value.is_older is (number < FORMAT_VERSION)


def test_nothing_else_of_another_format_is_read() -> None:
    for number in (1, 3):
        with pytest.raises(UpgradeError, match=f"has format version {number} and this Ebb knows 2"):
            TableSpec.from_properties("t", (), {"ebb.formatVersion": str(number)})


@laws
@given(specs(), st.sampled_from(["view", "Stream", "", "stream "]))
def test_a_kind_that_is_not_known_asks_for_a_newer_ebb(spec: TableSpec, kind: str) -> None:
    """Before anything else is read: a table of another kind need not have a key or a tick."""
    stated = {"ebb.formatVersion": "2", "ebb.kind": kind, "ebb.readerFeatures": "", "ebb.writerFeatures": ""}
    for properties in (spec.properties() | stated, stated):
        with pytest.raises(
            FeatureError, match=f"table t is of kind {kind}, which Ebb .* install a newer Ebb"
        ) as refused:
            TableSpec.from_properties("t", spec.columns, properties)

        assert refused.value.args == ("t", "kind", (kind,), version("ebb"))
        assert not refused.value.is_older


@laws
@given(specs())
def test_a_reader_feature_that_is_not_known_is_refused_whoever_asks(spec: TableSpec) -> None:
    stated = {"ebb.readerFeatures": "pages2,amends", "ebb.writerFeatures": "keeps"}

    with pytest.raises(FeatureError, match="has reader features amends, pages2, which Ebb") as refused:
        TableSpec.from_properties("t", spec.columns, spec.properties() | stated)

    assert refused.value.args == ("t", "reader", ("amends", "pages2"), version("ebb"))


@laws
@given(specs())
def test_a_writer_feature_that_is_not_known_keeps_from_writing_only(spec: TableSpec) -> None:
    read = TableSpec.from_properties("t", spec.columns, spec.properties() | {"ebb.writerFeatures": "leases,keeps"})

    refused = read.writer_refusal()
    assert refused is not None
    assert refused.args == ("t", "writer", ("keeps", "leases"), version("ebb"))
    assert replace(spec, features=Features()).writer_refusal() is None


def test_a_table_of_somebody_else_is_not_ours() -> None:
    with pytest.raises(InputError, match="did not make"):
        TableSpec.from_properties("t", COLUMNS[TimeKind.DATE], {"delta.x": "y"})


@laws
@given(specs())
def test_a_column_is_found_by_its_name_only(spec: TableSpec) -> None:
    assert spec.column("b").type == "int"
    with pytest.raises(UsageError, match="it has a, b, i, e"):
        spec.column("B")


@pytest.mark.parametrize("name", ["a", "a1_", "x" * 63])
def test_names_of_tables_are_plain(name: str) -> None:
    assert check_name(name) == name


@pytest.mark.parametrize("name", ["", "A", "1a", "_a", "a-b", "a.b", "a/b", "..", "x" * 64, "é", "a\n", "a "])
def test_other_names_are_refused(name: str) -> None:
    with pytest.raises(UsageError, match="must start with a letter"):
        check_name(name)


@pytest.mark.parametrize(
    "text", ["a INT, A INT", "_g INT", "_GEN INT", "_EXP_SLOT INT", "`a b` INT", "`a.b` INT", "`a=b` INT"]
)
def test_columns_that_others_would_confuse_are_refused(text: Any) -> None:
    with pytest.raises(UsageError):
        check_new_columns(parse_columns(text))
