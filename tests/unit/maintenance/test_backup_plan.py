from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ebb.index.cellfile import CellFile
from ebb.index.grid import Cell
from ebb.index.manifest import Kept, Manifest
from ebb.maintenance.plan.backup import is_due, plan_backup, plan_restore, plan_trim
from tests.unit.index.test_manifest import a_manifest


@st.composite
def files(draw: st.DrawFn) -> tuple[CellFile, ...]:
    drawn = []
    for number in range(draw(st.integers(0, 8))):
        least = draw(st.integers(1, 12))
        drawn.append(
            CellFile(
                path=f"u{number}-a/_g=0/_e=0/x.parquet",
                cell=Cell(draw(st.integers(0, 1)), draw(st.integers(0, 1))),
                size_bytes=1,
                records=2,
                min_ins=0,
                max_ins=0,
                min_exp=least,
                max_exp=least + draw(st.integers(0, 5)),
            )
        )
    return tuple(drawn)


@given(files(), st.data())
def test_a_backup_copies_what_it_has_not_and_drops_what_nobody_names(
    every: tuple[CellFile, ...], data: st.DataObject
) -> None:
    live = tuple(file for file in every if data.draw(st.booleans()))
    there = tuple(file for file in every if data.draw(st.booleans()))

    plan = plan_backup(live, there)

    assert {*plan.copied, *plan.kept} == set(live)
    assert {*plan.kept, *plan.dropped} == set(there)
    assert not {*plan.copied} & {*there}


@given(files(), st.integers(0, 14), st.integers(0, 4))
def test_a_trim_leaves_no_record_that_is_due_and_takes_no_live_one(
    every: tuple[CellFile, ...], clock: int, lag: int
) -> None:
    manifest = a_manifest(files=every)

    plan = plan_trim(manifest, clock=clock, lag=lag, refused_until=1)

    left = [file for file in every if file not in plan.dropped]
    assert all(file.min_exp + lag > clock for file in left)
    assert not any(file.is_dead(clock) for file in left)
    written_anew = {file for rewrite in plan.rewrites for file in rewrite.inputs}
    assert {file for file in plan.dropped if not file.is_dead(clock)} == written_anew
    assert plan.refused == ()
    assert plan_trim(manifest, clock=clock, lag=lag, refused_until=2).refused == manifest.refused


@given(files(), st.integers(0, 14), st.integers(0, 4))
def test_a_backup_is_looked_into_exactly_when_something_has_to_go(
    every: tuple[CellFile, ...], clock: int, lag: int
) -> None:
    manifest: Manifest = a_manifest(files=every)

    due = is_due(Kept.of("/b", manifest), clock=clock, lag=lag, refused_until=1)

    assert due != plan_trim(manifest, clock=clock, lag=lag, refused_until=1).is_empty
    assert is_due(Kept.of("/b", manifest), clock=0, lag=9, refused_until=2), "of refused records"


@given(files(), st.integers(0, 14), st.data())
def test_a_restore_brings_back_every_live_record_and_no_expired_one(
    every: tuple[CellFile, ...], expired: int, data: st.DataObject
) -> None:
    plan = plan_restore(a_manifest(files=every), expired=expired, refused_until=1)

    assert {*plan.copied, *plan.rewritten, *plan.left_out} == set(every)
    assert all(file.min_exp > expired for file in plan.copied)
    assert all(file.is_dead(expired) for file in plan.left_out)
    assert all(rewrite.clock == expired for rewrite in plan.rewrites)
    live = tuple(file for file in every if data.draw(st.booleans()))  # the others came to the backup by a trim
    removes, adds = plan.changes(live)
    assert ({*live} - {*removes}) | {*adds} == {*plan.copied}
