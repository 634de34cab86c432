"""Commands that need no Spark neither import it nor need a Java to be there."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.unit.cli.conftest import DECLARED

_RUN = """
import contextlib, io, json, sys
from cli.main import main

for arguments in json.loads(sys.stdin.read()):
    with contextlib.redirect_stdout(io.TextIOWrapper(io.BytesIO())), contextlib.redirect_stderr(io.StringIO()) as told:
        code = main(arguments)
    heavy = sorted({"pyspark", "pandas", "py4j", "delta"} & sys.modules.keys())
    print(json.dumps([arguments[0], code, heavy, told.getvalue()]))
"""
_TICK = """
import sys
from cli.main import main

code = main(sys.argv[1:])
sys.exit(code or int(bool({"pyspark", "pandas", "pyarrow", "numpy"} & sys.modules.keys())))
"""


def test_commands_without_records_to_write_start_neither_spark_nor_pandas(tmp_path: Path) -> None:
    import json

    commands = [
        ["--help"], ["create", "--help"], ["create", "t", *DECLARED], ["status"], ["status", "t"],
        ["update", "t", "--at", "1"], ["update", "t", "--at", "2", "--dry-run"], ["update", "t", "--at", "1"],
        ["history", "t"], ["explain", "t"], ["explain", "t", "--sql"], ["alter", "t", "--deletion-bound", "9"],
        ["alter", "t", "--add-column", "z INT"], ["probe", "t", "a"], ["scan", "t", "--where", "id > 1"],
        ["scan", "t", "--format", "csv"], ["scan", "t", "--format", "parquet", "--output", "x.parquet"],
        ["quarantine", "t"], ["seal", "t"], ["purge", "t"], ["erase", "t"], ["drop", "t", "--yes"],
    ]  # fmt: skip
    root = Path(__file__).parents[3]
    done = subprocess.run(
        [sys.executable, "-c", _RUN],
        input=json.dumps(commands),
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env={"PYTHONPATH": str(root), "PATH": str(tmp_path), "EBB_WAREHOUSE": str(tmp_path / "w"), "HOME": str(tmp_path)},
    )

    assert done.returncode == 0, done.stderr
    ran = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(ran) == len(commands)
    for name, code, heavy, told in ran:
        assert (name, code, heavy, told) == (name, 0, [], "")


def test_an_empty_tick_does_not_even_import_arrow(tmp_path: Path) -> None:
    from maintenance.api import Warehouse

    warehouse = Warehouse.open(tmp_path / "w")
    wish = dict(zip(("schema", "inserted", "expires", "tick", "span"), (DECLARED[1], "inserted", "expires", "1", "6"), strict=True))
    warehouse.create("t", key=["key"], **wish)
    command = [sys.executable, "-c", _TICK, "--warehouse", str(tmp_path / "w"), "update", "t", "--at", "1"]

    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[3])

    assert done.returncode == 0, done.stderr or "pyspark, pandas, pyarrow or numpy was imported"
