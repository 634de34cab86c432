"""The checker of reads is right about the texts' own histories, lets right readers pass and catches broken ones."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.isolation import (
    Level,
    Operation,
    Read,
    Rule,
    Update,
    Violation,
    aborts,
    check,
    is_commit_order_preserving,
    is_conflict_serializable,
    is_latest_window_serializable,
    is_window_serializable,
    parse,
    precedence,
    states_read,
)

# The seed of a failing example is among its arguments; the blob replays the rest.
laws = settings(deadline=None, max_examples=100, print_blob=True)
seeds = st.integers(0, 2**32 - 1)


# --- The histories of the texts -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Golden:
    """A history and what is written about it; None where the text is silent."""

    history: str
    serializable: bool | None = None
    window: bool | None = None
    latest: bool | None = None
    commit_order: bool | None = None
    graph: frozenset[tuple[str, str]] | None = None
    state: int | None = None  # the update after which the window was what the query read
    aborted_by: str | None = None  # the update whose commit makes LWS impossible


def edges(text: str) -> frozenset[tuple[str, str]]:
    """Return the graph that is written like ``6>Q1 Q1>5``."""
    return frozenset((before, after) for before, after in (edge.split(">") for edge in text.split()))


# Thesis: Ha-Hd in 7.3.1, He and Hf in 7.4.2, Hg and Hh in the part on commit order that ends chapter 7. Report: Ha-Hd
# in 3.1, of which Ha and Hb are the thesis's, Hd is the thesis's He, and Hc is found only there. n = 5; updates 0 to 4
# fill the window and are left out. Hh begins with update 9, so it also leaves out 5 to 8: we add them.
# The graphs are those of figure 7.4, told in words where the drawing is lost.
GOLDENS = {
    "Ha": Golden(
        "rQ1[0] w5[0] c5 w6[1] c6 rQ1[1] rQ1[2] rQ1[3] rQ1[4] cQ1",
        serializable=True, window=False, latest=False, graph=edges("Q1>5 6>Q1"), aborted_by="5",
    ),
    "Hb": Golden(
        "rQ1[0] w5[0] c5 rQ1[1] w6[1] c6 rQ1[2] rQ1[3] rQ1[4] cQ1",
        serializable=True, window=True, latest=False, graph=edges("Q1>5 Q1>6"), state=4, aborted_by="5",
    ),
    "Hc": Golden(
        "w5[0] c5 rQ1[0] rQ1[1] rQ1[2] rQ1[3] w6[1] c6 rQ1[4] cQ1",
        serializable=True, window=True, latest=False, graph=edges("5>Q1 Q1>6"), state=5,
    ),
    "Hd": Golden(
        "w5[0] c5 rQ1[0] w6[1] c6 rQ1[1] rQ1[2] rQ1[3] rQ1[4] cQ1",
        serializable=True, window=True, latest=True, commit_order=True, graph=edges("5>Q1 6>Q1"), state=6,
    ),
    "Hc of the report": Golden(
        r"r_{Q1}[4] \ w_5[0] \ c_5 \ r_{Q1}[3] \ r_{Q1}[2] \ r_{Q1}[1] \ w_6[1] \ c_6 \ r_{Q1}[0] \ c_{Q1}",
        serializable=True, window=True, latest=False, graph=edges("5>Q1 Q1>6"), state=5, aborted_by="6",
    ),
    "Hd of the report": Golden(
        r"r_{Q1}[4] \ w_5[0] \ c_5 \ r_{Q1}[0] \ r_{Q1}[3] \ r_{Q1}[2] \ w_6[1] \ c_6 \ r_{Q1}[1] \ c_{Q1}",
        serializable=True, window=True, latest=True, graph=edges("5>Q1 6>Q1"), state=6,
    ),
    "He": Golden("rQ1[4] w5[0] c5 rQ1[0] rQ1[3] rQ1[2] w6[1] c6 rQ1[1] cQ1", latest=True),
    "Hf": Golden("rQ1[0] w5[0] c5 rQ1[1] rQ1[2] rQ1[3] w6[1] c6 rQ1[4] cQ1", latest=False, aborted_by="5"),
    "Hg": Golden(
        "rQ1[0] w5[0] w6[1] c6 rQ1[1] rQ1[2] rQ1[3] rQ1[4] cQ1 c5", window=False, latest=False, commit_order=True
    ),
    "Hh": Golden(
        "rQ1[0] rQ1[1] rQ1[2] rQ1[3] w9[4] rQ1[4] cQ1 c9", window=True, latest=True, commit_order=False, state=9
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", GOLDENS)
def test_a_history_of_the_texts_is_judged_as_it_is_there(name: str) -> None:
    golden = GOLDENS[name]
    history = parse(golden.history)

    for said, judged in (
        (golden.serializable, is_conflict_serializable(history)),
        (golden.window, is_window_serializable(history)),
        (golden.latest, is_latest_window_serializable(history)),
        (golden.commit_order, is_commit_order_preserving(history)),
        (golden.graph, precedence(history)),
        (golden.state, states_read(history)["Q1"]),
        (golden.aborted_by, aborts(history).get("Q1")),
    ):
        assert said is None or judged == said


def test_he_is_the_hd_of_the_report() -> None:
    assert parse(GOLDENS["He"].history) == parse(GOLDENS["Hd of the report"].history)


def test_hf_is_window_serializable_which_the_text_leaves_open() -> None:
    """It reads sub-windows 0 and 1 before they are replaced: the window after update 4."""
    history = parse(GOLDENS["Hf"].history)

    assert states_read(history) == {"Q1": 4}
    assert precedence(history) == edges("Q1>5 Q1>6")


def test_ha_does_not_preserve_the_commit_order_and_hg_is_ha_with_a_later_commit() -> None:
    ha, hg = parse(GOLDENS["Ha"].history), parse(GOLDENS["Hg"].history)

    assert not is_commit_order_preserving(ha)
    assert precedence(hg) == precedence(ha)
    assert [step for step in hg if step != Operation("commit", "5")] == [
        step for step in ha if step != Operation("commit", "5")
    ]


def test_a_query_that_has_not_committed_yet_can_be_doomed_already() -> None:
    """The report follows Hc up to the commit of update 6."""
    begun = parse("rQ1[4] w5[0] c5 rQ1[3] rQ1[2] rQ1[1] w6[1] c6")

    assert aborts(begun) == {"Q1": "6"}
    assert states_read(begun) == {}


def test_two_queries_that_see_two_updates_in_different_orders_are_not_even_serializable() -> None:
    history = parse("rQ1[0] rQ2[1] w2[0] c2 w3[1] c3 rQ1[1] rQ2[0] cQ1 cQ2")

    assert not is_conflict_serializable(history)
    assert states_read(history) == {"Q1": None, "Q2": 2}
    assert not is_window_serializable(history)


def test_an_aborted_query_breaks_nothing() -> None:
    history = parse("rQ1[0] w2[0] c2 w3[1] c3 rQ1[1] aQ1 rQ2[0] rQ2[1] cQ2")

    assert states_read(history) == {"Q2": 3}
    assert precedence(history) == edges("2>Q2 3>Q2")
    assert is_latest_window_serializable(history)


def test_an_update_that_is_not_committed_when_the_query_commits_need_not_be_seen() -> None:
    """The report's definition; the thesis's could also be read as asking for it."""
    in_time, too_late = parse("rQ1[0] rQ1[1] w2[0] cQ1 c2"), parse("rQ1[0] rQ1[1] w2[0] c2 cQ1")

    assert is_latest_window_serializable(in_time)
    assert not aborts(in_time)
    assert not is_latest_window_serializable(too_late)
    assert aborts(too_late) == {"Q1": "2"}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("x5[0]", "no operation"),
        ("w5", "no operation"),
        ("cQ1[0]", "no operation"),
        ("a5", "no operation"),
        ("wQ1[0]", "no operation"),
        ("r5[0]", "no operation"),
        ("w5[1] rQ1[4]", "mod 5"),
        ("w5[0] w7[2] rQ1[4]", r"update j\+1"),
        ("rQ1[0] rQ1[2] cQ1", "each of the 3"),
        ("rQ1[0] rQ1[1] rQ1[1] cQ1", "each of the 2"),
    ],
)
def test_a_history_that_the_definitions_do_not_speak_of_is_refused(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        parse(text)


@st.composite
def interleavings(draw: st.DrawFn, *, prompt: bool) -> tuple[Operation, ...]:
    """Draw queries that run while updates come; prompt updates commit at once."""
    n, queries, updates = draw(st.integers(1, 5)), draw(st.integers(1, 3)), draw(st.integers(0, 12))
    reads = {f"Q{k}": draw(st.permutations(range(n))) for k in range(queries)}
    turns = draw(st.permutations([name for name in reads for _ in range(n + 1)] + ["T"] * updates))
    history, number, pending = [], n + draw(st.integers(0, 9)), list[str]()
    for turn in turns:
        if turn == "T":
            history.append(Operation("write", str(number), number % n))
            pending.append(str(number))
            number += 1
        else:
            history.append(Operation("read", turn, reads[turn].pop()) if reads[turn] else Operation("commit", turn))
        while pending and (prompt or draw(st.booleans())):
            history.append(Operation("commit", pending.pop(0)))
    return (*history, *(Operation("commit", update) for update in pending))


def sides(history: tuple[Operation, ...], query: str) -> tuple[set[int], set[int]]:
    """Return the updates that are serialized before a query and after it."""
    graph = precedence(history)
    return {int(a) for a, b in graph if b == query}, {int(b) for a, b in graph if a == query}


@laws
@given(interleavings(prompt=True) | interleavings(prompt=False))
def test_window_serializable_means_older_updates_before_the_query_and_newer_ones_after(
    history: tuple[Operation, ...],
) -> None:
    """Theorem 7.1."""
    for query, state in states_read(history).items():
        before, after = sides(history, query)

        assert (state is not None) == all(i < j for i in before for j in after)


@laws
@given(interleavings(prompt=True) | interleavings(prompt=False))
def test_a_window_serializable_history_is_serializable(history: tuple[Operation, ...]) -> None:
    """The report's definition 1 asks for it, the thesis's 7.1 no longer does: it follows."""
    assert is_conflict_serializable(history) or not is_window_serializable(history)


@laws
@given(interleavings(prompt=True))
def test_latest_means_that_updates_during_the_query_come_before_it(history: tuple[Operation, ...]) -> None:
    """Theorem 7.2, with theorem 7.3: algorithm 7 aborts exactly the others."""
    commits = {step.transaction: at for at, step in enumerate(history) if step.kind == "commit"}
    too_late = {
        query
        for query in states_read(history)
        if any(commits[str(update)] < commits[query] for update in sides(history, query)[1])
    }

    assert is_latest_window_serializable(history) == (not too_late)
    assert aborts(history).keys() == too_late


@laws
@given(interleavings(prompt=True))
def test_latest_is_commit_order_preserving_if_updates_commit_at_once(history: tuple[Operation, ...]) -> None:
    """Theorem 7.5."""
    assert is_latest_window_serializable(history) == is_commit_order_preserving(history)


# --- Recorded histories, by hand ------------------------------------------------------------------------------------

# 1 is short-lived, 4 lives through everything. Slots 5 and 6 are caught up at once, slots 8 and 9 bring nothing.
UPDATES = (
    Update(slot=3, began=100, committed=110, admitted={1: 4, 2: 7, 4: 99}),
    Update(slot=4, began=200, committed=210, admitted={3: 7, 5: 6}),
    Update(slot=7, began=300, committed=310, admitted={6: 99}),
    Update(slot=8, began=400, committed=410),
    Update(slot=9, began=500, committed=510, admitted={7: 9}),  # expired on arrival
)
WINDOWS = {3: (1, 2, 4), 4: (2, 3, 4, 5), 7: (4, 6), 8: (4, 6), 9: (4, 6)}


def read(
    ids: tuple[int, ...], *, clock: int | None, times: tuple[int, int, int], level: Level = "window", reader: str = "r"
) -> Read:
    began, checked, ended = times
    return Read(reader=reader, began=began, checked=checked, ended=ended, level=level, clock=clock, ids=ids)


def broken(*reads: Read) -> list[Rule]:
    return [violation.rule for violation in check(UPDATES, reads)]


def only(one: Read) -> Violation:
    (violation,) = check(UPDATES, [one])
    return violation


@pytest.mark.parametrize("level", ["window", "latest"])
@pytest.mark.parametrize(("clock", "start"), [(3, 110), (4, 210), (7, 310), (8, 410), (9, 510)])
def test_a_read_between_two_updates_is_right(level: Level, clock: int, start: int) -> None:
    assert not broken(read(WINDOWS[clock], clock=clock, times=(start + 1, start + 50, start + 89), level=level))


def test_a_table_before_its_first_update_is_empty_and_has_no_clock() -> None:
    assert not broken(read((), clock=None, times=(1, 2, 3)), read((), clock=None, times=(1, 109, 120), level="latest"))
    assert broken(read((), clock=None, times=(111, 112, 113))) == [Rule.NOT_BEFORE_ITS_BEGINNING]


@pytest.mark.parametrize("clock", [3, 4])
def test_an_update_on_its_way_may_be_seen_or_not(clock: int) -> None:
    assert not broken(read(WINDOWS[clock], clock=clock, times=(200, 205, 209), level="latest"))


def test_equal_times_are_read_in_favour_of_the_reader() -> None:
    assert not broken(read(WINDOWS[3], clock=3, times=(210, 210, 211), level="latest"))
    assert not broken(read(WINDOWS[4], clock=4, times=(150, 160, 200)))


def test_a_window_read_may_miss_what_is_committed_while_it_runs_and_a_latest_read_may_not() -> None:
    times = (150, 250, 260)

    assert not broken(read(WINDOWS[3], clock=3, times=times))
    assert broken(read(WINDOWS[3], clock=3, times=times, level="latest")) == [Rule.NOT_BEFORE_ITS_COMMIT]
    assert not broken(read(WINDOWS[3], clock=3, times=(150, 190, 260), level="latest"))


def test_a_read_that_is_older_than_its_beginning_is_told_the_update_that_it_missed() -> None:
    violation = only(read(WINDOWS[3], clock=3, times=(250, 251, 252), level="latest", reader="scan 4"))

    assert violation.reader == "scan 4"
    assert violation.rule is Rule.NOT_BEFORE_ITS_BEGINNING
    assert violation.reason == "shows 3, but 4 was committed before it began"


def test_a_read_that_is_older_than_its_commit_is_told_the_update_that_it_missed() -> None:
    violation = only(read(WINDOWS[4], clock=4, times=(250, 350, 360), level="latest"))

    assert str(violation) == "r was older than its own commit: shows 4, but 7 was committed before its last look"


def test_a_read_cannot_show_an_update_that_began_after_it_ended() -> None:
    violation = only(read(WINDOWS[4], clock=4, times=(150, 160, 170)))

    assert violation.rule is Rule.NOT_FROM_THE_FUTURE
    assert violation.reason == "shows 4, but 4 began after it ended"


def test_the_claimed_clock_is_that_of_the_window() -> None:
    violation = only(read(WINDOWS[3], clock=4, times=(150, 160, 170)))

    assert violation.rule is Rule.CLAIMED_CLOCK
    assert violation.reason == "claims 4, returned 3"


def test_nobody_can_claim_a_clock_that_an_update_jumped_over() -> None:
    assert broken(read(WINDOWS[4], clock=5, times=(250, 305, 320))) == [Rule.CLAIMED_CLOCK]


def test_a_read_that_claims_no_clock_is_not_held_to_one() -> None:
    assert not broken(read(WINDOWS[4], clock=None, times=(250, 260, 270)))


def test_a_stale_read_that_claims_a_fresh_clock_breaks_two_rules() -> None:
    stale = read(WINDOWS[3], clock=4, times=(250, 251, 252))

    assert broken(stale) == [Rule.CLAIMED_CLOCK, Rule.NOT_BEFORE_ITS_BEGINNING]


def test_equal_windows_are_told_apart_by_the_claim_alone() -> None:
    times = (450, 460, 470)

    assert not broken(read(WINDOWS[8], clock=8, times=times), read(WINDOWS[8], clock=None, times=times))
    assert broken(read(WINDOWS[8], clock=7, times=times)) == [Rule.NOT_BEFORE_ITS_BEGINNING]
    assert broken(read(WINDOWS[8], clock=9, times=times)) == [Rule.NOT_FROM_THE_FUTURE]
    assert only(read(WINDOWS[8], clock=4, times=times)).reason == "claims 4, returned 7, 8, 9"


def test_a_window_that_the_clock_jumped_over_is_no_window() -> None:
    """At slot 6 record 5 would be gone and 2 and 3 not yet; no commit ever said so."""
    assert broken(read((2, 3, 4), clock=6, times=(250, 305, 320))) == [Rule.ONE_WINDOW]


@pytest.mark.parametrize(
    ("ids", "reason"),
    [
        ((2, 3, 4), "claims 4; nearest 4; compared with 4: missing 5"),
        ((2, 3, 4, 5, 5), "claims 4; nearest 4; compared with 4: twice 5"),
        ((5, 4, 3, 2, 1), "claims 4; nearest 4; compared with 4: expired 1"),
        ((2, 3, 4, 5, 6), "claims 4; nearest 4; compared with 4: too early 6"),
        ((2, 3, 4, 5, 50), "claims 4; nearest 4; compared with 4: never admitted 50"),
        ((2, 2, 4), "claims 4; nearest 3; compared with 3: missing 1; twice 2"),
        ((1, 2, 4, 5), "claims 4; nearest 3; compared with 3: too early 5"),
        ((2, 4, 6), "claims 4; nearest 7, 8, 9; compared with 9: expired 2"),
        ((2, 4), "claims 4; nearest 3; compared with 3: missing 1"),
        ((7,), "claims 4; nearest the table before any update; compared with the table before any update: too early 7"),
    ],
)
def test_a_bag_that_is_no_window_is_told_what_is_wrong_with_it(ids: tuple[int, ...], reason: str) -> None:
    violation = only(read(ids, clock=4, times=(250, 260, 270)))

    assert violation.rule is Rule.ONE_WINDOW
    assert violation.reason == reason


def test_the_claimed_clock_is_compared_with_if_it_is_as_near_as_any() -> None:
    updates = [Update(slot=slot, began=slot, committed=slot, admitted={slot: slot + 1}) for slot in (1, 2)]

    (violation,) = check(updates, [read((1, 2), clock=1, times=(1, 1, 2))])
    (unclaimed,) = check(updates, [read((1, 2), clock=None, times=(1, 1, 2))])

    assert violation.reason == "claims 1; nearest 1, 2; compared with 1: too early 2"
    assert unclaimed.reason == "claims nothing; nearest 1, 2; compared with 2: expired 1"


def test_a_reason_stays_short() -> None:
    updates = [Update(slot=1, began=0, committed=1, admitted=dict.fromkeys(range(1000), 9))]

    (violation,) = check(updates, [read(tuple(range(20, 1000)), clock=1, times=(2, 2, 2))])

    assert violation.reason.endswith("missing 0, 1, 2, 3, 4, 5, 6, 7 and 12 more")


@pytest.mark.parametrize(
    ("updates", "why"),
    [
        ([Update(slot=1, began=2, committed=1)], "before it began"),
        ([Update(slot=1, began=1, committed=2), Update(slot=1, began=3, committed=4)], "overlap"),
        ([Update(slot=1, began=1, committed=5), Update(slot=2, began=3, committed=8)], "overlap"),
        ([Update(slot=2, began=1, committed=2), Update(slot=1, began=3, committed=4)], "overlap"),
        ([Update(slot=s, began=s, committed=s, admitted={7: 9}) for s in (1, 2)], "update 2 admits 7 again"),
    ],
)
def test_a_recording_that_one_writer_cannot_have_made_is_refused(updates: list[Update], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        check(updates, [])


@pytest.mark.parametrize("times", [(2, 1, 3), (1, 3, 2)])
def test_a_read_whose_times_are_out_of_order_is_refused(times: tuple[int, int, int]) -> None:
    with pytest.raises(ValueError, match="in this order"):
        check(UPDATES, [read((), clock=None, times=times)])


# --- Simulated readers ----------------------------------------------------------------------------------------------

GROUPS, COHORTS = 2, 3
Cell = tuple[int, int]
Steps = list[tuple[int, list[int]]]  # per update: ticks, and the lifetimes of what it admits (0: expired on arrival)
steps = st.lists(st.tuples(st.integers(1, 3), st.lists(st.integers(0, 6), max_size=5)), max_size=10)


@dataclass(frozen=True)
class Stream:
    """A recorded stream, with what no recording knows: the instant at which each commit took effect."""

    updates: list[Update]
    instants: list[int]
    cells: dict[int, Cell]

    def state(self, time: int) -> int:
        """Return how many updates had taken effect."""
        return bisect_right(self.instants, time)

    def clock(self, state: int) -> int | None:
        return self.updates[state - 1].slot if state else None

    def arrived(self, state: int) -> dict[int, int]:
        """Return the expiration slots of all that was admitted so far."""
        return {id: expires for update in self.updates[:state] for id, expires in update.admitted.items()}

    def window(self, state: int) -> list[int]:
        clock = self.clock(state)
        return [id for id, expires in self.arrived(state).items() if clock is not None and expires > clock]

    def cell(self, state: int, cell: Cell) -> list[int]:
        return [id for id in self.window(state) if self.cells[id] == cell]


def played(steps: Steps, random: Random) -> Stream:
    """Let updates happen at random times; pauses of 0 make times meet."""
    updates, instants, cells, time, slot = list[Update](), list[int](), dict[int, Cell](), 0, 0
    for ticks, lifetimes in steps:
        slot += ticks
        began = time + random.randrange(6)
        instant = began + random.randrange(4)
        time = instant + random.randrange(4)
        admitted = {len(cells) + i: slot + life for i, life in enumerate(lifetimes)}
        cells |= {id: (slot % GROUPS, expires % COHORTS) for id, expires in admitted.items()}
        updates.append(Update(slot=slot, began=began, committed=time, admitted=admitted))
        instants.append(instant)
    return Stream(updates, instants, cells)


@dataclass(frozen=True)
class Moments:
    """When a read began, looked at the log for the last time, and ended."""

    began: int
    checked: int
    ended: int


Reader = Callable[[Stream, Moments, Random], tuple[Level, int, list[int]]]  # its level, the state it claims, its ids


def window_reader(stream: Stream, at: Moments, random: Random) -> tuple[Level, int, list[int]]:
    state = stream.state(random.randint(at.began, at.ended))
    return "window", state, stream.window(state)


def latest_reader(stream: Stream, at: Moments, random: Random) -> tuple[Level, int, list[int]]:
    state = stream.state(random.randint(at.checked, at.ended))
    return "latest", state, stream.window(state)


def no_pin(stream: Stream, at: Moments, random: Random) -> tuple[Level, int, list[int]]:
    """Read cell after cell, each as it is when its turn comes."""
    times = sorted(random.randint(at.began, at.ended) for _ in range(GROUPS * COHORTS))
    turns = random.sample([(g, e) for g in range(GROUPS) for e in range(COHORTS)], GROUPS * COHORTS)
    ids = [id for time, cell in zip(times, turns, strict=True) for id in stream.cell(stream.state(time), cell)]
    return "window", stream.state(at.began), ids


def pin_per_cell(stream: Stream, at: Moments, random: Random) -> tuple[Level, int, list[int]]:
    """Read each cell at a clock of its own, possibly from before the read."""
    now = stream.state(at.ended)
    ids = [
        id
        for g in range(GROUPS)
        for e in range(COHORTS)
        for id in stream.cell(random.randint(max(0, now - 2), now), (g, e))
    ]
    return "window", now, ids


def no_validation(stream: Stream, at: Moments, random: Random) -> tuple[Level, int, list[int]]:
    """Say that it is the latest window, and return that of the beginning."""
    state = stream.state(at.began)
    return "latest", state, stream.window(state)


def expired_shown(stream: Stream, at: Moments, random: Random) -> tuple[Level, int, list[int]]:
    """Forget to hide what has expired and was not purged yet."""
    level, state, _ = latest_reader(stream, at, random)
    return level, state, list(stream.arrived(state))


def lost_cell(stream: Stream, at: Moments, random: Random) -> tuple[Level, int, list[int]]:
    level, state, ids = latest_reader(stream, at, random)
    lost = (random.randrange(GROUPS), random.randrange(COHORTS))
    return level, state, [id for id in ids if stream.cells[id] != lost]


def cell_twice(stream: Stream, at: Moments, random: Random) -> tuple[Level, int, list[int]]:
    """Read a cell both before and after it was written again."""
    level, state, ids = window_reader(stream, at, random)
    return level, state, ids + stream.cell(state, (random.randrange(GROUPS), random.randrange(COHORTS)))


def wrong_claim(stream: Stream, at: Moments, random: Random) -> tuple[Level, int, list[int]]:
    """Return one window and name the clock of another."""
    level, _, ids = window_reader(stream, at, random)
    return level, random.randint(0, len(stream.updates)), ids


def old_copy(stream: Stream, at: Moments, random: Random) -> tuple[Level, int, list[int]]:
    """Return a window that was read earlier and kept."""
    state = max(0, stream.state(at.began) - 2)
    return "window", state, stream.window(state)


def wrong_times(stream: Stream, at: Moments, random: Random) -> tuple[Level, int, list[int]]:
    """Return a window that nobody can have read yet: somebody's watch is wrong."""
    state = min(stream.state(at.ended) + 2, len(stream.updates))
    return "latest", state, stream.window(state)


RIGHT: tuple[Reader, ...] = (window_reader, latest_reader)
BROKEN: dict[Reader, Rule] = {
    no_pin: Rule.ONE_WINDOW,
    pin_per_cell: Rule.ONE_WINDOW,
    no_validation: Rule.NOT_BEFORE_ITS_COMMIT,
    expired_shown: Rule.ONE_WINDOW,
    lost_cell: Rule.ONE_WINDOW,
    cell_twice: Rule.ONE_WINDOW,
    wrong_claim: Rule.CLAIMED_CLOCK,
    old_copy: Rule.NOT_BEFORE_ITS_BEGINNING,
    wrong_times: Rule.NOT_FROM_THE_FUTURE,
}


def simulated(stream: Stream, reader: Reader, random: Random, count: int = 12) -> Iterator[Read]:
    end = stream.updates[-1].committed + 5 if stream.updates else 5
    for number in range(count):
        at = Moments(*sorted(random.randint(0, end) for _ in range(3)))
        level, state, ids = reader(stream, at, random)
        yield Read(
            reader=f"{reader.__name__} {number}",
            began=at.began,
            checked=at.checked,
            ended=at.ended,
            level=level,
            clock=stream.clock(state),
            ids=tuple(random.sample(ids, len(ids))),
        )


def is_legal(stream: Stream, read: Read) -> bool:
    """Say the rules once more, one state at a time."""
    seen_by = read.checked if read.level == "latest" else read.began
    return any(
        Counter(stream.window(state)) == Counter(read.ids)
        and read.clock in {None, stream.clock(state)}
        and all(update.began <= read.ended for update in stream.updates[:state])
        and not any(update.committed < seen_by for update in stream.updates[state:])
        for state in range(len(stream.updates) + 1)
    )


@pytest.mark.parametrize("reader", RIGHT)
@laws
@given(steps=steps, seed=seeds)
@example(steps=[], seed=0)
def test_a_right_reader_is_never_flagged(reader: Reader, steps: Steps, seed: int) -> None:
    random = Random(seed)
    stream = played(steps, random)

    assert not check(stream.updates, simulated(stream, reader, random))


@pytest.mark.parametrize("reader", BROKEN)
@laws
@given(steps=steps, seed=seeds)
def test_a_broken_reader_is_flagged_whenever_what_it_returned_is_no_legal_window(
    reader: Reader, steps: Steps, seed: int
) -> None:
    random = Random(seed)
    stream = played(steps, random)
    reads = list(simulated(stream, reader, random))

    flagged = {violation.reader for violation in check(stream.updates, reads)}

    assert flagged == {read.reader for read in reads if not is_legal(stream, read)}


@pytest.mark.parametrize("reader", BROKEN)
def test_every_kind_of_broken_reader_is_caught_often_and_for_its_own_fault(reader: Reader) -> None:
    """The law above would also hold if nothing were ever wrong."""
    caught = Counter[Rule]()
    for seed in range(100):
        random = Random(seed)
        steps = [(random.randint(1, 2), [random.randint(1, 6) for _ in range(4)]) for _ in range(10)]
        stream = played(steps, random)
        caught.update(violation.rule for violation in check(stream.updates, simulated(stream, reader, random)))

    assert caught[BROKEN[reader]] >= 300, f"{caught} in 1200 reads with seeds 0 to 99"
