"""What to do after an error, in the words of the command line.

Errors know facts and a next step that fits every edge. Where an option or a command says it better, the error's hint
names a step of this table; in it, ``{n}`` is a value of the error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ebb.index.errors import WarehouseError

__all__ = ["STEPS", "error_text"]

STEPS = {
    "add_column": 'remove it, add it to the table with ebb alter NAME --add-column "{4}", or pass --extra ignore',
    "adopt": "run ebb adopt {0}, or restore the table from a backup",
    "ask_spark": "fix the query, or ask with --engine spark",
    "at": "pass --at",
    "bound": "run ebb update {2}; or ebb purge {2}, then ebb erase {2} after the grace period",
    "catalog": "pass --conf spark.sql.catalogImplementation=hive, and the --conf that says where its metastore is",
    "catch_up": "pass --catch-up to apply them in one commit",
    "columns": "pass --like FILE or --schema",
    "declare_column": 'declare its type too: --schema "{1} TYPE"',
    "debug": "nothing was changed; see --debug",
    "deletion_bound": "pass --deletion-bound {2} or more, or shorter cohort runs",
    "encoding": "pass --encoding, for example latin-1, or write it in UTF-8",
    "expires": "pass either --expires COLUMN or EXPRESSION, or --lifetime",
    "expire_all": "pass --yes if that is meant",
    "extra_computed": "leave it out, or pass --extra ignore",
    "list_tables": "run ebb status to see the tables",
    "locked": "pass --wait to wait longer",
    "missing_column": 'add it, as {4}, or name the column that holds it with --rename "OLD={1}"',
    "no_clock": "pass --at, or run ebb load first",
    "no_tables": "it is empty: check --warehouse, or run ebb create first",
    "no_warehouse": "check --warehouse, EBB_WAREHOUSE and ebb.toml, or run ebb create first",
    "not_due": "run again then, or pass --at",
    "other_encoding": "pass --encoding {3}, or write it in {4}",
    "rename": 'rename it, or pass --rename "{4}"',
    "rename_each": 'rename them; in a sample file with --rename "OLD=NEW" for each',
    "rename_new": 'pass --rename "{2}=NEW"',
    "schema": "pass --schema instead of --like",
    "several_columns": 'rename columns with --rename "OLD=NEW", leave others out with --extra ignore, or add them to the table with ebb alter NAME --add-column "C TYPE"',
    "spark_settings": "check java -version (17), --master and --conf",
    "table_exists": "choose another name or run: ebb drop {0}",
    "update": "use ebb update {2}",
    "warehouse": "pass --warehouse DIR",
    "window_sql": "run ebb explain --sql after each update, for the query of that version",
}


def error_text(error: WarehouseError) -> str:
    """Return an error as the command line tells it.

    >>> from ebb.index.errors import JumpError
    >>> error_text(JumpError(43, 3, 40))
    'slot 43 is 3 ticks after the clock 40; pass --catch-up to apply them in one commit'
    """
    return f"{error.facts}; {STEPS[error.hint].format(*error.args)}" if error.hint in STEPS else str(error)
