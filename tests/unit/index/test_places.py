"""Places of records as text: as short as they are regular, and never mistaken when damaged."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebb.index.places import dump_places, load_places

PATHS = ["a", "b", "c"]
places = st.dictionaries(
    st.sampled_from(PATHS),
    st.dictionaries(
        st.integers(0, 99), st.sets(st.integers(0, 2**31), min_size=1).map(sorted), min_size=1
    ),
)  # fmt: skip


@given(places)
def test_what_was_written_is_read(found: dict[str, dict[int, list[int]]]) -> None:
    assert load_places(PATHS, dump_places(PATHS, found)) == found


def test_a_file_that_is_chosen_as_a_whole_takes_little_room() -> None:
    assert len(dump_places(["a"], {"a": {0: list(range(100_000))}})) < 1000


def test_another_number_of_files_is_damage() -> None:
    with pytest.raises(ValueError, match="zip"):
        load_places(["a"], dump_places(PATHS, {}))


@pytest.mark.parametrize("text", ["", "0", "zzzzz", dump_places(PATHS, {})[:-3]])
def test_a_damaged_text_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - whatever it says
        load_places(PATHS, text)
