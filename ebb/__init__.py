"""Ebb: a stream warehouse on Delta Lake and Spark in which every record carries its own expiration time.

>>> import ebb
>>> sorted(name for name in ebb.__all__ if name.islower())
['open']
"""

from typing import TYPE_CHECKING

from ebb.index.errors import (
    AdoptionError,
    AppliedSlotError,
    BadFilesError,
    ConflictError,
    CorruptionError,
    EngineError,
    ErasedError,
    ExpiredBatchError,
    FeatureError,
    ForeignCommitError,
    HeldError,
    InDoubtError,
    InputError,
    JumpError,
    LeaseEndedError,
    LockedError,
    LostHeadError,
    MassDeletionError,
    NotDueError,
    OverDeletionError,
    ProtocolError,
    RestoredError,
    RetryError,
    RolledBackError,
    SchemaDriftError,
    TableExistsError,
    TooLateError,
    UnknownTableError,
    UnreadableInputError,
    UnsyncedError,
    UpgradeError,
    UsageError,
    WarehouseError,
)
from ebb.index.foreign import ForeignCommitWarning
from ebb.index.head import LostHeadWarning

if TYPE_CHECKING:
    from ebb.maintenance.api.table import OpenTable
    from ebb.maintenance.api.warehouse import Warehouse
    from ebb.maintenance.api.warehouse import open_warehouse as open  # noqa: A004 - ebb.open reads well
    from ebb.maintenance.update import Report

__all__ = [
    "AdoptionError",
    "AppliedSlotError",
    "BadFilesError",
    "ConflictError",
    "CorruptionError",
    "EngineError",
    "ErasedError",
    "ExpiredBatchError",
    "FeatureError",
    "ForeignCommitError",
    "ForeignCommitWarning",
    "HeldError",
    "InDoubtError",
    "InputError",
    "JumpError",
    "LeaseEndedError",
    "LockedError",
    "LostHeadError",
    "LostHeadWarning",
    "MassDeletionError",
    "NotDueError",
    "OpenTable",
    "OverDeletionError",
    "ProtocolError",
    "Report",
    "RestoredError",
    "RetryError",
    "RolledBackError",
    "SchemaDriftError",
    "TableExistsError",
    "TooLateError",
    "UnknownTableError",
    "UnreadableInputError",
    "UnsyncedError",
    "UpgradeError",
    "UsageError",
    "Warehouse",
    "WarehouseError",
    "open",
]

_LATER = {"OpenTable": "api.table", "Warehouse": "api.warehouse", "open": "api.warehouse", "Report": "update"}


def __getattr__(name: str) -> object:
    # When it is first asked for: whoever starts a command should not wait for what it does not use.
    if name in _LATER:
        from importlib import import_module

        return getattr(import_module(f"ebb.maintenance.{_LATER[name]}"), name if name != "open" else "open_warehouse")
    msg = f"module 'ebb' has no attribute {name!r}"
    raise AttributeError(msg)
