"""Which records of which files a commit left out, as text for its log entry.

It says where they were and nothing of what was in them: once the files are gone, nobody can read them there. Pure.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Mapping, Sequence

from ebb.index.cellfile import Places
from ebb.index.stored import items, number, unpacked

__all__ = ["dump_places", "load_places"]

_MOST_BYTES = 256 * 1024 * 1024  # of places when they are unpacked: of some tens of millions of records


def dump_places(paths: Sequence[str], places: Mapping[str, Places]) -> str:
    """Write the places of records in files; ``paths``: the files in an order that the reader knows.

    >>> load_places(["a", "b"], dump_places(["a", "b"], {"b": {0: [3, 4], 7: [0]}}))
    {'b': {0: [3, 4], 7: [0]}}
    """
    told = [[[number, *_gaps(some)] for number, some in sorted(places.get(path, {}).items())] for path in paths]
    return base64.b85encode(zlib.compress(json.dumps(told, separators=(",", ":")).encode(), 6)).decode()


def load_places(paths: Sequence[str], text: str) -> dict[str, dict[int, list[int]]]:
    """Read what :func:`dump_places` wrote, for the same files; ValueError if it is damaged."""
    told = items(json.loads(unpacked(base64.b85decode(text), _MOST_BYTES)))
    return {
        path: {number(place): _added_up(gaps) for place, *gaps in map(items, some)}
        for path, some in zip(paths, map(items, told), strict=True)
        if some
    }


def _gaps(places: Sequence[int]) -> list[int]:
    """Return how far each place is from the one before: small numbers, which compress well."""
    found, before = [], 0
    for place in map(int, places):
        found.append(place - before)
        before = place
    return found


def _added_up(gaps: Sequence[int]) -> list[int]:
    found, place = [], 0
    for gap in gaps:
        place += number(gap)
        found.append(place)
    return found
