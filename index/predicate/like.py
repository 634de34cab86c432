"""Patterns of ``like``: texts with wildcards between them.  Case sensitive; a character is a code point.  Pure."""

from __future__ import annotations

from enum import Enum
from functools import lru_cache

__all__ = ["Piece", "Wild", "like_pieces", "like_prefix", "like_text"]


class Wild(Enum):
    """What a pattern leaves open."""

    ONE = "_"  # one character
    ANY = "%"  # any number of characters, also none


Piece = str | Wild


@lru_cache(maxsize=256)
def like_pieces(pattern: str, escape: str | None = None) -> tuple[Piece, ...]:
    """Return a pattern as texts and wildcards.  Raises ValueError if it escapes nothing.

    >>> like_pieces("J_K%"), like_pieces("100!%", "!")
    (('J', <Wild.ONE: '_'>, 'K', <Wild.ANY: '%'>), ('100%',))
    """
    pieces: list[Piece] = []
    text = ""
    characters = iter(pattern)
    for character in characters:
        if character == escape:
            escaped = next(characters, "")
            if escaped not in (*"%_", escape):
                msg = f"{escape + escaped!r} in pattern {pattern!r} escapes neither % nor _ nor {escape!r}"
                raise ValueError(msg)
            text += escaped
        elif character in "%_":
            pieces += [text] if text else []
            text = ""
            if pieces[-1:] != [Wild.ANY] or character == "_":
                pieces.append(Wild(character))
        else:
            text += character
    return tuple([*pieces, text] if text or not pieces else pieces)


def like_prefix(pieces: tuple[Piece, ...]) -> str:
    """Return what every text that matches begins with.

    >>> like_prefix(like_pieces("JF%x")), like_prefix(like_pieces("%x"))
    ('JF', '')
    """
    return pieces[0] if isinstance(pieces[0], str) else ""


def like_text(pieces: tuple[Piece, ...], escape: str) -> str:
    """Return the pattern with these pieces, in which ``escape`` escapes.

    >>> like_text(like_pieces("100!%_", "!"), "^")
    '100^%_'
    """
    marks = str.maketrans({sign: escape + sign for sign in ("%", "_", escape)})
    return "".join(piece.translate(marks) if isinstance(piece, str) else piece.value for piece in pieces)
