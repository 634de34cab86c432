"""What a table asks of readers and writers, against what an Ebb knows."""

from __future__ import annotations

import pytest

from ebb.index.features import KNOWN, Features, Kind, names_in

ASKS = Features(reader=("amends", "pages"), writer=("holds", "leases"))


@pytest.mark.parametrize(
    ("known", "to_reader", "to_writer"),
    [
        (Features(), ("amends", "pages"), ("amends", "pages", "holds", "leases")),
        (ASKS, (), ()),
        (Features(reader=("pages", "amends", "other"), writer=("leases",)), (), ("holds",)),
        (Features(reader=("pages",), writer=("holds", "leases")), ("amends",), ("amends",)),
        (Features(reader=("holds", "leases"), writer=("amends", "pages")), ASKS.reader, (*ASKS.reader, *ASKS.writer)),
    ],
)
def test_a_reader_needs_the_reader_features_and_a_writer_all(
    known: Features, to_reader: tuple[str, ...], to_writer: tuple[str, ...]
) -> None:
    assert (ASKS.new_to_reader(known), ASKS.new_to_writer(known)) == (to_reader, to_writer)


def test_a_table_without_features_is_for_everybody() -> None:
    for known in (Features(), ASKS, KNOWN):
        assert (Features().new_to_reader(known), Features().new_to_writer(known)) == ((), ())


@pytest.mark.parametrize(
    ("text", "names"), [("", ()), ("a", ("a",)), ("b,a", ("a", "b")), ("a, b,,a", ("a", "b")), (" , ", ())]
)
def test_names_are_read_in_any_order(text: str, names: tuple[str, ...]) -> None:
    assert names_in(text) == names


def test_what_this_ebb_knows_is_listed_in_order() -> None:
    """Kinds and features are stored: a name that is gone, or spelt otherwise, shuts tables."""
    assert (KNOWN.reader, KNOWN.writer) == (names_in(",".join(KNOWN.reader)), names_in(",".join(KNOWN.writer)))
    assert [kind.value for kind in Kind] == ["stream"]
