"""Lasting queries and views for other engines, as far as they go without a JVM."""

from __future__ import annotations

from pathlib import Path

import pytest

from ebb import UsageError
from tests.builders import integer_table, open_warehouse, timestamp_table
from tests.unit.cli.command import Command

_INTEGERS = "table numbers counts time in integers, and no engine knows where its clock stands"


@pytest.fixture
def ebb(ebb: Command) -> Command:
    """Return the command with a table of timestamps, one of dates and one of integers."""
    warehouse = open_warehouse(ebb.root)
    timestamp_table(warehouse, "visits")
    days = "id BIGINT, key STRING, inserted DATE, expires DATE"
    timestamp_table(warehouse, "stays", schema=days, tick="1d", span="9d")
    integer_table(warehouse, "numbers")
    return ebb


def _query(root: Path, name: str, now: str) -> str:
    return f"SELECT `id`, `key`, `inserted`, `expires` FROM delta.`{root / name}` WHERE `expires` > {now}"  # noqa: S608 - a text


def test_a_lasting_query_pins_nothing_and_hides_what_has_expired_by_the_engines_clock(ebb: Command) -> None:
    for name, now in (("visits", "current_timestamp()"), ("stays", "current_date()")):
        query = _query(ebb.root, name, now)
        assert ebb.right("explain", name, "--sql", "--lasting").out == f"{query}\n"
        assert ebb.right("explain", name, "--sql", "--lasting", "--json").json == {"name": name, "sql": query}
        assert open_warehouse(ebb.root).table(name).window_sql(lasting=True) == query
    assert "VERSION AS OF 0" in ebb.right("explain", "visits", "--sql").out


def test_integers_have_no_lasting_query_and_the_message_says_what_to_do_instead(ebb: Command) -> None:
    for command in (["explain", "numbers", "--sql", "--lasting"], ["publish", "numbers", "--spark", "--dry-run"]):
        assert ebb.wrong(*command, code=2) == (
            f"{_INTEGERS}; run ebb explain --sql after each update, for the query of that version"
        )
    with pytest.raises(UsageError) as caught:
        open_warehouse(ebb.root).table("numbers").publish(dry_run=True)
    assert str(caught.value) == f"{_INTEGERS}; ask for the query of one version, again after each update"


def test_publish_shows_its_statement_without_starting_spark(ebb: Command) -> None:
    query = _query(ebb.root, "visits", "current_timestamp()")
    for options, view in (
        ([], "`visits`"),
        (["--as", "Live_1"], "`Live_1`"),
        (["--database", "web", "--as", "v"], "`web`.`v`"),
    ):
        told = ebb.right("publish", "visits", "--spark", "--dry-run", *options)
        assert told.out == f"CREATE OR REPLACE VIEW {view} AS {query}\n"
    assert ebb.right("publish", "visits", "--spark", "--dry-run", "--json", "--database", "web").json == {
        "name": "visits",
        "view": "web.visits",
        "sql": f"CREATE OR REPLACE VIEW `web`.`visits` AS {query}",
        "dry_run": True,
    }


@pytest.mark.parametrize("name", ["", "a b", "a`b", "a.b", "${x}", "a;b", "é", "x" * 129])
def test_a_name_that_a_catalog_may_not_take_is_refused(ebb: Command, name: str) -> None:
    for option in ("--as", "--database"):
        said = ebb.wrong("publish", "visits", "--spark", "--dry-run", option, name, code=2)
        assert said == f"name {name!r} is not one that every catalog takes; use letters a-z, digits and _, at most 128"


def test_publish_and_lasting_want_to_know_what_they_are_about(ebb: Command) -> None:
    assert ebb.wrong("publish", "visits", code=2) == ("publish needs to know where to; run: ebb publish visits --spark")
    assert ebb.wrong("explain", "visits", "--lasting", code=2) == (
        "--lasting is about the query for other engines; pass --sql too"
    )
    assert "there is no table nope" in ebb.wrong("publish", "nope", "--spark", code=1)
