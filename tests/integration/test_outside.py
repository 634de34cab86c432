"""What others on the machine can see of Ebb and its JVM (P29, P30): sockets, temporary folders, logs and the process list."""

from __future__ import annotations

import os
import random
import socket
import stat
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from ebb.index.errors import EngineError, InputError, WarehouseError
from ebb.warehouse.spark import session
from tests.builders import ARROW, SCHEMA, integer_table, open_warehouse
from tests.crash.processes import ROOT
from tests.hostile import hostile_keys, quoted
from tests.inputs import CANARY, HEADER
from tests.seeds import drawn_seed

_LISTENS = "0A"
_OUT_OF_MEMORY = (
    "SELECT length(concat_ws(',', collect_list(repeat(cast(id AS STRING), 200)))) FROM range(0, 20000000, 1, 2)"
)


def _children(pid: int) -> list[int]:
    """Return a process and all below it."""
    found = [pid]
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                text = Path("/proc", entry, "stat").read_text(encoding="utf-8")
            except OSError:
                continue
            if int(text[text.rindex(")") + 2 :].split()[1]) == pid:
                found += _children(int(entry))
    return found


def _sockets(pid: int) -> set[str]:
    found = set()
    for name in os.listdir(f"/proc/{pid}/fd"):
        try:
            found.add(os.readlink(f"/proc/{pid}/fd/{name}"))
        except OSError:
            continue
    return {link[8:-1] for link in found if link.startswith("socket:[")}


def _listening(pids: list[int]) -> Iterator[str]:
    """Yield the addresses on which processes listen."""
    mine = set().union(*map(_sockets, pids))
    for file, family in (("tcp", socket.AF_INET), ("tcp6", socket.AF_INET6)):
        path = Path("/proc/net", file)
        for line in path.read_text(encoding="ascii").splitlines()[1:] if path.exists() else []:
            fields = line.split()
            if fields[3] == _LISTENS and fields[9] in mine:
                words = bytes.fromhex(fields[1].partition(":")[0])
                packed = b"".join(
                    struct.pack(">I", *struct.unpack("<I", words[n : n + 4])) for n in range(0, len(words), 4)
                )
                yield socket.inet_ntop(family, packed)


def test_no_port_but_loopback_no_value_in_logs_and_no_folder_for_others(spark: Any, tmp_path: Path) -> None:
    table = integer_table(open_warehouse(tmp_path / "w"), schema=SCHEMA)
    rows = [f"{n},{CANARY}-{n},1,{2 + n % 9},{CANARY}" for n in range(50)]
    rows += [f"{CANARY},{CANARY},1,3,x", f"7,,1,3,{CANARY}", f"8,{CANARY},{CANARY},3", f"9,{CANARY},1,3,x,{CANARY}"]
    (tmp_path / "a.csv").write_text("\n".join([HEADER, *rows, ""]), encoding="utf-8")
    (tmp_path / "b.csv").write_text(f'{HEADER}\n1,{CANARY},2,4,"{CANARY}\n', encoding="utf-8")
    (tmp_path / "c.jsonl").write_text(
        '{"id": 1, "key": "%s", "inserted": 2, "more": "%s"}\n' % ((CANARY,) * 2), "utf-8"
    )
    said: list[str] = []

    assert table.update(tmp_path / "a.csv", at=1).quarantined
    for name in ("b.csv", "c.jsonl"):
        with pytest.raises(InputError) as refused:
            table.update(tmp_path / name, at=2)
        said.append(str(refused.value))
    said += [str(part) for part in (table.history(), table.status(), table.explain(), table.quarantine().reasons)]
    with pytest.raises(WarehouseError):
        table.warehouse.sql("SELECT raise_error('no')", engine="spark").read_all()
    assert table.warehouse.sql("SELECT count(*) AS n FROM t WHERE key LIKE 'canary%'", engine="spark").read_all()["n"][
        0
    ]

    assert not [text for text in said if CANARY in text]
    pids = _children(os.getpid())
    assert len(pids) > 1, "there is a JVM"
    for pid in pids:
        assert CANARY.encode() not in Path(f"/proc/{pid}/cmdline").read_bytes()
    addresses = list(_listening(pids))
    assert addresses, "Python and the JVM talk to each other"
    assert {address.removeprefix("::ffff:") for address in addresses} <= {"127.0.0.1", "::1"}
    assert session._started is not None
    session._started.seek(0)
    assert CANARY.encode() not in session._started.read()
    blocks = spark.sparkContext._jvm.org.apache.spark.SparkEnv.get().blockManager().diskBlockManager()
    places = [Path(spark.sparkContext._temp_dir).parent, *map(Path, blocks.localDirsString())]
    assert len(places) > 1, "what is below is as private as the folder that it is in"
    for folder in places:
        assert stat.S_IMODE(folder.stat().st_mode) & 0o077 == 0, folder


def test_hostile_keys_reach_spark_as_values(spark: Any, tmp_path: Path) -> None:
    keys = hostile_keys(random.Random(drawn_seed()), 120)
    table = integer_table(open_warehouse(tmp_path / "w"))
    numbers, ones = list(range(len(keys))), [1] * len(keys)
    columns = [numbers, keys, ones, [5] * len(keys), keys]
    table.update(pa.table([pa.array(c, t) for c, t in zip(columns, ARROW.types, strict=True)], names=ARROW.names), at=1)

    listed = ", ".join(map(quoted, keys[::2]))
    found = table.scan_by_spark(["id"], f"key in ({listed})").read_all()

    assert sorted(found["id"].to_pylist()) == numbers[::2]


def test_a_java_heap_that_is_too_small_is_an_error_of_ours_and_the_next_query_is_answered(tmp_path: Path) -> None:
    integer_table(open_warehouse(tmp_path / "w")).update(at=1)
    script = """
import sys
import ebb
from ebb.index.errors import EngineError
warehouse = ebb.Warehouse.open(sys.argv[1], conf=["spark.driver.memory=480m"])
try:
    print("answered", warehouse.sql(sys.argv[2], engine="spark").read_all())
except EngineError as error:
    print(f"{type(error).__name__}: {error}")
print(warehouse.sql("SELECT count(*) AS n FROM t", engine="spark").read_all()["n"][0])
"""
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "w"), _OUT_OF_MEMORY],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )

    assert done.returncode == 0, done.stderr
    said, count = done.stdout.splitlines()
    assert said.startswith(EngineError.__name__), said
    assert "memory" in said or "Java process is gone" in said, said
    assert count == "0"
