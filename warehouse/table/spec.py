"""What a table says about itself: its columns, key, times, grid and promises, kept in the Delta table's properties.

The folder alone describes the table: everything here is read back from the log, nothing from anywhere else.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from ebb.index.changes import CHANGE_COLUMNS
from ebb.index.columns import PARTITION_COLUMNS, SLOT_COLUMNS, Column, time_kind
from ebb.index.errors import CorruptionError, FeatureError, InputError, RestoredError, UpgradeError, UsageError
from ebb.index.expression import Expression, columns_of, parse_expression
from ebb.index.features import KNOWN, Features, Kind, names_in
from ebb.index.grid import Axis, Grid, Ring, Shuffle
from ebb.index.inputs import InputRules, InputSchema
from ebb.index.ledger import check_span, remembered_ticks
from ebb.index.manifest import Copied
from ebb.index.policy import check_size
from ebb.index.stored import number, text
from ebb.index.strategy import Strategy, lag_ticks
from ebb.index.timeline import TimeKind, Timeline

__all__ = [
    "ALTERABLE", "FORMAT_VERSION", "VERSION_PROPERTY", "TableSpec", "check_name", "check_new_columns", "is_name",
]  # fmt: skip

FORMAT_VERSION = 2
VERSION_PROPERTY = "ebb.formatVersion"  # what every table of any Ebb has
_COPIED_PROPERTY = "ebb.restored"  # what a restored table was made from, see ``index.manifest.Copied``
# The properties that may change in the life of a table; all others are its layout.
ALTERABLE = {
    "ebb.deletionBound",
    "ebb.quarantineTime",
    "ebb.logRetention",
    "ebb.landing",
    "ebb.group",
    "ebb.label",
    "ebb.remember",
    "ebb.inputs",
    "ebb.evidenceRetention",
}
_NAME = re.compile(r"[a-z][a-z0-9_]{0,62}")
_MARKS = ("_reason", "_column", "_raw", "_file", "_line", "_over", "_fault", "_h1", "_h2", "_f1", "_f2")
_RESERVED = {*SLOT_COLUMNS, *PARTITION_COLUMNS, *CHANGE_COLUMNS, *_MARKS}


def is_name(name: str) -> bool:
    """Whether a table can have this name."""
    return _NAME.fullmatch(name) is not None


def check_name(name: str) -> str:
    """Refuse a table name that is not ``[a-z][a-z0-9_]{0,62}``: it is a folder, a view and part of messages."""
    if not is_name(name):
        msg = f"table name {name!r} must start with a letter a-z and hold at most 63 of a-z, 0-9 and _"
        raise UsageError(msg)
    return name


def check_new_columns(columns: Sequence[Column]) -> None:
    """Refuse names that Ebb or Spark would confuse, all at once."""
    problems: list[str] = []
    seen: dict[str, str] = {}
    for name in (column.name for column in columns):
        if name.lower() in _RESERVED:
            problems.append(f"column name {name} is reserved for Ebb")
        elif name.lower() in seen:
            problems.append(f"columns {seen[name.lower()]} and {name} differ in case at most")
        seen[name.lower()] = name
    odd = [column.name for column in columns if re.search(r"[ ,;{}()\n\t=`.]", column.name)]
    if odd:
        listed = f"column name {odd[0]!r} holds" if len(odd) == 1 else f"column names {', '.join(map(repr, odd))} hold"
        problems.append(f"{listed} one of the characters ' ,;{{}}()=`.' that Delta tables refuse")
    if len(problems) > 1 or len(odd) > 1:
        raise UsageError("; ".join(problems), "rename them", hint="rename_each" if odd else None)
    if problems:
        raise UsageError(problems[0], "rename it", *odd, hint="rename_new" if odd else None)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSpec:
    """The declaration of one table."""

    name: str
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    inserted: str
    expires: str
    timeline: Timeline
    grid: Grid
    strategy: Strategy
    bound: int  # the deletion bound, in the unit of the time columns
    reader_time: int  # how long removed files wait for readers, same unit
    quarantine_time: int  # how long quarantined records are kept, same unit
    log_retention: int  # how long commits are kept in the log, same unit
    landing: str | None = None  # the folder `ebb run` takes batches from
    group: str | None = None  # whose members may read the table's files; the folders' modes say so too
    label: str = "end"  # which moment of its tick the name of a landed file says: its end, or its start
    remember: int | None = None  # how long batches and files are recognised when they come again; None: the span
    inserted_as: str | None = None  # the expression that makes the insertion time; None: batches bring it
    expires_as: str | None = None
    inputs: InputRules = field(default_factory=InputRules)
    kind: Kind = Kind.STREAM
    features: Features = field(default_factory=Features)
    evidence_retention: int | None = None  # how long the evidence of commits is kept, same unit; None: for ever
    copied: Copied | None = None  # what it was restored from

    @property
    def lag(self) -> int:
        """Return how many ticks an expired record may stay in a live file."""
        return lag_ticks(self.bound, self.timeline, self.reader_time)

    def quarantined_until(self, clock: int) -> int:
        """Return the last slot whose refused records and landed files have been kept for long enough at a clock.

        They hold records, so they are gone when their time is over; the update after this one would come too late.
        """
        return clock - max(0, self.quarantine_time // self.timeline.tick - 1)

    @property
    def remembered_ticks(self) -> int:
        """Return for how many ticks a batch is recognised when it comes again."""
        return remembered_ticks(self.timeline, self.remember)

    @property
    def computed(self) -> tuple[tuple[str, Expression], ...]:
        """Return the columns that the table makes itself, in the order in which they are made."""
        made = ((self.inserted, self.inserted_as), (self.expires, self.expires_as))
        kind = self.timeline.kind
        return tuple((name, _expression(text, self.columns, kind)) for name, text in made if text is not None)

    @property
    def input_schema(self) -> InputSchema:
        """Return what the table wants of a batch."""
        texts = {self.inserted: self.inserted_as, self.expires: self.expires_as}
        made = {name: str(texts[name]) for name, value in self.computed if name not in columns_of(value)}
        needed = (*self.key, *(name for name, text in texts.items() if text is None))
        return InputSchema(columns=self.columns, required=needed, computed=made, rules=self.inputs, table=self.name)

    def column(self, name: str) -> Column:
        """Return a column by name."""
        for column in self.columns:
            if column.name == name:
                return column
        msg = f"table {self.name} has no column {name!r}; it has {', '.join(c.name for c in self.columns)}"
        raise UsageError(msg)

    def writer_refusal(self) -> FeatureError | None:
        """Return why this Ebb may read the table and not write to it; None if it may."""
        unknown = self.features.new_to_writer(KNOWN)
        return FeatureError(self.name, "writer", unknown, _ebb_version()) if unknown else None

    @property
    def unconfirmed(self) -> RestoredError | None:
        """Return why nobody writes to a copy before somebody says that it goes on: the original may be alive."""
        if self.copied is None or self.copied.is_confirmed:
            return None
        return RestoredError(self.name, self.copied.version)

    def properties(self) -> dict[str, str]:
        """Return the table properties that describe all but the columns."""
        line = self.timeline
        return {
            VERSION_PROPERTY: str(FORMAT_VERSION),
            "ebb.kind": self.kind.value,
            "ebb.readerFeatures": ",".join(self.features.reader),
            "ebb.writerFeatures": ",".join(self.features.writer),
            "ebb.generation": str(self.grid.generation),
            "ebb.key": ",".join(self.key),
            "ebb.inserted": self.inserted,
            "ebb.expires": self.expires,
            "ebb.tick": str(line.tick),
            "ebb.span": str(line.span),
            "ebb.origin": str(line.origin),
            "ebb.groups": _axis_text(self.grid.groups),
            "ebb.cohorts": _axis_text(self.grid.cohorts),
            "ebb.strategy": self.strategy.value,
            "ebb.deletionBound": str(self.bound),
            "ebb.readerTime": str(self.reader_time),
            "ebb.quarantineTime": str(self.quarantine_time),
            "ebb.logRetention": str(self.log_retention),
            "ebb.landing": self.landing or "",
            "ebb.group": self.group or "",
            "ebb.label": self.label,
            "ebb.remember": "" if self.remember is None else str(self.remember),
            "ebb.insertedAs": self.inserted_as or "",
            "ebb.expiresAs": self.expires_as or "",
            "ebb.inputs": self.inputs.dumps(),
            "ebb.evidenceRetention": "" if self.evidence_retention is None else str(self.evidence_retention),
            **({} if self.copied is None else {_COPIED_PROPERTY: self.copied.dumps()}),
        }

    @staticmethod
    def from_properties(name: str, columns: Sequence[Column], values: Mapping[str, str]) -> TableSpec:
        """Read the declaration back.

        What was declared was checked then; what cannot be understood now is damage, not a wrong argument. Refuses, before
        anything else is read, a format, a kind or a reader feature that this Ebb does not know.
        """
        if VERSION_PROPERTY not in values:
            msg = f"{name} is a Delta table that Ebb did not make; move its folder out of the warehouse"
            raise InputError(msg)
        try:
            values = {key: text(value) for key, value in values.items()}
            version = int(values[VERSION_PROPERTY])
            if version != FORMAT_VERSION:
                raise UpgradeError(name, version, FORMAT_VERSION)
            return TableSpec._parsed(name, columns, values)
        except (ValueError, KeyError, TypeError, RecursionError, UsageError) as error:
            step = "restore its log from a backup"
            reason = f"there is no {error}" if isinstance(error, KeyError) else error
            raise CorruptionError(f"the properties of table {name} cannot be understood", reason, step) from error

    @staticmethod
    def _parsed(name: str, columns: Sequence[Column], values: Mapping[str, str]) -> TableSpec:
        kind, features = values["ebb.kind"], _features(values)
        if kind not in set(Kind):
            raise FeatureError(name, "kind", (kind,), _ebb_version())
        if unknown := features.new_to_reader(KNOWN):
            raise FeatureError(name, "reader", unknown, _ebb_version())
        by_name = {column.name: column for column in columns}
        key, inserted, expires = values["ebb.key"].split(","), values["ebb.inserted"], values["ebb.expires"]
        for column in (*key, inserted, expires):
            if column not in by_name:
                msg = f"column {column}"
                raise KeyError(msg)
        timeline = Timeline(
            kind=time_kind(by_name[inserted]),
            origin=_number(values["ebb.origin"]),
            tick=_number(values["ebb.tick"]),
            span=_number(values["ebb.span"]),
        )
        grid = Grid(_axis(values["ebb.groups"]), _axis(values["ebb.cohorts"]), _number(values["ebb.generation"]))
        check_size(grid.groups.count, grid.cohorts.count)
        check_span(timeline)
        spec = TableSpec(
            name=name,
            columns=tuple(columns),
            key=tuple(key),
            inserted=inserted,
            expires=expires,
            timeline=timeline,
            grid=grid,
            strategy=Strategy(values["ebb.strategy"]),
            bound=_number(values["ebb.deletionBound"]),
            reader_time=_number(values["ebb.readerTime"]),
            quarantine_time=_number(values["ebb.quarantineTime"]),
            log_retention=_number(values["ebb.logRetention"]),
            landing=values.get("ebb.landing") or None,
            group=values.get("ebb.group") or None,
            label=values.get("ebb.label") or "end",
            remember=_number(values["ebb.remember"]) if values.get("ebb.remember") else None,
            inserted_as=values.get("ebb.insertedAs") or None,
            expires_as=values.get("ebb.expiresAs") or None,
            inputs=InputRules.loads(values.get("ebb.inputs", "")),
            kind=Kind(kind),
            features=features,
            evidence_retention=int(values["ebb.evidenceRetention"]) if values.get("ebb.evidenceRetention") else None,
            copied=Copied.loads(values.get(_COPIED_PROPERTY, "")),
        )
        _ = spec.computed  # understood now or never
        return spec


@lru_cache(maxsize=64)
def _expression(text: str, columns: tuple[Column, ...], kind: TimeKind) -> Expression:
    return parse_expression(text, columns, kind)


def _features(values: Mapping[str, str]) -> Features:
    return Features(reader=names_in(values["ebb.readerFeatures"]), writer=names_in(values["ebb.writerFeatures"]))


def _ebb_version() -> str:
    from importlib.metadata import version  # slow to import, and needed to refuse only

    return version("ebb")


def _number(written: str) -> int:
    return number(int(written))


def _axis_text(axis: Axis) -> str:
    match axis:
        case Ring(count, run):
            return f"ring:{count}:{run}"
        case Shuffle(count, seed):
            return f"shuffle:{count}:{seed}"


def _axis(text: str) -> Axis:
    kind, count, rest = text.split(":")
    return {"ring": Ring, "shuffle": Shuffle}[kind](_number(count), _number(rest))
