"""Laws of landing, for any files at any times: against a clock that goes tick by tick."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from ebb.index.timeline import TimeKind
from ebb.maintenance.landing.steps import Landed, Step, label_time, steps
from ebb.warehouse.intake.source import _format_of
from ebb.warehouse.store.paths import numbered_file

SLOTS = st.integers(-5, 30)
FILES = st.lists(st.one_of(st.none(), SLOTS), max_size=12).map(
    lambda slots: [Landed(Path(f"f{number}"), slot) for number, slot in enumerate(slots)]
)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MOMENTS = st.integers(-(2**31), 2**33).map(lambda seconds: EPOCH + timedelta(seconds=seconds))
LABELS = ("%Y-%m-%dT%H%M%SZ", "%Y%m%d_%H%M%S", "%Y-%m-%dT%H:%M:%S", "%Y%m%dT%H.%M.%S", "%Y-%m-%dT%H-%M-%SZ")
RESTS = st.sampled_from(["", ".csv", "-cars.csv", "_x.json.gz", "-10.parquet", ".10.csv", "_10.csv", ".CSV.GZ"])


def tick_by_tick(clock: int | None, due: int | None, files: list[Landed]) -> list[Step]:
    """Return what a clock does that goes through every tick and takes all that has arrived by then: the slow truth."""
    labels = [file.slot for file in files if file.slot is not None]
    if clock is None:
        first = min(labels) if labels else due
        if first is None:
            return []
        clock = first - 1
    last = due if due is not None else max([clock + 1, *labels])
    made, waiting = [], list(files)
    for slot in range(clock + 1, last + 1):
        taken = [file for file in waiting if file.slot is None or file.slot <= slot]
        waiting = [file for file in waiting if file not in taken]
        if taken or slot == due:
            made.append(Step(slot, tuple(sorted(file.path for file in taken))))
    return made


@given(clock=st.one_of(st.none(), SLOTS), due=st.one_of(st.none(), SLOTS), files=FILES)
def test_the_steps_are_those_of_a_clock_that_goes_tick_by_tick(
    clock: int | None, due: int | None, files: list[Landed]
) -> None:
    assert steps(clock, due, files) == tick_by_tick(clock, due, files)


@given(clock=SLOTS, due=st.one_of(st.none(), SLOTS), files=FILES, at=st.integers(0, 40))
def test_a_run_that_stops_anywhere_and_goes_on_takes_every_file_once(
    clock: int, due: int | None, files: list[Landed], at: int
) -> None:
    whole = steps(clock, due, files)
    before = whole[:at]
    taken = [path for step in before for path in step.files]

    after = steps(before[-1].slot if before else clock, due, [file for file in files if file.path not in taken])

    assert [*before, *after] == whole


@given(moment=MOMENTS, label=st.sampled_from(LABELS), rest=RESTS)
def test_a_moment_written_at_the_start_of_a_name_is_read_back(moment: datetime, label: str, rest: str) -> None:
    name = moment.strftime(label) + rest

    assert label_time(name, TimeKind.TIMESTAMP) == TimeKind.TIMESTAMP.from_datetime(moment)
    assert label_time(name, TimeKind.DATE) == (moment - EPOCH) // timedelta(days=1)


@given(text=st.text(max_size=40))
def test_any_name_has_a_label_or_none(text: str) -> None:
    for kind in TimeKind:
        found = label_time(text, kind)
        assert found is None or isinstance(found, int)


@given(
    start=st.one_of(
        st.builds(lambda moment, label: moment.strftime(label), MOMENTS, st.sampled_from([*LABELS, "%Y%m%d", "%Y-%m-%dT%H", "%Y-%m-%dT%H%M"])),
        st.integers(0, 10**17).map(str),
        st.text(st.characters(exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1, max_size=20).filter(lambda text: text[0] not in "._"),
    ),
    rest=st.one_of(RESTS, st.sampled_from([".jsonl", ".ndjson.gz", ".pq", ".gz", ".txt"])),
    numbers=st.tuples(st.integers(0, 200), st.integers(0, 200)),
)  # fmt: skip
def test_a_number_in_a_name_changes_neither_its_tick_nor_its_format(
    start: str, rest: str, numbers: tuple[int, int]
) -> None:
    name = start + rest
    one, other = (numbered_file(name, number) for number in numbers)

    assert (one == other) == (numbers[0] == numbers[1])
    for kind in TimeKind:
        assert label_time(one, kind) == label_time(name, kind)
    if _format_of(Path(name)):
        assert _format_of(Path(one)) == _format_of(Path(name))
