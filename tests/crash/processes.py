"""Real processes for the crash tests: starting them, hearing them, finding their JVM, killing either."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

__all__ = ["ROOT", "Process", "java_of", "until", "wait_for_end"]

ROOT = Path(__file__).parents[2]
T = TypeVar("T")


def until(look: Callable[[], T | None], *, seconds: float = 60.0, what: str = "it") -> T:
    """Look again and again until there is something, and return that."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        found = look()
        if found:
            return found
        time.sleep(0.001)
    msg = f"{what} did not happen within {seconds:g} s"
    raise AssertionError(msg)


def java_of(pid: int) -> int | None:
    """Return the JVM that a process has started."""
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                text = Path("/proc", entry, "stat").read_text(encoding="utf-8")
            except OSError:
                continue
            name, rest = text[text.index("(") + 1 : text.rindex(")")], text[text.rindex(")") + 2 :].split()
            if name == "java" and int(rest[1]) == pid and rest[0] != "Z":
                return int(entry)
    return None


def wait_for_end(pid: int | None) -> None:
    """Wait until a process that is not our child has ended."""
    until(lambda: pid is None or not os.path.exists(f"/proc/{pid}"), seconds=20, what=f"the end of process {pid}")


class Process:
    """A process whose lines are heard as they come."""

    def __init__(self, command: Sequence[str], *, env: Mapping[str, str] | None = None, cwd: Path = ROOT) -> None:
        self.process = subprocess.Popen(
            [sys.executable, *command],
            cwd=cwd,
            env={**os.environ, "PYTHONPATH": str(ROOT), **(env or {})},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.lines: list[str] = []
        self.errors: list[str] = []
        self._hearing = [
            threading.Thread(target=self._hear, args=(self.process.stdout, self.lines), daemon=True),
            threading.Thread(target=self._hear, args=(self.process.stderr, self.errors), daemon=True),
        ]
        for thread in self._hearing:
            thread.start()

    @staticmethod
    def _hear(stream: Sequence[str], into: list[str]) -> None:
        into.extend(line.rstrip("\n") for line in stream)

    def tell(self, text: object) -> None:
        """Write a line to its standard input."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{text}\n")
        self.process.stdin.flush()

    def heard(self, *starts: str, seconds: float = 60.0) -> str:
        """Wait for a line that starts like this, or for the end of the process; return the line, or ''."""

        def look() -> str | None:
            ended = self.process.poll() is not None
            if ended:
                for thread in self._hearing:
                    thread.join()
            return next((line for line in self.lines if line.startswith(starts)), "-" if ended else None)

        line = until(look, seconds=seconds, what=f"a line {' or '.join(starts)}")
        return "" if line == "-" else line

    def kill(self, victim: str) -> None:
        """Send SIGKILL to ``python``, to its ``jvm``, or to ``both``."""
        java = java_of(self.process.pid)
        if victim in ("python", "both"):
            self.process.kill()
        if victim in ("jvm", "both") and java is not None:
            os.kill(java, signal.SIGKILL)

    def end(self, seconds: float = 30.0) -> int:
        """Close its standard input, wait for the end and return the exit code."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        try:
            code = self.process.wait(seconds)
        finally:
            self.process.kill()
            for thread in self._hearing:
                thread.join()
        return code
