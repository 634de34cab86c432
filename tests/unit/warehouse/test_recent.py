"""What a finder keeps in memory has a limit."""

from __future__ import annotations

from ebb.warehouse.read.recent import Recent


def test_what_was_not_used_for_longest_is_forgotten() -> None:
    recent: Recent[str] = Recent(10)
    for key in "abc":
        recent.put(key, key.upper(), 3)
    assert recent.get("a") == "A"
    recent.put("d", "D", 3)
    assert [recent.get(key) for key in "abcd"] == ["A", None, "C", "D"]


def test_a_value_that_is_put_again_counts_once() -> None:
    recent: Recent[str] = Recent(10)
    for _ in range(5):
        recent.put("a", "A", 6)
    recent.put("b", "B", 4)
    assert [recent.get(key) for key in "ab"] == ["A", "B"]


def test_what_is_larger_than_the_limit_is_kept_alone() -> None:
    recent: Recent[str] = Recent(10)
    recent.put("a", "A", 3)
    recent.put("b", "B", 99)
    assert (recent.get("a"), recent.get("b"), len(recent)) == (None, "B", 1)
