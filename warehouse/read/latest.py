"""Reads that reflect every update committed before they commit (isolation ``latest``).

Such a read starts as any other: it pins the newest window. When it has read everything, it looks at the log again.
If there are newer versions, it reads only what they added, records inserted after its clock in files that it has not
seen; files that were rebuilt, sealed or purged hold nothing else that is new. Only if records were amended or forgotten,
or another tool's work came or was adopted, does it begin anew. It repeats this until nothing has come,
and that look at the log is its commit: what has expired by then is hidden, and only then the first record is handed
out. Otherwise nothing is read twice, and nothing is aborted. After some rounds it waits for the writer once, so that it ends
under any stream of updates.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import IO

import pyarrow as pa
import pyarrow.compute as pc

from ebb.index.changes import KEEPING
from ebb.index.columns import EXPIRES_SLOT
from ebb.index.directory import Block, stripes
from ebb.index.errors import EngineError
from ebb.warehouse.parquet.arrow import Codes
from ebb.warehouse.parquet.order import in_key_order
from ebb.warehouse.read.request import Read
from ebb.warehouse.read.window import Window
from ebb.warehouse.store.errors import first_line

__all__ = ["LatestWindow"]

_ROUNDS = 8  # looks at the log before the writer is asked to wait
_WAIT_SECONDS = 60.0  # for an update that is running then
_MEMORY_BYTES = 64 * 1024 * 1024  # what is held in memory before the rest goes to a temporary file


@dataclass(frozen=True)
class LatestWindow(Window):
    """A window that moves on until its read commits.  Each read is on its own and may see a later one."""

    reopen: Callable[[], Window] = field(kw_only=True)

    def _reader(self, request: Read) -> pa.RecordBatchReader:
        spool = _Spool(self.snapshot.spec.key)
        marked = replace(request, with_marks=True)
        # A window that is kept may have been left behind: the newest is where a read starts.
        last = self.newest()
        spool.add(last.tables(marked))
        seen = {file.path for file in last.snapshot.files}
        with ExitStack() as quiet:
            for turn in range(_ROUNDS + 1):
                if turn == _ROUNDS:
                    quiet.enter_context(self.snapshot.table.lock(wait=_WAIT_SECONDS, is_foreign_fine=True))
                newest = self.reopen()
                self._check_same(newest)  # first: another table may well be at the same version
                if newest.version == last.version:
                    break
                if self._may_differ(last.version, newest.version):  # what was read may be other records now
                    spool = _Spool(self.snapshot.spec.key)
                    spool.add(newest.tables(marked))
                    seen, last = {file.path for file in newest.snapshot.files}, newest
                    continue
                after = last.clock
                added = [
                    f for f in newest.visible_files() if f.path not in seen and (after is None or f.max_ins > after)
                ]
                spool.add(newest.tables(replace(marked, after=after), added))
                seen.update(file.path for file in newest.snapshot.files)
                last = newest
        self.cost.version, self.cost.clock = last.version, last.clock
        return self.counted(request, spool.drain(request, last))

    def _may_differ(self, after: int, newest: int) -> bool:
        """Whether a commit after a version may have changed or removed records, or added some that are not new."""
        entries = (self.snapshot.table.entry(version) for version in range(after + 1, newest + 1))
        return any(entry is None or entry.ebb.get("op") not in KEEPING for entry in entries)

    def _check_same(self, newest: Window) -> None:
        if newest.snapshot.table_id != self.snapshot.table_id:
            name = self.snapshot.table.name
            raise EngineError(f"table {name} was dropped and created again", "while it was read", "run it again")


class _Spool:
    """What has been read and not handed out: runs of sorted tables, in memory and then in a file without a name."""

    def __init__(self, key: Sequence[str]) -> None:
        self.key = key
        self._tables: list[pa.Table | tuple[int, int]] = []  # a table, or where it lies in the file
        self._blocks: list[Block] = []
        self._memory_bytes = 0
        self._file: IO[bytes] | None = None

    def add(self, tables: Iterable[pa.Table]) -> None:
        """Take in one run."""
        for table in tables:
            place = len(self._tables)
            is_coded = all(name in table.column_names for name in self.key)
            codes = Codes(table, self.key) if is_coded else [b""]
            self._blocks.append(
                Block("", place, codes[0], codes[len(codes) - 1] + b"\x00", table.num_rows, table.nbytes)
            )
            self._tables.append(self._held(table))

    def _held(self, table: pa.Table) -> pa.Table | tuple[int, int]:
        if self._memory_bytes + table.nbytes <= _MEMORY_BYTES:
            self._memory_bytes += table.nbytes
            return table
        try:
            if self._file is None:
                self._file = tempfile.TemporaryFile(prefix="ebb-")  # noqa: SIM115 - lives as long as the spool
            start = self._file.tell()
            with pa.ipc.new_stream(self._file, table.schema) as stream:
                stream.write_table(table)
            return start, self._file.tell() - start
        except OSError as error:
            step = f"make room in {tempfile.gettempdir()}, or read with isolation window"
            reason = error.strerror or first_line(error)
            raise EngineError("the answer cannot be held until the read commits", reason, step) from error

    def _read(self, block: Block) -> pa.Table:
        held = self._tables[block.row_group]
        if not isinstance(held, tuple):
            return held
        assert self._file is not None  # noqa: S101 - written there
        self._file.seek(held[0])
        return pa.ipc.open_stream(self._file.read(held[1])).read_all()

    def drain(self, request: Read, window: Window) -> Iterator[pa.Table]:
        """Yield the records that are visible in the window of the commit, in order if they have one."""
        if request.is_probe:
            blocks = sorted(self._blocks, key=lambda block: block.start)
            sizes, order = window.finder.sizes, (*self.key, window.snapshot.spec.expires)
            cut = stripes(blocks, sizes.first_bytes, sizes.most_bytes, sizes.least_bytes)
            tables = in_key_order(cut, lambda stripe: [self._read(block) for block in stripe], self.key, order)
        else:
            tables = (self._read(block) for block in self._blocks)
        for table in tables:
            # What as_of hides was hidden when it was read; only the clock has moved since.
            visible = table.filter(pc.greater(table[EXPIRES_SLOT], window.clock)).select(request.columns)
            if visible.num_rows:
                yield visible
