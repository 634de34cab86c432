"""Who may read the files of a table: walked, and tried as another user."""

from __future__ import annotations

import grp
import json
import os
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import ebb
from ebb import OpenTable, Warehouse
from ebb.warehouse.store.modes import group_id, let_in
from tests.builders import NOW, arrow_batch, data_files, integer_table, open_warehouse
from tests.model import Record
from tests.unit.cli.conftest import DECLARED

IS_ROOT = os.geteuid() == 0
OTHER = next((g for g in grp.getgrall() if g.gr_gid not in (0, os.getegid())), None)
GROUP = OTHER.gr_name if OTHER and IS_ROOT else grp.getgrgid(os.getegid()).gr_name
NOBODY = 65534
_READER = """
import json, os, sys
import deltalake, polars, pyarrow.parquet as pq
from ebb.cli.main import main
import ebb.warehouse.read.window, ebb.maintenance.api.warehouse
folder, group = sys.argv[1], int(sys.argv[2])
os.setgroups([group] if group >= 0 else [])
os.setgid(65534)
os.setuid(65534)
told = {}
try:
    told["polars"] = sorted(polars.scan_delta(folder).collect()["id"].to_list())
except BaseException as error:
    told["polars"] = "refused"
try:
    files = [os.path.join(folder, path) for path in json.loads(sys.argv[3])]
    told["pyarrow"] = sorted(i for file in files for i in pq.ParquetFile(file).read(["id"])["id"].to_pylist())
except PermissionError:
    told["pyarrow"] = "refused"
told["ebb"] = main(["--warehouse", os.path.dirname(folder), "scan", "t", "--format", "csv", "--output", "/dev/null"])
try:
    open(os.path.join(folder, "_ebb", "lock"), "r+")
    told["write"] = "done"
except PermissionError:
    told["write"] = "refused"
print(json.dumps(told))
"""


@pytest.fixture(params=[0o000, 0o077, 0o777], ids=oct)
def _umask(request: pytest.FixtureRequest) -> Iterator[None]:
    before = os.umask(request.param)
    yield
    os.umask(before)


@pytest.fixture
def public_folder() -> Iterator[Path]:
    """Return a folder that everybody may look into, unlike those of pytest."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def used(warehouse: Warehouse, **wish: str) -> OpenTable:
    """Return a table in whose folder everything lies that Ebb makes: states, checkpoints, quarantine, side files."""
    table = integer_table(warehouse, grid="3x3", strategy="norebuild", deletion_bound="6", reader_time="1", **wish)
    use(table, range(1, 57))
    return table


def use(table: OpenTable, slots: range) -> None:
    for slot in slots:
        if slot % 8:
            table.update(at=slot)
            continue
        good = [Record(10 * slot + n, f"k{n}", slot, slot + 2 + n) for n in range(3)]
        table.update(arrow_batch([*good, Record(0, None, slot, slot + 1)]), at=slot)
    table.seal()
    table.purge()
    table.erase()
    table.probe("k1")


def modes(root: Path) -> tuple[set[str], set[str], set[int]]:
    """Return the modes of all folders and files of a table and its quarantine, and their groups."""
    folders, files, groups = set[str](), set[str](), set[int]()
    for top in (root / "t", root / "t.quarantine"):
        for path in (top, *top.rglob("*")):
            status = path.lstat()
            groups.add(status.st_gid)
            (folders if path.is_dir() else files).add(oct(stat.S_IMODE(status.st_mode)))
    return folders, files, groups


def everything(root: Path) -> None:
    """Check that the walk has met what it should have."""
    names = {path.name for path in root.rglob("*")}
    assert any("checkpoint.parquet" in name for name in names)
    assert {"_last_checkpoint", "lock"} <= names
    assert any(name.startswith("state-") for name in names)
    assert any(name.startswith("seen-") for name in names)
    assert any(name.endswith(".keys") for name in names)
    assert any(name.startswith("_slot=") for name in names)


@pytest.mark.usefixtures("_umask")
def test_without_a_group_everything_is_its_owner_s_alone(tmp_path: Path) -> None:
    """From Python, the umask decided."""
    used(open_warehouse(tmp_path / "w"))

    everything(tmp_path / "w")
    assert modes(tmp_path / "w")[:2] == ({"0o700"}, {"0o600"})
    assert stat.S_IMODE((tmp_path / "w").stat().st_mode) == 0o700


@pytest.mark.usefixtures("_umask")
def test_with_a_group_its_members_may_read_everything(tmp_path: Path) -> None:
    table = used(open_warehouse(tmp_path / "w"), group=GROUP)

    everything(tmp_path / "w")
    assert modes(tmp_path / "w") == ({"0o2750"}, {"0o640"}, {group_id(GROUP)})
    assert table.status().group == GROUP
    assert table.table.snapshot().metadata["configuration"]["ebb.group"] == GROUP


@pytest.mark.usefixtures("_umask")
def test_a_group_can_be_given_and_taken_back(tmp_path: Path) -> None:
    table = used(open_warehouse(tmp_path / "w"))

    assert table.alter(group=GROUP, dry_run=True).after.group == GROUP
    assert modes(tmp_path / "w")[:2] == ({"0o700"}, {"0o600"})
    altered = table.alter(group=GROUP)
    assert (altered.before.group, altered.after.group) == (None, GROUP)
    assert modes(tmp_path / "w") == ({"0o2750"}, {"0o640"}, {group_id(GROUP)})
    use(table, range(57, 65))
    assert modes(tmp_path / "w") == ({"0o2750"}, {"0o640"}, {group_id(GROUP)})
    for path in (tmp_path / "w" / "t").rglob("*"):
        path.chmod(0o700 if path.is_dir() else 0o600)  # as a copy may do
    table.alter(group=GROUP)
    assert modes(tmp_path / "w") == ({"0o2750"}, {"0o640"}, {group_id(GROUP)})
    table.alter(group="")
    assert modes(tmp_path / "w") == ({"0o700"}, {"0o600"}, {os.getegid()})
    use(table, range(65, 73))
    assert modes(tmp_path / "w")[:2] == ({"0o700"}, {"0o600"})


def test_a_folder_of_tables_that_is_shared_shares_no_table(tmp_path: Path) -> None:
    root = tmp_path / "w"
    root.mkdir()
    root.chmod(0o2775)
    used(open_warehouse(root))

    assert modes(root)[:2] == ({"0o700"}, {"0o600"})
    assert stat.S_IMODE(root.stat().st_mode) == 0o2775


def test_a_landing_folder_is_private_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        integer_table(open_warehouse(tmp_path / "w"), landing=str(tmp_path / "in" / "cars"))
    finally:
        os.umask(before)

    for folder in (tmp_path / "in", tmp_path / "in" / "cars"):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700


@pytest.mark.skipif(not IS_ROOT, reason="only root can become somebody else")
def test_a_group_that_a_user_is_not_in_is_refused_in_one_line(public_folder: Path) -> None:
    script = """
import os, sys
from ebb.cli.main import main
import ebb.maintenance.api.warehouse
os.setgroups([]); os.setgid(65534); os.setuid(65534)
sys.exit(main(sys.argv[1:]))
"""
    public_folder.chmod(0o777)
    command = [sys.executable, "-c", script, "--warehouse", str(public_folder / "w"), "create", "t", *DECLARED]
    done = subprocess.run([*command, "--group", "root"], capture_output=True, text=True, check=False)

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "ebb: this user is not a member of group 'root', and cannot give files to it; "
        "join it and log in again, or name another one\n"
    )
    assert not (public_folder / "w").exists()


@pytest.mark.skipif(not IS_ROOT, reason="only root can become somebody else")
@pytest.mark.parametrize(
    ("declared", "member", "expected"),
    [(True, True, "read"), (True, False, "refused"), (False, True, "refused")],
    ids=["a member", "not a member", "no group"],
)
def test_another_user_reads_the_table_only_as_a_member_of_the_group(
    public_folder: Path, expected: str, *, declared: bool, member: bool
) -> None:
    table = used(open_warehouse(public_folder / "w", NOW), **({"group": GROUP} if declared else {}))
    clock = table.status().clock or 0
    stored = [10 * clock + n for n in range(3)]
    files = [path for path in data_files(table) if path in {f.path for f in table.table.snapshot().files}]

    command = [sys.executable, "-c", _READER, str(table.table.folder), str(group_id(GROUP) if member else -1), json.dumps(files)]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    told = json.loads(done.stdout.splitlines()[-1])

    if expected == "read":
        assert told == {"polars": stored, "pyarrow": stored, "ebb": 0, "write": "refused"}
    else:
        assert told == {"polars": "refused", "pyarrow": "refused", "ebb": 1, "write": "refused"}
        assert "permission denied" in done.stderr


@pytest.mark.skipif(not IS_ROOT, reason="only root can give folders to any group")
def test_a_warehouse_that_another_group_may_enter_is_not_taken_from_it(tmp_path: Path) -> None:
    root = tmp_path / "w"
    root.mkdir()
    os.chown(root, -1, NOBODY)
    root.chmod(0o750)

    with pytest.raises(ebb.InputError, match=f"cannot be entered by members of group {GROUP}; let them: chgrp"):
        integer_table(open_warehouse(root), group=GROUP)
    assert list(root.iterdir()) == []
    root.chmod(0o751)
    assert integer_table(open_warehouse(root), group=GROUP).status().group == GROUP
    assert stat.S_IMODE(root.stat().st_mode) == 0o751
    assert let_in(root, NOBODY)
