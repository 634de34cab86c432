"""What to do after an error, in the words of the command line.

Errors know facts and a next step that fits every edge. Where an option or a command says it better, the error's hint
names a step of this table; in it, ``{n}`` is a value of the error. Files that have landed are read by the rules of their
table alone, so what is wrong with them has steps of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ebb.index.errors import WarehouseError

__all__ = ["FINDING_STEPS", "LANDED_STEPS", "STEPS", "error_text", "finding_step"]

STEPS = {
    "add_column": 'remove it, add it to the table with ebb alter {5} --add-column "{4}", or pass --extra ignore',
    "adopt": "run ebb adopt {0}, or restore the table from a backup",
    "adopt_copy": "run ebb adopt {0} if it goes on in place of the original, or ebb drop {0}",
    "ask_spark": "fix the query, or ask with --engine spark",
    "arrivals": "pass --arrivals or --no-arrivals",
    "at": "pass --at",
    "backup": "bring it back and run ebb update {1}, or ebb backup {1} DIR --stop-managing if it is gone",
    "bound": "run ebb update {2}; or ebb purge {2}, then ebb erase {2} after the grace period",
    "case": "pass --case ID",
    "catalog": "pass --conf spark.sql.catalogImplementation=hive, and the --conf that says where its metastore is",
    "catch_up": "pass --catch-up to apply them in one commit",
    "check": "run ebb check {2}",
    "columns": "pass --like FILE or --schema",
    "declare_column": 'declare its type too: --schema "{1} TYPE"',
    "debug": "nothing was changed; see --debug",
    "deletion_bound": "pass --deletion-bound {2} or more, or shorter cohort runs",
    "encoding": "pass --encoding, for example latin-1, or write it in UTF-8",
    "evidence": "look for warnings of ebb update {2}",
    "erase": "run ebb erase {2}",
    "expires": "pass either --expires COLUMN or EXPRESSION, or --lifetime",
    "expire_all": "pass --yes if that is meant",
    "extra_computed": "leave it out, or pass --extra ignore",
    "forget": "choose a later time, or run ebb forget",
    "from_start": "pass --since start, and to --resume a file that is not there yet",
    "keep_none": "nothing was changed; most probably its expiration times are wrong (their unit, their time zone, a swapped column), or it belongs to an earlier tick; pass --yes to keep none of it",
    "keys_or_where": "pass KEY..., --keys-from or --where",
    "landing": "run ebb alter {2} --landing FOLDER",
    "later": "pass a later --at, late records are admitted too",
    "list_tables": "run ebb status to see the tables",
    "locked": "pass --wait to wait longer",
    "lost_head": "look at ebb history {0}; if its newest commit is the last one made, run ebb repair {0} --confirm-restore",
    "missing_column": 'add it, as {4}, or name the column that holds it with --rename "OLD={1}"',
    "no_clock": "pass --at, or run ebb load first",
    "no_tables": "it is empty: check --warehouse, or run ebb create first",
    "no_warehouse": "check --warehouse, EBB_WAREHOUSE and ebb.toml, or run ebb create first",
    "not_due": "run again then, or pass --at",
    "other_encoding": "pass --encoding {3}, or write it in {4}",
    "read_again": "run the command again",
    "refused": "see ebb quarantine {2}",
    "release": "run ebb release {0} --case ID first, if the case allows it",
    "rename": 'rename it, or pass --rename "{4}"',
    "rename_each": 'rename them; in a sample file with --rename "OLD=NEW" for each',
    "rename_new": 'pass --rename "{2}=NEW"',
    "rolled_back": "restore the log from a backup, or run ebb adopt {0} --yes to go on without the commits that it lacks",
    "schema": "pass --schema instead of --like",
    "several_columns": 'rename columns with --rename "OLD=NEW", leave others out with --extra ignore, or add them to the table with ebb alter {4} --add-column "C TYPE"',
    "span": "pass --span {2} or more, or a shorter --lifetime or --expires",
    "spark_settings": "check java -version (17), --master and --conf",
    "stalled": "run ebb update {2}, or see why its schedule does not",
    "table_exists": "choose another name or run: ebb drop {0}",
    "too_late": "those after version {2} are: pass --since {2}; what is live is in ebb scan {0}",
    "too_late_resumed": "those after version {2} are: remove {4}, or pass to --resume a file that is not there yet, and pass --since {2}; what is live is in ebb scan {0}",
    "update": "use ebb update {2}",
    "warehouse": "pass --warehouse DIR",
    "window_sql": "run ebb explain --sql after each update, for the query of that version",
}

LANDED_STEPS = {
    "add_column": 'remove it, or run ebb alter {table} --add-column "{4}", or ebb alter {table} --extra ignore',
    "encoding": "run ebb alter {table} --encoding ENCODING, for example latin-1, or write it in UTF-8",
    "extra_computed": "leave it out, or run ebb alter {table} --extra ignore",
    "keep_none": "most probably their expiration times are wrong (their unit, their time zone, a swapped column), or they come too late; put them back and pass --yes to keep none of them",
    "missing_column": 'add it, as {4}, or name the column that holds it: ebb alter {table} --rename "OLD={1}"',
    "other_encoding": "run ebb alter {table} --encoding {3}, or write it in {4}",
    "rename": 'rename it, or run ebb alter {table} --rename "{4}"',
    "several_columns": 'repair the file, or run ebb alter {table} with --rename "OLD=NEW", --extra ignore or --add-column "C TYPE"',
}


# What to do about what a check finds, by its code.
FINDING_STEPS = {
    "bound": "run ebb update {0}; or ebb purge {0}, then ebb erase {0} after the grace period",
    "checkpoint": "run ebb repair {0}",
    "foreign-commit": STEPS["adopt"],
    "head": STEPS["lost_head"],
    "head-place": "run ebb repair {0}",
    "key-ranges": "run ebb repair {0}",
    "rolled-back": STEPS["rolled_back"],
    "side-file": "run ebb repair {0}",
    "stray-file": "run ebb repair {0}",
}


def finding_step(code: str, step: str, table: str) -> str:
    """Return what to do about a finding; ``step`` says it in words that fit everywhere.

    >>> finding_step("side-file", "repair the table", "cars"), finding_step("cell", "restore it", "cars")
    ('run ebb repair cars', 'restore it')
    """
    return FINDING_STEPS[code].format(table) if code in FINDING_STEPS else step


def error_text(error: WarehouseError, landed_for: str | None = None) -> str:
    """Return an error as the command line tells it; ``landed_for``: the table, if it is about a landing folder.

    >>> from ebb.index.errors import JumpError
    >>> error_text(JumpError(43, 3, 40))
    'slot 43 is 3 ticks after the clock 40; pass --catch-up to apply them in one commit'
    """
    steps = STEPS if landed_for is None else STEPS | LANDED_STEPS
    if error.hint not in steps:
        return str(error)
    return f"{error.facts}; {steps[error.hint].format(*error.args, table=landed_for)}"
