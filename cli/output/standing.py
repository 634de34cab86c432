"""Parts of a table's status as text: its live records, its backups."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ebb.cli.output.render import bytes_text, counted

if TYPE_CHECKING:
    from ebb.maintenance.inspect.backups import BackupStatus
    from ebb.maintenance.inspect.status import Status

__all__ = ["backup_texts", "live_text"]


def live_text(table: Status) -> str:
    """Return how many live records there are, and what else is in their files."""
    files = f"in {counted(table.files, 'file')}, {bytes_text(table.bytes)}"
    if table.live_records is None:
        return f"not known {files}"
    hidden = table.stored_records - table.live_records
    more = f"; {counted(hidden, 'expired one')} hidden" if hidden else ""
    return f"{counted(table.live_records, 'record')} {files}{more}"


def backup_texts(table: Status) -> dict[str, str]:
    """Return what is to be told of a table's backups, a line each."""
    return {"backup" + f" {number}" * (number > 1): _backup(one) for number, one in enumerate(table.backups, 1)}


def _backup(backup: BackupStatus) -> str:
    text = f"{backup.place}: " + (
        "not finished" if backup.age is None else f"version {backup.version}, {backup.age} old"
    )
    text += "" if backup.is_reachable else ", cannot be reached"
    text += ", may hold records that were forgotten" if backup.is_stale else ""
    return text if backup.overdue is None else f"{text}, holds records that expired {backup.overdue} ago"
