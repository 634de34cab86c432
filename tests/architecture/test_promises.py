"""Every promise has tests, and the page says what they counted."""

from __future__ import annotations

import json
import re

import pytest

from tests.promises import FIGURES, PAGE, PROMISES, Promise, page, proofs_of

ALL = [promise for some in PROMISES.values() for promise in some]


@pytest.mark.parametrize("promise", ALL, ids=lambda promise: promise.number)
def test_every_promise_has_tests_that_exist(promise: Promise) -> None:
    found = list(proofs_of(promise))

    assert found
    for file, name in found:
        text = file.read_text(encoding="utf-8")
        assert re.search(rf"def {name or 'test_'}", text), (file.name, name)


def test_numbers_are_given_once() -> None:
    numbers = [promise.number for promise in ALL]

    assert len(set(numbers)) == len(numbers)


def test_the_page_is_made_of_the_last_figures() -> None:
    kept = json.loads(FIGURES.read_text(encoding="utf-8"))

    assert PAGE.read_text(encoding="utf-8") == page(kept)


def test_every_promise_that_counts_has_a_figure() -> None:
    told = json.loads(FIGURES.read_text(encoding="utf-8"))["figures"]

    missing = [
        (promise.number, start)
        for promise in ALL
        for start in promise.figures
        if not any(line.startswith(start) for line in told)
    ]
    assert not missing
