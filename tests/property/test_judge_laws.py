"""Judging with Arrow gives what the model gives, for times up to the edges of 64 bits."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from ebb.index.columns import EXPIRES_SLOT, INSERTED_SLOT, Column
from ebb.index.grid import Grid, Ring, Shuffle
from ebb.index.strategy import Strategy
from ebb.index.timeline import TimeKind, Timeline
from ebb.warehouse.intake.judge import OVER, judge
from ebb.warehouse.intake.received import MARKS, RAW, REASON
from ebb.warehouse.table.spec import TableSpec
from tests.model import Model, Record

COLUMNS = (Column("id", "bigint"), Column("key", "string"), Column("ins", "bigint"), Column("exp", "bigint"))
EDGES = [-(2**63), -(2**63) + 1, -(2**62), 2**62, 2**63 - 2, 2**63 - 1]


def spec_of(line: Timeline, grid: Grid) -> TableSpec:
    return TableSpec(
        name="t", columns=COLUMNS, key=("key",), inserted="ins", expires="exp", timeline=line, grid=grid,
        strategy=Strategy.REBUILD, bound=10 * line.tick, reader_time=line.tick, quarantine_time=line.tick,
        log_retention=100 * line.tick,
    )  # fmt: skip


@st.composite
def cases(draw: st.DrawFn) -> tuple[TableSpec, int, list[Record]]:
    tick = draw(st.integers(1, 50))
    origin = draw(st.integers(-(10**6), 10**6))
    line = Timeline(kind=TimeKind.INTEGER, origin=origin, tick=tick, span=tick * draw(st.integers(1, 9)))
    count = draw(st.integers(1, 5))
    grid = draw(st.sampled_from([Grid(Ring(count, 2), Ring(3, count)), Grid(Shuffle(count, 1), Shuffle(3, 2))]))
    slot = draw(st.integers(-20, 20))
    near = st.integers(line.end_of(slot) - 2 * line.span, line.end_of(slot) + 2 * line.span)
    time = st.one_of(near, near, near, st.none(), st.sampled_from(EDGES))
    key = st.one_of(st.sampled_from(["a", "", "ü"]), st.none())
    rows = draw(st.lists(st.tuples(key, time, time), max_size=12))
    return spec_of(line, grid), slot, [Record(i, *row) for i, row in enumerate(rows)]


def is_far(record: Record) -> bool:
    """Whether a time is so close to the edges of 64 bits that a difference might not fit: those are refused."""
    return any(time is not None and abs(time) > 9.1e18 for time in (record.inserted, record.expires))


def arrow(batch: list[Record]) -> pa.Table:
    return pa.table(
        {
            "id": pa.array([r.id for r in batch], pa.int64()),
            "key": pa.array([r.key for r in batch], pa.string()),
            "ins": pa.array([r.inserted for r in batch], pa.int64()),
            "exp": pa.array([r.expires for r in batch], pa.int64()),
            **{mark.name: pa.nulls(len(batch), mark.type) for mark in MARKS},
        }
    )


@given(case=cases())
@settings(max_examples=400, deadline=None)
def test_every_record_has_the_fate_and_the_cell_that_the_model_gives_it(
    case: tuple[TableSpec, int, list[Record]],
) -> None:
    spec, slot, batch = case

    judged = judge(arrow(batch), spec, slot, own_slots=False).to_pylist()

    near = [r for r in batch if not is_far(r)]
    outcome = Model(spec.timeline).apply(slot, near)
    refused = {row["id"] for row in judged if row[REASON] is not None}
    over = {row["id"] for row in judged if row[OVER]}
    assert refused == {r.id for r in outcome.quarantined} | {r.id for r in batch if is_far(r)}
    assert over == {r.id for r in outcome.expired_on_arrival}
    for row in judged:
        if row["id"] in refused:
            assert (row["_g"], row["_e"]) == (-1, -1)
            assert row[RAW] is not None
        else:
            assert row[EXPIRES_SLOT] == spec.timeline.slot_of(row["exp"])
            assert row[INSERTED_SLOT] == slot
            assert (row["_g"], row["_e"]) == spec.grid.cell_of(slot, row[EXPIRES_SLOT])[:2]


@given(case=cases())
@settings(max_examples=100, deadline=None)
def test_a_loaded_record_keeps_the_slot_of_its_own_insertion(case: tuple[TableSpec, int, list[Record]]) -> None:
    spec, slot, batch = case

    judged = judge(arrow(batch), spec, slot, own_slots=True).to_pylist()

    for row in judged:
        if row[REASON] is None:
            own = spec.timeline.slot_of(row["ins"])
            assert row[INSERTED_SLOT] == own <= slot
            assert row["_g"] == spec.grid.groups.partition(own)
