"""One table from Python: its backups."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from ebb.maintenance.values import Wait, read_seconds
from ebb.warehouse.table.snapshot import Table

if TYPE_CHECKING:
    from ebb.maintenance.api.warehouse import Warehouse
    from ebb.maintenance.backup import Backup

__all__ = ["BackedUp"]


class BackedUp:
    """The part of a table that makes backups of it."""

    warehouse: Warehouse
    table: Table

    def backup(
        self,
        folder: str | Path,
        *,
        verify: bool = False,
        wait: Wait = None,
        dry_run: bool = False,
        progress: Callable[[str], None] = lambda _: None,
    ) -> Backup:
        """Copy the newest version into ``folder/NAME``, what is new of it; from then on Ebb looks after the backup.

        Records that expire leave it with the updates of the table. ``verify``: read all of it back, and make damaged
        copies anew.
        """
        from ebb.maintenance.backup import backup

        context = self.warehouse.context(wait=wait, dry_run=dry_run, progress=progress)
        return backup(self.table, folder, context, verify=verify)

    def stop_managing(self, folder: str | Path, *, wait: Wait = None) -> bool:
        """Look after the backup in ``folder/NAME`` no more; returns whether the table knew it.  What is there stays."""
        from ebb.maintenance.backup import stop_managing

        return stop_managing(self.table, folder, wait=read_seconds(wait))
