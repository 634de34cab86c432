"""A lease: the claim of a reading process on the files of one version, and what is written about it.  Pure.

It counts until its time is over, unless it is renewed: whoever dies stops to renew. What another host or a hostile
neighbour wrote is checked before it is believed.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass, fields, replace

from ebb.index.stored import members, number, number_or_none, text

__all__ = ["Ended", "Lease"]

_ID = re.compile("[0-9a-f]{12}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """What a process says about the version that it reads.  Times are milliseconds since 1970."""

    id: str
    version: int  # files that were removed after it stay
    clock: int | None  # of that version
    pid: int
    host: str
    user: str
    what: str  # what it does: a command, python, spark
    process: str  # tells the process from others that had or get its number, here or elsewhere
    since: int
    until: int

    def is_over(self, now_ms: float) -> bool:
        """Whether nobody has renewed it in time."""
        return self.until <= now_ms

    def renewed(self, until: int) -> Lease:
        """Return the lease with another end."""
        return replace(self, until=until)

    def dumps(self) -> bytes:
        """Write it: as long as before, if only its times are others."""
        return json.dumps(asdict(self)).encode()

    @staticmethod
    def loads(data: bytes, id: str) -> Lease:
        """Read what :meth:`dumps` wrote; ValueError if it is not the lease with this id.

        >>> lease = Lease(id="0123456789ab", version=7, clock=3, pid=9, host="h", user="u", what="scan", process="p",
        ...               since=1, until=2)
        >>> Lease.loads(lease.dumps(), lease.id) == lease, lease.is_over(2), lease.renewed(3).is_over(2)
        (True, True, False)
        """
        value = members(json.loads(data))
        if set(value) != {field.name for field in fields(Lease)} or value["id"] != id or not _ID.fullmatch(id):
            raise ValueError(id)
        for name in ("version", "pid", "since", "until"):
            number(value[name])
        for name in ("host", "user", "what", "process"):
            text(value[name])
        number_or_none(value["clock"])
        if value["pid"] <= 0:  # which would mean several processes
            raise ValueError(id)
        return Lease(**value)


@dataclass(frozen=True, slots=True)
class Ended:
    """When somebody else ended a lease, and why."""

    at: int
    why: str

    def dumps(self) -> bytes:
        """Write it."""
        return json.dumps(asdict(self)).encode()

    @staticmethod
    def loads(data: bytes) -> Ended:
        """Read what :meth:`dumps` wrote; ValueError if it is something else.

        >>> Ended.loads(Ended(7, "time is over").dumps())
        Ended(at=7, why='time is over')
        """
        value = members(json.loads(data))
        return Ended(number(value.get("at")), text(value.get("why")))
