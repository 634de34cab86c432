"""What may happen next in a soak: a function each, with how often it is drawn beside it.

A step does one thing to the table of a story, through a process or here, and notes in the story what it was told. What must be
true afterwards is looked at by the caller, after every step.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable

import pytest

from ebb.index.errors import AppliedSlotError, HeldError, JumpError, WarehouseError
from tests.builders import arrow_batch, open_warehouse, scanned_ids, write_batch
from tests.crash.processes import Process, java_of, until, wait_for_end
from tests.crash.worker import key_of
from tests.faults import Interruption, armed, broken_disk, full_disk
from tests.model import Record
from tests.soak.world import Story

__all__ = ["CHANGES", "STEPS", "WITH_JAVA", "Step"]

Step = Callable[[Story], None]
_CHANGES = 60  # of files, that an update makes at most or nearly so
_WAIT = 60.0  # seconds for a process to answer


# --- Updates --------------------------------------------------------------------------------------------------------


def update_from_arrow(story: Story) -> None:
    """Admit a batch that this process has in memory."""
    slot = story.next_slot()
    _, batch = story.batch(slot)
    with story.updating(slot, batch):
        story.acknowledged(story.open().update(arrow_batch(batch), at=slot).version)


def update_by_command(story: Story) -> None:
    """Admit a batch by the command line; once in a while after a tick that nobody asked for."""
    slot = story.next_slot(story.world.rng.choice((1, 1, 1, 2)))
    file, batch = story.batch(slot)
    with story.updating(slot, batch):
        command = story.world.command("update", "t", str(file), "--at", str(slot), "--catch-up", "--json")
        assert command.end(_WAIT) == 0, command.errors
        told = json.loads(command.lines[-1])
        assert told["received"] == len(batch)
        story.acknowledged(told["version"])


def tick(story: Story) -> None:
    """Let the clock go on without records."""
    slot = story.next_slot()
    with story.updating(slot, []):
        story.acknowledged(story.open().update(at=slot).version)


def repeat(story: Story) -> None:
    """Hand in the last batch again, in another order: nothing may change."""
    slot = story.model.clock
    file = story.batches / f"b{slot}.parquet"
    if slot is None or not file.exists():
        return
    before = story.open().table.snapshot().version
    assert story.open().update(file, at=slot, engine="direct").already_applied
    assert story.open().table.snapshot().version == before
    story.world.figures["repeats"] += 1


def refuse(story: Story) -> None:
    """Ask for what must be refused: other content for an applied slot, a clock that goes back, a jump; nothing may change."""
    clock = story.model.clock
    if clock is None:
        return
    before = story.open().table.snapshot().version
    other = arrow_batch([Record(10**9 + clock, "other", clock - 1, clock + 3)])
    with pytest.raises(AppliedSlotError):
        story.open().update(other, at=clock)
    with pytest.raises(AppliedSlotError):
        story.open().update(other, at=clock - 1)
    with pytest.raises(JumpError):
        story.open().update(other, at=clock + 365)
    assert story.open().table.snapshot().version == before
    story.world.figures["refusals"] += 3


def upkeep(story: Story) -> None:
    """Seal, purge or erase; no answer may change."""
    what = story.world.rng.choice(("seal", "purge", "erase"))
    getattr(story.open(), what)()
    story.acknowledged(story.open().table.snapshot().version)
    story.world.figures[what] += 1


def alter(story: Story) -> None:
    """Change a declaration, in a commit like any other."""
    story.open().alter(deletion_bound=story.world.rng.choice((60, 61, 62)))
    story.acknowledged(story.open().table.snapshot().version)


# --- Requests about records, and backups ------------------------------------------------------------------------------


def _some_key(story: Story) -> tuple[str, Callable[[Record], bool]]:
    key = key_of(story.world.rng.randrange(9))
    return key, lambda record: record.key == key


def forget(story: Story) -> None:
    """Forget a key: its records go, but for those that a case holds, for which it is refused."""
    if story.model.clock is None:
        return
    key, is_chosen = _some_key(story)
    if story.model.held() & {record.id for record in story.model.kept if is_chosen(record)}:
        with pytest.raises(HeldError):
            story.open().forget(key, within=0)
        return
    done = story.open().forget(key, within=0)
    assert done.records == len(story.model.forget(is_chosen))
    story.acknowledged(done.version)
    story.world.figures["forgotten records"] += done.records


def amend(story: Story) -> None:
    """Let the records of a key expire in the next tick but one, unless a case holds one of them."""
    clock = story.model.clock
    if clock is None:
        return
    key, is_chosen = _some_key(story)
    if story.model.held() & {r.id for r in story.model.window() if is_chosen(r) and r.expires != clock + 2}:
        with pytest.raises(HeldError):
            story.open().amend(key, expires=clock + 2)
        return
    done = story.open().amend(key, expires=clock + 2)
    assert done.records == len(story.model.amend(is_chosen, clock + 2))
    story.acknowledged(done.version)
    story.world.figures["amended records"] += done.records


def hold_or_release(story: Story) -> None:
    """Hold a key for a case, perhaps with what arrives, or let a case go."""
    if story.model.clock is None:
        return
    rng = story.world.rng
    if story.model.holds and rng.random() < 0.6:
        case = rng.choice(sorted(story.model.holds))
        story.acknowledged(story.open().release(case).version)
        story.model.release(case)
        story.world.figures["releases"] += 1
        return
    key, is_chosen = _some_key(story)
    case, arrivals = f"case-{story.world.figures['holds']}", rng.random() < 0.5
    story.acknowledged(story.open().hold(key, case=case, arrivals=arrivals).version)
    story.model.hold(case, is_chosen, arrivals=arrivals)
    story.world.figures["holds"] += 1


def back_up_and_restore(story: Story) -> None:
    """Back up; then bring it back under another name: it is what the table is now."""
    if story.model.clock is None:
        return
    warehouse = open_warehouse(story.world.root)
    story.open().backup(story.world.backups)
    warehouse.restore(story.world.backups, "t", new_name="again")
    assert scanned_ids(warehouse.table("again")) == sorted(record.id for record in story.model.window())
    for case in list(story.model.holds):
        warehouse.table("again").release(case)
    warehouse.drop("again")
    story.acknowledged(story.open().table.snapshot().version)
    story.world.figures["backups restored"] += 1


# --- What goes wrong ------------------------------------------------------------------------------------------------


def kill_at_a_change(story: Story) -> None:
    """Let a process kill itself before it makes some change to a file: of an update, or of upkeep."""
    rng, worker = story.world.rng, story.working()
    slot = story.next_slot()
    _, batch = story.batch(slot)
    what = rng.choice((str(slot), str(slot), str(slot), "seal", "purge", "erase"))
    with story.updating(slot, batch if what == str(slot) else []):
        worker.tell(f"{what} {rng.randrange(_CHANGES)}")
        said = worker.heard("ACK", "FAILED", "KILLED", seconds=_WAIT)
        if not said.startswith("ACK"):
            assert not said.startswith("FAILED"), said
            worker.process.wait(_WAIT)
            story.world.figures["kills"] += 1
    assert not said.startswith("ACK") or what != str(slot) or story.model.clock == slot, "an acknowledged batch is gone"
    if what == str(slot):
        _again(story, slot, batch)


def kill_at_any_moment(story: Story) -> None:
    """Kill a process after some time."""
    worker = story.working()
    slot = story.next_slot()
    _, batch = story.batch(slot)
    with story.updating(slot, batch):
        worker.tell(slot)
        time.sleep(story.world.rng.uniform(0, 0.08))
        worker.process.kill()
        worker.process.wait(_WAIT)
        story.world.figures["kills"] += 1
    said = worker.heard("ACK", "FAILED", seconds=_WAIT)
    assert not said or story.model.clock == slot, "an acknowledged batch is gone"
    _again(story, slot, batch)


def _again(story: Story, slot: int, batch: list[Record]) -> None:
    """Hand a batch in again that may have been applied, and hear which it was."""
    story.look()
    was_applied = story.model.clock == slot
    with story.updating(slot, batch):
        worker = story.working()
        worker.tell(slot)
        said = worker.heard("ACK", "FAILED", seconds=_WAIT)
    assert said == f"ACK {slot} {'already' if was_applied else 'applied'}", (said, worker.errors)
    assert story.model.clock == slot
    story.world.figures["after kills already applied" if was_applied else "after kills applied"] += 1


def interrupt_a_command(story: Story) -> None:
    """Press Ctrl-C, or end a command; its exit code says what happened."""
    slot = story.next_slot()
    file, batch = story.batch(slot)
    with story.updating(slot, batch):
        command = story.world.command("update", "t", str(file), "--at", str(slot))
        _wait_for_lock(story, command)
        time.sleep(story.world.rng.uniform(0, 0.05))
        command.process.send_signal(story.world.rng.choice((signal.SIGINT, signal.SIGTERM)))
        code = command.end(_WAIT)
    assert code in (0, 130, 143), (code, command.errors)
    assert code or story.model.clock == slot
    assert "Traceback" not in "".join(command.errors), command.errors
    story.world.figures["interruptions"] += 1


def _wait_for_lock(story: Story, command: Process) -> None:
    """Wait until a command has begun to write."""
    lock, mine = story.world.root / "t/_ebb/lock", f'"pid": {command.process.pid},'
    until(lambda: command.process.poll() is not None or mine in lock.read_text(encoding="utf-8"), what="the lock")


def break_the_disk(story: Story) -> None:
    """Let the disk refuse something, or a signal come, while this process updates."""
    rng = story.world.rng
    slot = story.next_slot()
    _, batch = story.batch(slot)
    error = rng.choice((full_disk, broken_disk, Interruption))()
    with story.updating(slot, batch), armed(story.world.root, error, rng.randrange(2 * _CHANGES)):
        try:
            story.open().update(arrow_batch(batch), at=slot)
        except (Interruption, WarehouseError) as told:
            said = str(told)
        else:
            said = "done"
    assert story.model.clock == slot or said != "done"
    assert story.model.clock != slot or "nothing was changed" not in said
    story.world.figures["faults"] += 1


def change_readers(story: Story) -> None:
    """Kill a reader, and let another one begin."""
    if not story.readers:
        return
    story.judge_readers()
    reader = story.readers.pop(story.world.rng.randrange(len(story.readers)))
    reader.process.kill()
    reader.process.wait(_WAIT)
    story.add_reader()
    story.world.figures["readers killed"] += 1


# --- Landing folders and the wall clock -------------------------------------------------------------------------------


def land_and_run(story: Story) -> None:
    """Let files arrive for a table of their own, and runs be killed; each file is applied once in the end."""
    world = story.world
    landing, files = world.landing(), world.rng.randrange(1, 4)
    slot = world.landed_slot + 1
    for number in range(files):
        id = slot * 10 + number
        write_batch(landing / f"{slot}-{number}.parquet", [Record(id, "k", slot, slot + 3)])
        world.landed[id] = slot + 3
    world.landed_slot = slot
    killed = world.command("run", "--once", "--table", "landed")
    time.sleep(world.rng.uniform(0.2, 1.5))
    os.kill(killed.process.pid, signal.SIGKILL)
    killed.process.wait(_WAIT)
    run = world.command("run", "--once", "--table", "landed")
    assert run.end(_WAIT) == 0, run.errors
    world.check_landed()
    world.figures["landed files"] += files


def move_the_wall_clock(story: Story) -> None:
    """Set the wall clock back or forth: nothing is revived, hidden too early, or skipped without a word."""
    story.world.check_wall()


# --- With a JVM -----------------------------------------------------------------------------------------------------


def kill_spark(story: Story) -> None:
    """Kill Python, its JVM, or both while Spark takes a batch in; then hand it in again."""
    world, slot = story.world, story.next_slot()
    _, batch = story.batch(slot)
    victim = world.rng.choice(("python", "jvm", "both"))
    with story.updating(slot, batch):
        worker = world.process("tests.crash.worker", str(world.root), str(story.batches))
        assert worker.heard("READY", seconds=4 * _WAIT) == "READY", worker.errors
        java = java_of(worker.process.pid)
        worker.tell(slot)
        time.sleep(world.rng.uniform(0, 4))
        worker.kill(victim)
        said = worker.heard(f"ACK {slot}", "FAILED", seconds=_WAIT)
        worker.kill("both")
        worker.end()
        wait_for_end(java)
        world.figures[f"kills of Spark: {victim}"] += 1
    assert not said.startswith("ACK") or story.model.clock == slot, "an acknowledged batch is gone"
    _again(story, slot, batch)


STEPS: dict[Step, int] = {
    update_from_arrow: 12,
    update_by_command: 3,
    tick: 6,
    repeat: 3,
    refuse: 2,
    upkeep: 6,
    alter: 1,
    kill_at_a_change: 6,
    kill_at_any_moment: 3,
    interrupt_a_command: 2,
    break_the_disk: 8,
    change_readers: 1,
    land_and_run: 2,
    move_the_wall_clock: 2,
    back_up_and_restore: 2,
}
CHANGES: dict[Step, int] = {forget: 3, amend: 3, hold_or_release: 4}
WITH_JAVA: dict[Step, int] = {kill_spark: 2}
