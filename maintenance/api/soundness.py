"""One table from Python: whether it is as it should be, and what can be done about it if it is not."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ebb.maintenance.adopt import Adoption, adopt
from ebb.maintenance.values import Wait
from ebb.warehouse.table.snapshot import Table

if TYPE_CHECKING:
    from ebb.maintenance.api.warehouse import Warehouse
    from ebb.maintenance.inspect.check import Checked
    from ebb.maintenance.repair import Repaired

__all__ = ["Soundness"]


class Soundness:
    """The part of a table that tells whether it is as it should be, and puts it in order."""

    warehouse: Warehouse
    table: Table

    def check(self, *, deep: bool = False, progress: Callable[[str], None] = lambda _: None) -> Checked:
        """Derive everything that is promised of what is on disk from disk alone, and tell what does not hold.

        Changes nothing and waits for nobody. ``deep``: every byte and every record, in the time of a few scans.
        """
        from ebb.maintenance.inspect.check import check

        return check(self.table, self.warehouse.now(), deep=deep, progress=progress)

    def repair(self, *, confirm_restore: bool = False, wait: Wait = None, dry_run: bool = False) -> Repaired:
        """Put in order what a check finds and what needs no guess; ``confirm_restore``: the log is whole as it is."""
        from ebb.maintenance.repair import repair

        return repair(self.table, self.warehouse.context(wait=wait, dry_run=dry_run), confirm_restore=confirm_restore)

    def adopt(
        self,
        *,
        yes: bool = False,
        wait: Wait = None,
        dry_run: bool = False,
        progress: Callable[[str], None] = lambda _: None,
    ) -> Adoption:
        """Make what other tools did to the table part of it: checked, counted anew, recorded in one commit.

        ``yes``: go on also without commits that the log lacks, or without knowing whether it lacks any.
        """
        return adopt(self.table, self.warehouse.context(wait=wait, dry_run=dry_run, progress=progress), yes=yes)
