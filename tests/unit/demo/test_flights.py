"""The flights of the demo: rows worked out by hand, and the facts of the blizzard that the demo tells."""

from __future__ import annotations

import csv
import dataclasses
import gzip
import io
import json
import zipfile
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from bench.demo import flights as demo
from bench.demo.flights import Batch, Flight

HEADER = (
    "year,month,day,dep_time,sched_dep_time,dep_delay,arr_time,sched_arr_time,arr_delay,carrier,flight,tailnum,"
    "origin,dest,air_time,distance,hour,minute,time_hour"
)
ZONES = {
    "BQN": "America/Puerto_Rico",
    "DFW": "America/Chicago",
    "HNL": "Pacific/Honolulu",
    "IAH": "America/Chicago",
    "LAX": "America/Los_Angeles",
    "PHL": "America/New_York",
    "PHX": "America/Phoenix",
    "ROC": "America/New_York",
}
HOUSTON = "2013,1,1,517,515,2,830,819,11,UA,1545,N14228,EWR,IAH,227,1400,5,15,2013-01-01T10:00:00Z"
CANCELLED = "2013,2,9,NA,1205,NA,NA,1520,NA,AA,743,NA,LGA,DFW,NA,1389,12,5,2013-02-09T17:00:00Z"
SHORT = "2013,2,1,602,600,2,655,658,-3,US,1833,N945UW,JFK,PHL,26,94,6,0,2013-02-01T11:00:00Z"


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def flight(line: str) -> Flight:
    return demo.flight_of(dict(zip(HEADER.split(","), line.split(","), strict=True)), ZONES)


@pytest.fixture(scope="module")
def blizzard(tmp_path_factory: pytest.TempPathFactory) -> list[Flight]:
    """Return the real flights of 7 to 11 February 2013, read from a small copy: the year takes seconds."""
    folder = tmp_path_factory.mktemp("data")
    (folder / "airports.csv").write_bytes((demo.data_folder() / "airports.csv").read_bytes())
    with zipfile.ZipFile(demo.data_folder() / "flights.csv.zip") as year:
        lines = io.TextIOWrapper(year.open("flights.csv"), encoding="utf-8")
        days = tuple(f"2013,2,{day}," for day in range(7, 12))
        kept = [next(lines), *(line for line in lines if line.startswith(days))]
    with zipfile.ZipFile(folder / "flights.csv.zip", "w") as copy:
        copy.writestr("flights.csv", "".join(kept))
    return demo.read_flights(folder)


@pytest.mark.parametrize(
    ("line", "departed", "lands"),
    [
        pytest.param(HOUSTON, "2013-01-01T10:17", "2013-01-01T14:21", id="05:15 EST to 08:19 CST is 4 h 4 min"),
        pytest.param(
            "2013,3,9,53,2359,54,504,438,26,B6,727,N612JB,JFK,BQN,175,1576,23,59,2013-03-10T04:00:00Z",
            "2013-03-10T05:53",
            "2013-03-10T09:32",
            id="the delay crosses midnight, and so does the plan: 3 h 39 min",
        ),
        pytest.param(
            "2013,1,9,641,900,1301,1242,1530,1272,HA,51,N384HA,JFK,HNL,640,4983,9,0,2013-01-09T14:00:00Z",
            "2013-01-10T11:41",
            "2013-01-10T23:11",
            id="the most delayed flight of the year leaves the day after, for 11 h 30 min",
        ),
        pytest.param(
            "2013,11,3,2241,2245,-4,2348,3,-15,B6,486,N375JB,JFK,ROC,51,264,22,45,2013-11-04T03:00:00Z",
            "2013-11-04T03:41",
            "2013-11-04T04:59",
            id="planned to land after midnight: 1 h 18 min",
        ),
        pytest.param(
            "2013,11,2,2139,2140,-1,43,40,3,AA,185,N323AA,JFK,LAX,336,2475,21,40,2013-11-03T01:00:00Z",
            "2013-11-03T01:39",
            "2013-11-03T07:39",
            id="lands hours before summer time ends: 6 h",
        ),
        pytest.param(
            "2013,3,9,626,630,-4,943,1019,-36,US,362,N672AW,JFK,PHX,294,2153,6,30,2013-03-09T11:00:00Z",
            "2013-03-09T11:26",
            "2013-03-09T17:15",
            id="to Phoenix the day before summer time: 5 h 49 min",
        ),
        pytest.param(
            "2013,3,10,625,630,-5,855,919,-24,US,311,N673AW,JFK,PHX,280,2153,6,30,2013-03-10T10:00:00Z",
            "2013-03-10T10:25",
            "2013-03-10T16:14",
            id="to Phoenix on the first day of summer time: 5 h 49 min still",
        ),
        pytest.param(
            "2013,3,9,2330,2330,0,330,330,0,XX,1,N1,JFK,ROC,60,264,23,30,2013-03-10T04:00:00Z",
            "2013-03-10T04:30",
            "2013-03-10T07:30",
            id="made up: four hours on the clocks that go forward are 3 h",
        ),
        pytest.param(
            "2013,11,2,2330,2330,0,330,330,0,XX,1,N1,JFK,ROC,60,264,23,30,2013-11-03T03:00:00Z",
            "2013-11-03T03:30",
            "2013-11-03T08:30",
            id="made up: four hours on the clocks that go back are 5 h",
        ),
    ],
)
def test_departure_and_planned_landing_in_utc(line: str, departed: str, lands: str) -> None:
    found = flight(line)

    assert found.departed == utc(departed)
    assert found.lands == utc(lands)


def test_a_cancelled_flight_is_reported_when_it_should_have_left_and_refused() -> None:
    cancelled = flight(CANCELLED)

    assert (cancelled.tail, cancelled.departed, cancelled.lands, cancelled.delay) == (None, None, None, None)
    assert cancelled.reported == utc("2013-02-09T17:05")
    assert demo.flown([cancelled, flight(HOUSTON)]) == [flight(HOUSTON)]


def test_every_reason_of_the_quarantine() -> None:
    good = flight(HOUSTON)
    departed = utc("2013-01-01T10:17")

    assert demo.refusal(good) is None
    assert demo.refusal(flight(CANCELLED)) == "key tail is null"
    assert demo.refusal(dataclasses.replace(flight(CANCELLED), tail="N1")) == "insertion time departed is null"
    assert demo.refusal(dataclasses.replace(good, lands=departed)) == "expires at or before its insertion"
    assert demo.refusal(dataclasses.replace(good, lands=departed + demo.SPAN)) is None
    too_long = dataclasses.replace(good, lands=departed + demo.SPAN + timedelta(seconds=1))
    assert demo.refusal(too_long) == "lives longer than the span 12h"


def test_a_flight_is_in_the_window_from_the_tick_of_its_departure_until_the_tick_of_its_landing() -> None:
    """Houston departs at 10:17, so the tick that ends at 11:00 admits it; landing at 14:21, it is gone at 15:00."""
    hours = range(9, 17)

    seen = [hour for hour in hours if demo.expected_window([flight(HOUSTON)], utc(f"2013-01-01T{hour:02}:00"))]

    assert seen == [11, 12, 13, 14]


def test_a_flight_that_lands_within_its_tick_has_expired_on_arrival() -> None:
    """Departed 11:02, lands 12:00: a time on the hour belongs to the hour before."""
    counts = demo.expected_counts(Batch(utc("2013-02-01T12:00"), (flight(SHORT), flight(CANCELLED))))

    assert (counts.received, counts.admitted, counts.expired_on_arrival) == (2, 0, 1)
    assert counts.quarantined == Counter({"key tail is null": 1})


def test_batches_are_the_span_before_the_load_then_half_open_hours() -> None:
    start = utc("2013-01-01T12:00")
    minutes = {"too early": 0, "first": 1, "last of load": 720, "first tick": 721, "second tick": 840, "too late": 841}
    made = [
        dataclasses.replace(flight(HOUSTON), tail=name, departed=utc("2013-01-01T00:00") + timedelta(minutes=minute))
        for name, minute in minutes.items()
    ]

    found = demo.batches(made, start=start, ticks=2)

    assert [batch.end for batch in found] == [utc(f"2013-01-01T{hour}:00") for hour in (12, 13, 14)]
    assert [[f.tail for f in b.flights] for b in found] == [["first", "last of load"], ["first tick"], ["second tick"]]


def test_every_format_holds_the_same_records(tmp_path: Path) -> None:
    batch = Batch(utc("2013-02-09T18:00"), (flight(HOUSTON), flight(CANCELLED)))

    paths = {kind: demo.write_batch(tmp_path, batch, kind) for kind in ("csv", "parquet", "jsonl.gz")}

    assert {path.name for path in paths.values()} == {f"2013-02-09T1800Z.{kind}" for kind in paths}
    assert paths["csv"].read_text().splitlines() == [
        "tail,carrier,flight,origin,dest,departed,lands,delay,distance",
        "N14228,UA,1545,EWR,IAH,2013-01-01T10:17:00Z,2013-01-01T14:21:00Z,2,1400",
        ",AA,743,LGA,DFW,,,,1389",
    ]
    with paths["csv"].open(newline="") as text:
        from_csv = list(csv.DictReader(text))
    from_json = [json.loads(line) for line in gzip.decompress(paths["jsonl.gz"].read_bytes()).splitlines()]
    from_parquet = pq.read_table(paths["parquet"]).to_pylist()
    assert [{k: "" if v is None else str(v) for k, v in row.items()} for row in from_json] == from_csv
    assert from_parquet == [{name: getattr(f, name) for name in demo.COLUMNS} for f in batch.flights]


def test_the_blizzard_fills_the_quarantine_and_empties_the_sky(blizzard: list[Flight]) -> None:
    load, *ticks = demo.batches(blizzard)
    counts = [demo.expected_counts(batch) for batch in ticks]

    assert demo.expected_counts(load) == demo.Counts(
        received=366,
        admitted=146,
        expired_on_arrival=183,
        quarantined=Counter({"insertion time departed is null": 23, "key tail is null": 14}),
    )
    assert (len(ticks), ticks[-1].end) == (72, utc("2013-02-11T17:00"))
    assert (sum(c.received for c in counts), sum(c.admitted for c in counts)) == (2443, 1576)
    refused = sum((c.quarantined for c in counts), Counter())
    assert refused == Counter({"insertion time departed is null": 541, "key tail is null": 326})
    assert demo.expected_window(blizzard, utc("2013-02-09T06:00")) == []


def test_on_monday_at_noon_one_aircraft_is_in_the_air_twice(blizzard: list[Flight]) -> None:
    window = demo.expected_window(blizzard, demo.START + demo.TICKS * demo.TICK)

    assert len(window) == 158
    assert demo.destinations(window)[:3] == [("LAX", 16), ("SFO", 15), ("ATL", 8)]
    assert demo.twice_in_the_air(window) == {"N718TW": 2}
    assert [f.lands for f in window if f.tail == "N389HA"] == [utc("2013-02-12T01:37")]


def test_inputs_are_one_load_and_a_file_for_every_hour(blizzard: list[Flight], tmp_path: Path) -> None:
    load, landing = demo.write_inputs(tmp_path, demo.batches(blizzard))

    assert load == tmp_path / "2013-02-08T1700Z.parquet"
    assert [path.name for path in landing[:3]] == [
        "2013-02-08T1800Z.csv",
        "2013-02-08T1900Z.parquet",
        "2013-02-08T2000Z.jsonl.gz",
    ]
    assert len(set(landing)) == demo.TICKS
    assert all(path.parent == tmp_path / "landing" for path in landing)
