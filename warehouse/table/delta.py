"""Delta tables as delta-rs opens them, and the translation of what it raises."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError

from ebb.warehouse.store.errors import RESTORE, read_error, refusal

__all__ = ["delta_errors", "metadata_of", "open_delta"]


def open_delta(folder: Path, what: str, *, damaged: str = RESTORE, version: int | None = None) -> DeltaTable | None:
    """Return a Delta table at its newest version or an older one; None if there is none.

    ``what`` is like "the log of table t"; it cannot be read then.
    """
    with delta_errors(what, folder, damaged=damaged):
        try:
            return DeltaTable(folder, version=version)
        except TableNotFoundError as error:
            if refusal(error):  # it is called so even if nobody was allowed to look
                raise
            return None


def metadata_of(about: Any, schema: str) -> dict[str, Any]:
    """Return what a Delta table says about itself as its log has it; ``about`` is what delta-rs tells of it."""
    return {
        "id": str(about.id),
        "name": about.name,
        "description": about.description,
        "format": {"provider": "parquet", "options": {}},
        "schemaString": schema,
        "partitionColumns": about.partition_columns,
        "createdTime": about.created_time,
        "configuration": about.configuration,
    }


@contextmanager
def delta_errors(what: str, folder: Path, *, damaged: str = RESTORE) -> Iterator[None]:
    """Translate what delta-rs raises while it reads."""
    try:
        yield
    except (DeltaError, OSError) as error:
        raise read_error(error, what, folder, damaged=damaged) from error
    except BaseException as error:
        if type(error).__name__ != "PanicException":  # of Rust, and of no module that can be imported
            raise
        raise read_error(error, what, folder, damaged=damaged) from error
