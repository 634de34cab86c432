"""What somebody asked to be done to records, as a hash for the log.

The log outlives the records, so it may hold neither keys nor conditions. Who knows what was asked can show that it was
this; who does not has to guess, and every guess costs as much as a password's. Pure.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Mapping
from typing import Any

__all__ = ["asked_hash", "is_asked"]


def asked_hash(asked: Mapping[str, Any], salt: str) -> str:
    """Return the salt and the hash of a request, as JSON has it with sorted names and no blanks.

    >>> asked_hash({"keys": [["K-77"]]}, "00ff")[:21]
    '00ff:8f743941a8e775fe'
    """
    text = json.dumps(dict(asked), separators=(",", ":"), sort_keys=True, ensure_ascii=False)
    hashed = hashlib.scrypt(text.encode(), salt=bytes.fromhex(salt), n=2**14, r=8, p=1, dklen=16)
    return f"{salt}:{hashed.hex()}"


def is_asked(asked: Mapping[str, Any], told: str) -> bool:
    """Whether a request is the one that a commit tells of.

    >>> is_asked({"keys": [["K-77"]]}, asked_hash({"keys": [["K-77"]]}, "00ff"))
    True
    """
    return hmac.compare_digest(asked_hash(asked, told.split(":", 1)[0]), told)
