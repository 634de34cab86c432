"""What the operating system refuses and what engines raise, told apart and with a next step."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pyarrow as pa
import pytest

from ebb.index.errors import CorruptionError, EngineError
from ebb.warehouse.parquet.datafile import read_errors
from ebb.warehouse.spark.errors import dump_error, load_error
from ebb.warehouse.store.errors import disk_error, disk_errors, first_line, read_error, refusal
from ebb.warehouse.table.delta import delta_errors
from ebb.warehouse.table.log import LogEntry

REFUSED = [
    (errno.EACCES, "permission denied", "give this user access to it"),
    (errno.EPERM, "permission denied", "give this user access to it"),
    (errno.EMFILE, "this process has too many open files", "raise its limit (ulimit -n) and run it again"),
    (errno.ENFILE, "this machine has too many open files", "close other programs and run it again"),
    (errno.EROFS, "the file system is read-only", "make it writable and run it again"),
    (errno.ENOSPC, "the disk is full", "make room and run it again"),
    (errno.EDQUOT, "the disk is full", "make room and run it again"),
    (errno.EIO, "the disk reports an error", "check the disk and run it again"),
    (errno.ENOMEM, "there is not enough memory", "give the process more and run it again"),
]  # fmt: skip


def system_error(number: int) -> OSError:
    return OSError(number, os.strerror(number), "/some/file")


@pytest.mark.parametrize(("number", "reason", "step"), REFUSED)
def test_each_refusal_is_told_apart_and_has_a_next_step(number: int, reason: str, step: str) -> None:
    error = disk_error(system_error(number), "it cannot be done")

    assert error.args == ("it cannot be done", reason, step)


@pytest.mark.parametrize(("number", "reason", "step"), REFUSED)
def test_a_refusal_that_an_engine_hands_on_as_text_is_known(number: int, reason: str, step: str) -> None:
    rust = f"Kernel error -> Generic LocalFileSystem error\n   ↳ Unable to open file x\n   ↳ {os.strerror(number)} (os error {number})\n"
    java = (
        f"java.io.FileNotFoundException: /w/t/x ({os.strerror(number)})\n\tat java.base/java.io.FileInputStream.open0"
    )

    assert refusal(OSError(rust)) == refusal(RuntimeError(java)) == (reason, step)


@pytest.mark.parametrize("number", [errno.EACCES, errno.EMFILE, errno.ENFILE, errno.EIO])
def test_a_data_file_that_cannot_be_opened_is_not_called_damaged(number: int) -> None:
    """It was: restore it from a backup, said a process that had too many files open."""
    with (
        pytest.raises(EngineError, match=r"^a data file cannot be read: u1/x\.parquet: ") as caught,
        read_errors("u1/x.parquet"),
    ):
        raise system_error(number)

    assert "backup" not in str(caught.value)


@pytest.mark.parametrize(
    "error", [system_error(errno.EISDIR), OSError("Couldn't deserialize thrift"), pa.ArrowInvalid("bad page")]
)
def test_a_data_file_that_is_something_else_is_damaged(error: Exception) -> None:
    with (
        pytest.raises(CorruptionError, match=r"^a data file is damaged: x \(.*\); restore it from a backup$"),
        read_errors("x"),
    ):
        raise error


def test_a_data_file_that_is_gone_is_missing() -> None:
    with pytest.raises(CorruptionError, match=r"^a data file is missing: x; restore it"), read_errors("x"):
        raise system_error(errno.ENOENT)


def test_only_the_first_line_of_an_engine_is_shown() -> None:
    """Thirteen lines of addresses came with it."""
    told = "Kernel error: Json error: Truncated record\n" + "".join(f"  {n}: <unknown>\n" for n in range(13))

    error = read_error(RuntimeError(told), "the log of table t", "/w/t")

    assert str(error) == "the log of table t is damaged: /w/t (Json error: Truncated record); restore it from a backup"


@pytest.mark.parametrize("text", ["", "\n \n"])
def test_an_error_without_words_has_its_name(text: str) -> None:
    assert first_line(KeyError()) == "KeyError"
    assert first_line(RuntimeError(text)) == "RuntimeError"


def test_a_line_without_end_is_cut() -> None:
    assert len(first_line(RuntimeError("x" * 10_000))) == 200


def test_a_panic_of_rust_is_an_error_like_others() -> None:
    """It is no Exception: nothing else would catch it."""
    panic = type("PanicException", (BaseException,), {})

    with (
        pytest.raises(EngineError, match="this process has too many open files"),
        delta_errors("the log of table t", Path("t")),
    ):
        raise panic('Failed to create a tokio runtime.: Os { code: 24, message: "Too many open files" }')


def test_a_signal_is_not_taken_for_an_error_of_delta() -> None:
    with pytest.raises(KeyboardInterrupt), delta_errors("the log of table t", Path("t")):
        raise KeyboardInterrupt


def test_other_exceptions_than_those_of_the_disk_pass() -> None:
    with pytest.raises(ZeroDivisionError), disk_errors("it cannot be done"):
        raise ZeroDivisionError


@pytest.mark.parametrize("content", [b"{", b"\xff", b'{"add": 7}', b'{"commitInfo": {"ebb": "{"}}', b"7"])
def test_a_log_entry_that_is_no_log_entry_is_damaged(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "00000000000000000007.json").write_bytes(content)

    with pytest.raises(CorruptionError, match=r"^a log entry is damaged: 0+7\.json \(.*\); restore it from a backup$"):
        LogEntry.read(tmp_path, 7)


@pytest.mark.parametrize(
    "error",
    [CorruptionError("a data file is damaged", "u1/x.parquet", "restore it"), EngineError("a", "b", "c")],
    ids=lambda error: type(error).__name__,
)
def test_an_error_of_a_task_is_the_same_in_the_driver(error: EngineError) -> None:
    copy = load_error(dump_error(error))

    assert (type(copy), copy.args) == (type(error), error.args)
