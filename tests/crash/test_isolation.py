"""One read sees one window (P4), a latest read reflects every update committed before it commits and ends (P4b), and
under a lease no file is missing (P19): on real processes, and with updates forced into every gap.
"""

from __future__ import annotations

import json
import threading
import time
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from ebb import OpenTable
from ebb.cli.main import main
from ebb.index.errors import EngineError, InputError, LockedError, UnknownTableError
from ebb.warehouse.read import latest
from ebb.warehouse.read.latest import LatestWindow
from ebb.warehouse.read.window import Window
from ebb.warehouse.settings import Engine
from tests.builders import integer_table, open_warehouse, timestamp_table, write_batch
from tests.crash import broken
from tests.crash.processes import Process
from tests.crash.reader import WAYS, WAYS_AND_SQL, Seen, asked_for, is_asked_for, judged, stream
from tests.crash.worker import WatchedTable, key_of
from tests.isolation import Read, Update, Violation, check
from tests.model import Model, Record
from tests.seeds import drawn_seed, rounds

# --- Real processes -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Course:
    """What a history is made on, and how much of it there must be."""

    wish: dict[str, str]
    commits: dict[str, int]  # by what they do
    reads: int
    overlapping: int  # reads during which an update was committed
    repeated: int  # latest reads that found something new when they looked again
    races: int = 0  # reads that were slower than two updates, the second of which erased what the first had removed
    erased: int = 100  # files
    engine: Engine = "spark"
    readers: Sequence[str] = ("read",) * 3  # what each does


# Ticks of 5 s that nobody waits for: updates follow each other as fast as they can, while removed files wait for
# readers in real time, by default as long as a tick. Without a grace period they wait for leases alone.
_UNTIL_ERASED = {"reader_time": "0", "deletion_bound": "10m"}
COURSES = {
    "retire": Course(
        wish={"strategy": "retire", "policy": "2x2"},
        commits={"update": 320, "retire": 60, "seal": 10, "purge": 5},
        reads=2400,
        overlapping=300,
        repeated=20,
    ),
    "rebuild": Course(
        wish={"strategy": "rebuild", "grid": "3x3", **_UNTIL_ERASED},
        commits={"update": 160},
        reads=600,
        overlapping=60,
        repeated=3,
    ),
}
RACES = {
    strategy: Course(
        wish={"strategy": strategy, **_UNTIL_ERASED, **wish},
        commits={"update": 20},
        reads=rounds(20),
        overlapping=0,
        repeated=0,
        races=rounds(8),
        erased=10,
        engine="direct",
        readers=("slow", "follow"),
    )
    for strategy, wish in {"retire": {"policy": "2x2"}, "rebuild": {"grid": "3x3"}}.items()
}


@dataclass
class Recording:
    """What the processes of one course said."""

    commits: list[dict[str, Any]] = field(default_factory=list)
    seen: dict[str, list[Seen]] = field(default_factory=dict)  # by reader
    followed: list[dict[str, Any]] = field(default_factory=list)  # by the one that follows

    @property
    def updates(self) -> list[Update]:
        return [
            Update(
                slot=commit["slot"],
                began=commit["began"],
                committed=commit["committed"],
                admitted={int(id): expires for id, expires in commit["admitted"].items()},
            )
            for commit in self.commits
            if commit["op"] == "update"
        ]

    def finished(self) -> Iterator[tuple[str, Seen]]:
        return ((reader, one) for reader, reads in self.seen.items() for one in reads if not one.missing)

    def violations(self) -> list[Violation]:
        """Check each way of reading against its part of what was admitted."""
        found = []
        for way in WAYS_AND_SQL:
            reads = [judged(f"{reader} ({way})", one) for reader, one in self.finished() if one.way == way]
            found += check(asked_for(way, self.updates), reads)
        return found

    def figures(self) -> dict[str, int]:
        """Count what happened."""
        ops = Counter(commit["op"] for commit in self.commits)
        reads = [one for _, one in self.finished()]
        began = [update.began for update in self.updates]
        committed = [update.committed for update in self.updates]
        return {
            "updates": ops["update"],
            "with records": sum(bool(update.admitted) for update in self.updates),
            "retires": ops["retire"],
            "seals": ops["seal"],
            "purges": ops["purge"],
            "files erased": self.commits[-1]["files"],
            "reads window": sum(one.level == "window" for one in reads),
            "reads latest": sum(one.level == "latest" for one in reads),
            "overlapping": sum(bisect_right(committed, one.began) < bisect_left(began, one.ended) for one in reads),
            "of several rounds": sum(one.rounds > 1 for one in reads),
            "most rounds": max(one.rounds for one in reads),
            "told that it was erased": sum(bool(one.missing) for seen in self.seen.values() for one in seen),
            "races": _races(committed, [one for seen in self.seen.values() for one in seen]),
        }


def _races(committed: Sequence[int], reads: Sequence[Seen]) -> int:
    """Count the reads during which files of theirs would have been erased, had nobody known of them."""
    return sum(
        bool(one.outdated) and bisect_left(committed, one.ended) - bisect_right(committed, one.began) >= 2
        for one in reads
    )


def _is_enough(course: Course, writer: Process, readers: Sequence[Process]) -> bool:
    """Whether there is as much as the course asks for, and some more, because a few reads may come to nothing."""
    commits = [json.loads(line) for line in writer.lines[1:]]
    ops = Counter(commit["op"] for commit in commits)
    reads = [
        line
        for does, reader in zip(course.readers, readers, strict=True)
        if does != "follow"
        for line in reader.lines[1:]
    ]
    if len(reads) < 1.05 * course.reads or any(ops[op] < least for op, least in course.commits.items()):
        return False
    updates = [commit for commit in commits if commit["op"] == "update"]
    committed = [update["committed"] for update in updates]
    races = _races(committed, [Seen(**json.loads(line)) for line in reads])
    return races >= course.races and updates[-1]["erased"] >= course.erased


def _record(folder: Path, course: Course, seed: int) -> Recording:
    """Let one writer and some readers at a table until there is enough to be judged."""
    timestamp_table(open_warehouse(folder / "w"), tick="5s", span="40s", origin="2026-01-01", **course.wish)
    batches = folder / "batches"
    batches.mkdir()
    engine = ["direct"] if course.engine == "direct" else []
    writer = Process(["-m", "tests.crash.worker", str(folder / "w"), str(batches), str(seed), *engine])
    readers: list[Process] = []
    try:
        assert writer.heard("READY") == "READY", writer.errors
        readers += [
            Process(["-m", "tests.crash.reader", str(folder / "w"), str(seed + i), does])
            for i, does in enumerate(course.readers, start=1)
        ]
        while not _is_enough(course, writer, readers):
            ended = [process for process in (writer, *readers) if process.process.poll() is not None]
            assert not ended, "\n".join(ended[0].errors)
            time.sleep(0.2)
    finally:
        codes = [process.end() for process in (writer, *readers)]
    assert not any(codes), codes
    assert not any(process.errors for process in readers), [reader.errors for reader in readers]
    said = [(does, [json.loads(line) for line in r.lines[1:]]) for does, r in zip(course.readers, readers, strict=True)]
    return Recording(
        commits=[json.loads(line) for line in writer.lines[1:]],
        seen={
            f"reader {i}": [Seen(**one) for one in lines] for i, (does, lines) in enumerate(said) if does != "follow"
        },
        followed=[one for does, lines in said if does == "follow" for one in lines],
    )


@pytest.mark.parametrize("name", list(COURSES))
def test_every_read_beside_a_busy_writer_is_one_window_and_recent_enough(
    name: str, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """Half of the updates are empty ticks, which need no Spark: they move the clock and expire records all the same.

    No file may ever be missing: under retire with the default grace period, and under rebuild without any.
    """
    seed, course = drawn_seed(), COURSES[name]
    began = time.monotonic()
    recording = _record(tmp_path, course, seed)
    seconds = time.monotonic() - began

    violations = recording.violations()
    figures = recording.figures()
    counts = ", ".join(f"{what} {count:,}" for what, count in (figures | {"violations": len(violations)}).items())
    record_property("figures", f"isolation under {name}, {seconds:.0f} s: {counts}")
    assert not violations, "\n".join(str(violation) for violation in violations[:20])
    assert all(one.is_ordered for _, one in recording.finished() if one.way in ("range", "keys"))
    assert not figures["told that it was erased"]
    assert all(figures[f"{op}s"] >= least for op, least in course.commits.items())
    assert figures["reads window"] + figures["reads latest"] >= course.reads
    assert min(figures["reads window"], figures["reads latest"]) >= course.reads // 3
    assert figures["overlapping"] >= course.overlapping
    assert figures["of several rounds"] >= course.repeated
    assert figures["files erased"] >= course.erased


@pytest.mark.parametrize("strategy", list(RACES))
def test_a_slow_reader_gets_its_window_although_everything_is_erased_at_once(
    strategy: str, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """There is no grace period, so every update erases what the one before removed; scans, probes, SQL and a follower."""
    course = RACES[strategy]
    recording = _record(tmp_path, course, drawn_seed())

    violations, figures = recording.violations(), recording.figures()
    wrong = [one for one in recording.followed if one["ids"] != _admitted(recording, one["slot"])]
    told = f"lease races: {figures['races']}, short answers {len(violations) + len(wrong)}"
    followed = f"{len(recording.followed)} commits followed"
    record_property("figures", f"{told}; under {strategy}, {figures['files erased']} files erased, {followed}")
    assert not violations, "\n".join(str(violation) for violation in violations[:20])
    assert not wrong
    assert not figures["told that it was erased"], "the bound is far away"
    assert figures["races"] >= course.races
    assert figures["files erased"] >= course.erased
    slots = [update.slot for update in recording.updates]
    first = slots.index(recording.followed[0]["slot"])
    assert [one["slot"] for one in recording.followed] == slots[first : first + len(recording.followed)]
    assert len(recording.followed) >= 10


def _admitted(recording: Recording, slot: int) -> list[int]:
    return sorted(id for update in recording.updates if update.slot == slot for id in update.admitted)


# --- Updates forced into gaps ---------------------------------------------------------------------------------------


class Story:
    """A real table in this process, the model beside it, and the history of its updates."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        warehouse = open_warehouse(folder / "w")
        self.wish = {"strategy": "retire", "policy": "2x2", "span": "20"}
        self.table = integer_table(warehouse, **self.wish)
        self.watched = WatchedTable(warehouse.root, "t")
        self.writer = OpenTable(warehouse, self.watched)
        self.model = Model(self.table.table.snapshot().spec.timeline)
        self.updates: list[Update] = []

    @property
    def slot(self) -> int:
        """Return the slot of the next update."""
        return (self.model.clock or 0) + 1

    def tick(self) -> None:
        """Commit an empty tick, which needs no JVM."""
        self._told(self.slot, [], self.writer.update(at=self.slot).version)

    def update(self, lives: Sequence[int] = range(1, 21), **how: Any) -> None:
        """Commit a batch with records with these lifetimes in ticks, and what has to be sealed then."""
        slot = self.slot
        ids = [slot * 1000 + number for number in range(len(lives))]
        batch = [Record(id, key_of(id), slot, slot + life) for id, life in zip(ids, lives, strict=True)]
        file = write_batch(self.folder / f"b{slot}.parquet", batch)
        self._told(slot, batch, self.writer.update(file, at=slot, **how).version)

    def _told(self, slot: int, batch: list[Record], version: int) -> None:
        assert version
        admitted = {record.id: record.expires for record in self.model.apply(slot, batch).admitted if record.expires}
        done = next(commit for commit in self.watched.taken() if commit.op == "update")
        self.updates.append(Update(slot=slot, began=done.began, committed=done.committed, admitted=admitted))

    def expected(self, way: str = "scan", as_of: int = 0) -> list[int]:
        """Return what the model says that a way of reading finds."""
        return sorted(r.id for r in self.model.window() if is_asked_for(way, r.id) and (r.expires or 0) > as_of)


@pytest.fixture
def story(tmp_path: Path, spark: Any) -> Story:
    """Return an empty table, with Spark there for whoever updates it."""
    return Story(tmp_path)


def forced(window: LatestWindow, gap: Callable[[], object]) -> tuple[LatestWindow, list[int]]:
    """Return the window with something done before each look at the log, and when the looks were."""
    looks: list[int] = []

    def look() -> Window:
        gap()
        looks.append(time.monotonic_ns())
        return window.reopen()

    return replace(window, reopen=look), looks


def in_turn(*things: Callable[[], None]) -> Callable[[], None]:
    """Return what does one thing after the other each time that it is called, and in the end nothing."""
    left = list(things)

    def next_thing() -> None:
        if left:
            left.pop(0)()

    return next_thing


def ids_of(window: Window, way: str) -> list[int]:
    """Read a window, and see that probes keep their order."""
    rows = stream(window, way).read_all().to_pylist()
    order = [(row["key"], row["expires"]) for row in rows]
    assert way in ("scan", "where") or order == sorted(order)
    return sorted(row["id"] for row in rows)


@pytest.mark.parametrize("way", WAYS)
def test_a_latest_read_ends_although_an_update_comes_into_every_gap(way: str, story: Story) -> None:
    """It lets eight pass, then it holds the writer's lock for its last look: the ninth is refused, the tenth is not."""
    story.update()
    refused: list[LockedError] = []

    def gap() -> None:
        try:
            story.tick()
        except LockedError as error:
            refused.append(error)

    window, looks = forced(story.table.up_to_date(), gap)
    ids = ids_of(window, way)

    assert (len(looks), len(refused), story.model.clock) == (9, 1, 9)
    assert (window.cost.clock, window.cost.version) == (9, story.table.table.snapshot().version)
    assert ids == story.expected(way) != []
    story.tick()
    assert ids_of(story.table.up_to_date(), way) == story.expected(way)


_TICK = """
import json, sys
from dataclasses import asdict
from pathlib import Path
from ebb import OpenTable
from tests.builders import open_warehouse
from tests.crash.worker import WatchedTable, input_ended, say

warehouse = open_warehouse(Path(sys.argv[1]))
table, ended, slot = WatchedTable(warehouse.root, "t"), input_ended(), 0
while not ended.is_set():
    slot += 1
    OpenTable(warehouse, table).update(at=slot, wait=60)
    for commit in table.taken():
        say(json.dumps(asdict(commit)))
"""


def test_a_latest_read_ends_beside_a_writer_that_never_rests(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """The lock is free for moments only, and still the read comes by it and returns the newest window."""
    table = integer_table(open_warehouse(tmp_path / "w"))
    writer = Process(["-c", _TICK, str(tmp_path / "w")])
    assert writer.heard("{"), writer.errors
    reads, rounds, seconds = [], [], []
    try:
        for number in range(10):
            began = time.monotonic_ns()
            window, looks = forced(table.up_to_date(), lambda: time.sleep(0.05))
            ids = tuple(window.scan(["id"]).read_all()["id"].to_pylist())
            ended = time.monotonic_ns()
            read = Read(
                reader=f"read {number}",
                began=began,
                checked=looks[-1],
                ended=ended,
                level="latest",
                clock=window.cost.clock,
                ids=ids,
            )
            reads.append(read)
            rounds.append(len(looks))
            seconds.append((ended - began) / 1e9)
    finally:
        assert writer.end() == 0, writer.errors

    commits = [json.loads(line) for line in writer.lines]
    told = f"{len(commits)} updates; reads of {rounds} rounds, the longest took {max(seconds):.1f} s"
    record_property("figures", f"isolation beside a writer that never rests: {told}")
    updates = [Update(slot=c["slot"], began=c["began"], committed=c["committed"]) for c in commits]
    assert not check(updates, reads)
    assert rounds.count(9) >= 3
    assert max(seconds) < 30


def test_a_latest_read_that_has_looked_often_enough_waits_for_the_update_that_is_running(story: Story) -> None:
    """The update holds the lock until the read waits for it, and then commits records that the read must have."""
    story.update()
    has_lock, may_commit = threading.Event(), threading.Event()

    def progress(_: str) -> None:
        has_lock.set()
        may_commit.wait(20)

    running = threading.Thread(target=story.update, kwargs={"progress": progress})

    def start() -> None:
        story.tick()
        running.start()
        assert has_lock.wait(20)
        threading.Timer(0.3, may_commit.set).start()

    window, looks = forced(story.table.up_to_date(), in_turn(*[story.tick] * 7, start))
    ids = ids_of(window, "range")
    running.join()

    assert len(looks) == 9
    assert window.cost.clock == story.model.clock == 10
    assert ids == story.expected()
    assert any(id >= 10_000 for id in ids)


@pytest.mark.parametrize("way", WAYS)
def test_records_that_come_into_gaps_are_in_a_latest_read_and_in_their_order(way: str, story: Story) -> None:
    story.update()
    began = time.monotonic_ns()
    window, looks = forced(story.table.up_to_date(), in_turn(story.update, story.tick, story.update, story.update))
    ids = ids_of(window, way)
    ended = time.monotonic_ns()

    assert len(looks) == 5
    assert ids == story.expected(way)
    seen = Seen(
        level="latest",
        way=way,
        began=began,
        checked=looks[-1],
        ended=ended,
        rounds=len(looks),
        clock=window.cost.clock,
        ids=ids,
    )
    assert not check(asked_for(way, story.updates), [judged("latest", seen)])


def test_a_latest_probe_reads_what_was_sealed_and_what_came_after_in_one_round(story: Story) -> None:
    """Only of the sealed file it has to ask when its records came, and that must not keep the two from being merged."""
    for _ in range(3):
        story.update()

    def gap() -> None:
        story.update()
        story.update()

    window, looks = forced(story.table.up_to_date(), in_turn(gap))
    ids = ids_of(window, "range")

    added = [file for file in story.table.table.snapshot().files if file.max_ins > 3]
    assert {file.min_ins <= 3 for file in added} == {True, False}, "one sealed with what was read before, one fresh"
    assert len(looks) == 2
    assert ids == story.expected()


def test_a_latest_read_sees_the_first_update_of_a_table(story: Story) -> None:
    window, looks = forced(story.table.up_to_date(), in_turn(story.update))

    assert ids_of(window, "scan") == story.expected() != []
    assert len(looks) == 2
    assert window.cost.clock == 1


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("memory_bytes", [0, 250], ids=["all", "some"])
def test_what_a_latest_read_cannot_hold_in_memory_comes_back_from_a_file(
    memory_bytes: int, way: str, story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    spilled = Counter[bool]()
    held = latest._Spool._held

    def counted(spool: Any, table: Any) -> Any:
        place = held(spool, table)
        spilled[isinstance(place, tuple)] += 1
        return place

    monkeypatch.setattr(latest, "_MEMORY_BYTES", memory_bytes)
    monkeypatch.setattr(latest._Spool, "_held", counted)
    story.update(range(15, 21))
    window, _ = forced(story.table.up_to_date(), in_turn(story.tick, story.update, story.update))

    assert ids_of(window, way) == story.expected(way)
    assert spilled[True]
    assert bool(spilled[False]) == bool(memory_bytes)


@pytest.mark.parametrize("ticks", [0, 1, 2])
def test_a_table_that_is_made_anew_in_a_gap_is_not_taken_for_the_one_that_was_read(ticks: int, story: Story) -> None:
    """With one tick the new table is at the version of the old one: the number alone tells nothing."""
    story.update()

    def gap() -> None:
        story.table.warehouse.drop("t")
        anew = integer_table(story.table.warehouse, **story.wish)
        for slot in range(1, ticks + 1):
            anew.update(at=slot)

    window, _ = forced(story.table.up_to_date(), gap)

    with pytest.raises(EngineError, match=r"table t was dropped and created again: while it was read; run it again"):
        ids_of(window, "scan")


def test_a_table_that_is_dropped_in_a_gap_is_an_error(story: Story) -> None:
    story.update()
    window, _ = forced(story.table.up_to_date(), lambda: story.table.warehouse.drop("t"))

    with pytest.raises(UnknownTableError):
        ids_of(window, "scan")


def test_a_latest_read_as_of_a_later_moment_hides_what_has_expired_then(story: Story) -> None:
    story.update()
    window, looks = forced(story.table.up_to_date(as_of=9), in_turn(story.update, story.tick))

    assert ids_of(window, "range") == story.expected(as_of=9)
    assert len(looks) == 3
    assert {1001, 1007} & set(story.expected()) == {1007}, "at the clock one of them is still there"


def test_a_latest_read_as_of_a_moment_that_the_clock_passes_meanwhile_is_refused(story: Story) -> None:
    """What expired between the moment and the clock may be gone from the files: nobody can tell any more."""
    story.update()
    window, _ = forced(story.table.up_to_date(as_of=2), story.tick)

    with pytest.raises(InputError, match="time 2 is before the clock 3"):
        ids_of(window, "scan")


def test_the_command_line_reads_the_latest_window_as_of_a_moment(
    story: Story, capsys: pytest.CaptureFixture[str]
) -> None:
    story.update()
    command = [
        "--warehouse",
        str(story.table.warehouse.root),
        "scan",
        "t",
        "--isolation",
        "latest",
        "--format",
        "jsonl",
    ]

    assert main([*command, "--as-of", "9"]) == 0

    assert sorted(json.loads(line)["id"] for line in capsys.readouterr().out.splitlines()) == story.expected(as_of=9)


# --- Readers with faults --------------------------------------------------------------------------------------------


def right_window(table: OpenTable, gap: Callable[[], None]) -> broken.Answer:
    """Pin a window, and read on after an update."""
    window = table.at_latest()
    parts = stream(window, "scan")
    ids = parts.read_next_batch()["id"].to_pylist()
    gap()
    ids += parts.read_all()["id"].to_pylist()
    return broken.Answer(clock=window.cost.clock, ids=ids)


def right_latest(table: OpenTable, gap: Callable[[], None]) -> broken.Answer:
    """Look again after an update."""
    window, looks = forced(table.up_to_date(), in_turn(gap))
    ids = stream(window, "scan").read_all()["id"].to_pylist()
    return broken.Answer(level="latest", checked=looks[-1], clock=window.cost.clock, ids=ids)


def test_every_reader_with_a_fault_is_caught_for_it_and_no_other(
    story: Story, record_property: Callable[[str, object], None]
) -> None:
    """A checker that never complains proves nothing: on one real history it must tell these readers from ours."""
    for _ in range(3):
        story.update()
    readers: list[broken.Reader] = [right_window, right_latest, *broken.BROKEN]
    reads = []
    for reader in [*readers, *reversed(readers)]:
        began = time.monotonic_ns()
        answer = reader(story.table, story.update)
        reads.append(
            Read(
                reader=reader.__name__,
                began=began,
                checked=answer.checked or began,
                ended=time.monotonic_ns(),
                level=answer.level,
                clock=answer.clock,
                ids=tuple(answer.ids),
            )
        )

    violations = check(story.updates, reads)

    print("\n".join(str(violation) for violation in violations))
    caught = [(violation.reader, violation.rule) for violation in violations]
    told = ", ".join(f"{reader} ({rule.value})" for reader, rule in dict.fromkeys(caught))
    record_property("figures", f"isolation, broken readers caught: {told}")
    assert Counter(caught) == {(reader.__name__, rule): 2 for reader, rule in broken.BROKEN.items()}
