"""Commands that need no Spark neither import it nor need a Java to be there."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from ebb import OpenTable
from tests.builders import arrow_batch, integer_table, open_warehouse, records, write_batch
from tests.model import Record
from tests.unit.cli.conftest import DECLARED

_ROOT = Path(__file__).parents[3]
_RUN = """
import contextlib, io, json, sys
from ebb.cli.main import main

for arguments in json.loads(sys.stdin.read()):
    with contextlib.redirect_stdout(io.TextIOWrapper(io.BytesIO())), contextlib.redirect_stderr(io.StringIO()) as told:
        code = main(arguments)
    heavy = sorted({"pyspark", "pandas", "py4j", "delta"} & sys.modules.keys())
    print(json.dumps([arguments[0], code, heavy, told.getvalue()]))
"""
_TICK = """
import sys
from ebb.cli.main import main

code = main(sys.argv[1:])
sys.exit(code or int(bool({"pyspark", "pandas", "pyarrow", "numpy"} & sys.modules.keys())))
"""


def _table(root: Path) -> OpenTable:
    return integer_table(open_warehouse(root))


def test_commands_without_records_to_write_start_neither_spark_nor_pandas(tmp_path: Path) -> None:
    commands = [
        ["--help"], ["create", "--help"], ["create", "t", *DECLARED], ["status"], ["status", "t"],
        ["update", "t", "--at", "1"], ["update", "t", "--at", "2", "--dry-run"], ["update", "t", "--at", "1"],
        ["history", "t"], ["changes", "t", "--since", "0"], ["explain", "t"], ["explain", "t", "--sql"], ["alter", "t", "--deletion-bound", "9"],
        ["alter", "t", "--add-column", "z INT"], ["quarantine", "t"], ["seal", "t"], ["purge", "t"], ["erase", "t"], ["drop", "t", "--yes"],
    ]  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", _RUN],
        input=json.dumps(commands),
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env={
            "PYTHONPATH": str(_ROOT),
            "PATH": str(tmp_path),
            "EBB_WAREHOUSE": str(tmp_path / "w"),
            "HOME": str(tmp_path),
        },
    )

    assert done.returncode == 0, done.stderr
    ran = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(ran) == len(commands)
    for name, code, heavy, told in ran:
        assert (name, code, heavy, told) == (name, 0, [], "")


def test_reads_start_neither_spark_nor_pandas(tmp_path: Path) -> None:
    _table(tmp_path / "w").update(at=1)
    environment = {"PYTHONPATH": str(_ROOT), "PATH": str(tmp_path), "EBB_WAREHOUSE": str(tmp_path / "w")}
    commands = (
        ["probe", "t", "a"], ["probe", "t", "a", "--isolation", "latest"], ["probe", "t", "a", "--explain"],
        ["scan", "t", "--where", "id > 1"], ["scan", "t", "--format", "parquet"], ["scan", "t", "--engine", "direct"],
        ["sql", "SELECT count(*) FROM t"], ["shell", "t"],
    )  # fmt: skip
    for arguments in commands:
        command = [sys.executable, "-X", "importtime", "-m", "ebb.cli.main", *arguments]
        done = subprocess.run(
            command,
            input=b"a\nselect count(*) from t\n",
            capture_output=True,
            check=False,
            cwd=tmp_path,
            env=environment,
        )

        imported = {line.rpartition("|")[2].strip() for line in done.stderr.decode().splitlines() if line}
        assert done.returncode in (0, 3), done.stderr
        assert "pyarrow" in imported
        # Arrow asks for pandas, and is denied it: its parts never come.
        assert not {name.split(".")[0] for name in imported if "." in name} & {"pyspark", "pandas", "py4j", "delta"}


def test_updates_without_spark_start_neither_spark_nor_pandas(tmp_path: Path) -> None:
    """There is no Java on this path, either."""
    _table(tmp_path / "w")
    environment = {"PYTHONPATH": str(_ROOT), "PATH": str(tmp_path), "EBB_WAREHOUSE": str(tmp_path / "w")}
    files = [
        write_batch(tmp_path / f"{slot}.parquet", records((slot, "a", slot, slot + 3), (-slot, None, slot, slot)))
        for slot in range(5, 8)
    ]
    commands = (
        ["load", "t", str(files[0]), "--engine", "direct"], ["update", "t", str(files[1]), "--engine=auto"],
        ["update", "t", str(files[2]), "--engine", "direct"], ["update", "t", str(files[2]), "--engine", "direct"],
    )  # fmt: skip
    for arguments in commands:
        command = [sys.executable, "-X", "importtime", "-m", "ebb.cli.main", *arguments]
        done = subprocess.run(command, capture_output=True, check=False, cwd=tmp_path, env=environment)

        imported = {line.rpartition("|")[2].strip() for line in done.stderr.decode().splitlines() if line}
        assert done.returncode in (0, 3), done.stderr
        assert "pyarrow" in imported
        assert not {name.split(".")[0] for name in imported if "." in name} & {"pyspark", "pandas", "py4j", "delta"}
    assert b"already applied at slot 7" in done.stdout


_HELP = """
import sys
from ebb.cli.main import main

code = main(sys.argv[1:])
sys.exit(1 if {"pyspark", "pandas", "pyarrow", "numpy", "deltalake", "duckdb"} & sys.modules.keys() else code)
"""


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["create", "--help"]], ids=" ".join)
def test_help_opens_no_table_and_imports_nothing_that_could(arguments: list[str], tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _HELP, *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env={"PYTHONPATH": str(_ROOT)},
    )

    assert done.returncode == 0, done.stderr or "an engine was imported"


def test_an_empty_tick_does_not_even_import_arrow(tmp_path: Path) -> None:
    _table(tmp_path / "w")
    command = [sys.executable, "-c", _TICK, "--warehouse", str(tmp_path / "w"), "update", "t", "--at", "1"]

    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=_ROOT)

    assert done.returncode == 0, done.stderr or "pyspark, pandas, pyarrow or numpy was imported"


_INTERRUPTED = """
import os, signal, sys
from importlib.metadata import entry_points

class Interruption:
    def find_spec(self, name, path=None, target=None):
        if name == wanted:
            os.kill(os.getpid(), signal.SIGINT)

wanted = sys.argv.pop(1)
sys.meta_path.insert(0, Interruption())
[script] = entry_points(group="console_scripts", name="ebb")
script.load()()  # as the script does
"""


@pytest.mark.parametrize(
    "module", ["ebb.cli.main", "typer", "ebb.cli.commands.read", "ebb.cli.hints", "ebb.maintenance.api.table"]
)
def test_ctrl_c_is_silent_from_the_first_import_on(module: str, tmp_path: Path) -> None:
    """It showed a traceback of whatever was being imported, for the first 0.2 s."""
    command = [sys.executable, "-c", _INTERRUPTED, module, "--warehouse", str(tmp_path), "status"]

    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=_ROOT)

    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_a_command_that_nobody_may_interrupt_is_not_interrupted_while_it_starts(tmp_path: Path) -> None:
    """As under nohup, or in the background of a script."""
    ignoring = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\n" + _INTERRUPTED
    command = [sys.executable, "-c", ignoring, "typer", "--warehouse", str(tmp_path), "status"]

    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=_ROOT)

    assert (done.returncode, done.stderr) == (0, "")


def closed(root: Path, streams: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command in a shell that closes streams."""
    command = f'exec "$@" {streams}'
    ebb = [sys.executable, "-c", "from ebb.cli.start import entry; entry()", "--warehouse", str(root)]
    return subprocess.run(["sh", "-c", command, "sh", *ebb, *arguments], capture_output=True, text=True, check=False)


def test_a_full_disk_behind_standard_output_is_told_in_one_sentence(tmp_path: Path) -> None:
    table = integer_table(open_warehouse(tmp_path / "w"), span="6")
    told = "ebb: the answer cannot be written: No space left on device; redirect standard output elsewhere\n"

    done = closed(table.warehouse.root, ">/dev/full", "update", "t", "--at", "1")

    assert (done.returncode, done.stderr) == (0, told)
    assert table.status().clock == 1
    for command in (["status"], ["status", "t", "--json"], ["history", "t"]):
        lost = closed(table.warehouse.root, ">/dev/full", *command)
        assert (lost.returncode, lost.stderr) == (1, told)


def test_what_was_done_is_done_whoever_listens(tmp_path: Path) -> None:
    """An update whose commit was made failed for want of somebody to tell; a retry would have been the next tick."""
    table = integer_table(open_warehouse(tmp_path / "w"), span="6")
    for slot, streams in enumerate([">&-", "2>&-", "<&- >&- 2>&-", "<&-"], start=1):
        done = closed(table.warehouse.root, streams, "update", "t", "--at", str(slot))
        assert (done.returncode, done.stderr) == (0, "")
        assert table.status().clock == slot
    table.update(arrow_batch([Record(1, "a", 5, 8)]), at=5)
    assert table.check().findings == ()

    for command in (["scan", "t"], ["probe", "t", "a"], ["changes", "t", "--since", "0"], ["sql", "SELECT 1"]):
        refused = closed(table.warehouse.root, ">&-", *command)
        assert refused.returncode == 1
        assert (
            refused.stderr
            == "ebb: the answer cannot be written: standard output is closed; redirect it, or pass --output\n"
        )
    assert closed(table.warehouse.root, "2>&-", "scan", "t").stdout.endswith("(1 record)\n")
    assert closed(table.warehouse.root, "2>&-", "scan", "u").returncode == 1
    assert closed(table.warehouse.root, ">&-", "scan", "t", "--output", str(tmp_path / "o.csv")).returncode == 0
    assert (tmp_path / "o.csv").read_text().count("\n") == 2
