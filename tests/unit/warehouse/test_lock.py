"""One holder at a time, also when what is locked is dropped and made anew while somebody waits."""

from __future__ import annotations

import threading
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from ebb.index.errors import LockedError, UnknownTableError
from ebb.warehouse.store.lock import locked
from ebb.warehouse.table.catalog import drop_table
from tests.builders import integer_table, open_warehouse


def test_who_waits_for_what_is_dropped_and_made_anew_waits_for_the_new_one(tmp_path: Path) -> None:
    """The lock of the old file was taken for that of the new one, and two writers worked at once."""
    file, other = tmp_path / "lock", tmp_path / "other"
    held: list[str] = []

    def wait() -> None:
        with locked(file, "it", wait=20):
            held.append("second")

    waiting = threading.Thread(target=wait)
    with ExitStack() as new:
        with locked(file, "it"):
            waiting.start()
            time.sleep(0.2)
            other.touch()
            other.replace(file)
            new.enter_context(locked(file, "it"))
        held.append("first")
        time.sleep(0.3)
        assert held == ["first"]
    waiting.join(20)

    assert held == ["first", "second"]


def test_who_waits_for_a_table_that_is_dropped_is_told_and_makes_no_folder(tmp_path: Path) -> None:
    warehouse = open_warehouse(tmp_path / "w")
    table = integer_table(warehouse).table
    errors: list[Exception] = []

    def wait() -> None:
        try:
            with table.lock(wait=1):
                pass
        except (UnknownTableError, LockedError) as error:
            errors.append(error)

    waiting = threading.Thread(target=wait)
    with table.lock():
        waiting.start()
        time.sleep(0.2)
        drop_table(table)
    waiting.join(20)

    assert [type(error) for error in errors] == [UnknownTableError]
    assert not table.folder.exists()


def test_a_holder_that_did_not_end_in_order_is_noticed_once_it_is_settled(tmp_path: Path) -> None:
    file = tmp_path / "lock"
    with pytest.raises(RuntimeError), locked(file, "it"):
        raise RuntimeError

    with locked(file, "it") as lock:
        assert not lock.is_in_order
    with locked(file, "it") as lock:
        assert not lock.is_in_order, "nobody has said that what was left is removed"
        lock.is_in_order = True
    with locked(file, "it") as lock:
        assert lock.is_in_order


@pytest.mark.parametrize("card", [b"[1]", b"7", b"null", b"[" * 4000, b"\xff", b'{"pid": 1}', b"x"])
def test_a_card_that_names_nobody_is_another_process(tmp_path: Path, card: bytes) -> None:
    file = tmp_path / "lock"
    with locked(file, "it"):
        file.write_bytes(card)

        with pytest.raises(LockedError, match="it is being written by another process"), locked(file, "it"):
            pass
