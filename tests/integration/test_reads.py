"""What reads cost, how they stream, and what the same question gives through every door."""

from __future__ import annotations

import csv
import json
import random
import tracemalloc
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ebb import OpenTable, Warehouse
from ebb.cli.main import main
from ebb.index.errors import UsageError
from ebb.warehouse.parquet.datafile import DataFile
from ebb.warehouse.parquet.sizes import ReadSizes
from ebb.warehouse.read.request import Cost
from ebb.warehouse.read.window import Window
from ebb.warehouse.store.paths import side_file
from tests.unit.cli.command import Command

SCHEMA = "k STRING, n BIGINT, ins BIGINT, exp BIGINT, pay STRING"
SLOTS = 6


def _key(number: int) -> str:
    return f"key-{number:06d}"


def _filled(warehouse: Warehouse, folder: Path, *, keys: int, records: int, pay: int, name: str = "t") -> OpenTable:
    """Return a table of some updates; record n of a slot has a random key, and lives for one to six ticks."""
    table = warehouse.create(
        name,
        schema=SCHEMA,
        key=["k"],
        inserted="ins",
        expires="exp",
        tick="1",
        span="6",
        policy="2x2",
        strategy="retire",
    )
    rng = random.Random(7)
    for slot in range(1, SLOTS + 1):
        batch = pa.table(
            {
                "k": [_key(rng.randrange(keys)) for _ in range(records)],
                "n": pa.array(range(slot * records, (slot + 1) * records), pa.int64()),
                "ins": pa.array([slot] * records, pa.int64()),
                "exp": pa.array([slot + rng.randrange(1, 7) for _ in range(records)], pa.int64()),
                "pay": [rng.randbytes(pay // 2).hex() for _ in range(records)],
            }
        )
        pq.write_table(batch, folder / f"{slot}.parquet")
        table.update(str(folder / f"{slot}.parquet"), at=slot)
    return table


@pytest.fixture(scope="module")
def long_runs(tmp_path_factory: pytest.TempPathFactory, spark: Any) -> OpenTable:
    """A table of few keys, each with a run of about 60 kB in every file."""
    folder = tmp_path_factory.mktemp("long")
    return _filled(Warehouse.open(folder / "w"), folder, keys=12, records=6000, pay=600)


@pytest.fixture(scope="module")
def points(tmp_path_factory: pytest.TempPathFactory, spark: Any) -> OpenTable:
    """A table in which most keys have one record."""
    folder = tmp_path_factory.mktemp("points")
    return _filled(Warehouse.open(folder / "w"), folder, keys=60_000, records=9000, pay=300)


def _model(table: OpenTable) -> list[dict[str, Any]]:
    return table.scan().read_all().to_pylist()


def test_a_probe_of_a_long_run_reads_little_more_than_it_returns(long_runs: OpenTable) -> None:
    everything = _model(long_runs)
    for number in range(12):
        window = long_runs.at_latest()

        found = window.probe(_key(number))

        assert Counter(found["n"].to_pylist()) == Counter(r["n"] for r in everything if r["k"] == _key(number))
        assert window.cost.bytes_read <= 3 * window.cost.bytes_returned
        assert window.cost.records == found.num_rows


def test_a_probe_of_a_point_reads_at_most_one_row_group_per_file_and_few_where_it_is_not(points: OpenTable) -> None:
    everything = _model(points)
    by_key = Counter(record["k"] for record in everything)
    met = read = files = 0
    for number in random.Random(3).sample(range(60_000), 60):
        window = points.at_latest()

        found = window.probe(_key(number))

        assert found.num_rows == by_key[_key(number)]
        assert window.cost.groups_read <= window.cost.files
        assert window.cost.groups_met <= window.cost.files
        met, read, files = met + window.cost.groups_met, read + window.cost.groups_read, files + window.cost.files
    assert read < met / 2, "the Bloom filters kept nothing away"
    assert met <= files


def test_a_probe_opens_no_footer_that_it_does_not_need(points: OpenTable) -> None:
    window = Warehouse.open(points.warehouse.root).table("t").at_latest()  # cold

    window.probe(_key(10**6 - 1))

    assert window.cost.groups_read == 0
    assert not window.finder._footers


def _sized(table: OpenTable, **sizes: int) -> OpenTable:
    """Return the same table, read in other sizes."""
    return OpenTable(table.warehouse, table.table, ReadSizes(**sizes))


def test_a_scan_of_everything_keeps_few_footers_but_one_with_a_predicate_all(
    points: OpenTable,
) -> None:
    window = points.at_latest()
    first = window.finder.open(window.visible_files()[0])
    few = first.row_groups * len(first.names)
    window = _sized(points, few_chunks=few).at_latest()
    window.finder.open(window.visible_files()[0])

    assert window.scan().read_all().num_rows
    assert window.finder._footers.total == few
    assert window.scan(where=f"k = '{_key(1)}'").read_all().num_rows
    assert len(window.finder._footers) == len(window.visible_files()) > 1


def test_every_live_file_has_its_keys_beside_it(points: OpenTable) -> None:
    snapshot = points.table.snapshot()
    kept = {path for path in points.table.all_files() if path.endswith(".keys")}

    assert {side_file(file.path) for file in snapshot.files} <= kept


@pytest.mark.parametrize("share_bytes", [1, 2**40], ids=["file by file", "all at once"])
def test_many_keys_are_joined_and_come_in_order(points: OpenTable, tmp_path: Path, share_bytes: int) -> None:
    points = _sized(points, share_bytes=share_bytes)
    wanted = [_key(n) for n in range(0, 60_000, 3)]
    everything = _model(points)

    found = points.probe(*wanted).to_pylist()

    keys = set(wanted)
    assert Counter(r["n"] for r in found) == Counter(r["n"] for r in everything if r["k"] in keys)
    assert [(r["k"], r["exp"]) for r in found] == sorted((r["k"], r["exp"]) for r in found)
    (tmp_path / "keys").write_text("\n".join(wanted), encoding="utf-8")
    out = tmp_path / "out.jsonl"
    arguments = ["probe", "t", "--keys-from", str(tmp_path / "keys"), "--format", "jsonl", "--output", str(out)]
    assert main(["--warehouse", str(points.warehouse.root), *arguments]) == 0
    assert [json.loads(line)["n"] for line in out.read_text().splitlines()] == [r["n"] for r in found]


@pytest.mark.parametrize("share_bytes", [1, 2**40], ids=["file by file", "all at once"])
def test_a_range_over_many_stripes_is_merged_in_order(points: OpenTable, share_bytes: int) -> None:
    """Stripes of a few row groups: what reaches over their bounds must be kept and merged."""
    points = _sized(points, share_bytes=share_bytes, first_bytes=1, most_bytes=300_000)
    everything = [r for r in _model(points) if _key(1000) <= r["k"] <= _key(50_000)]

    batches = list(points.at_latest().read(points.at_latest().wanted((), _key(1000), _key(50_000))))

    found = [row for batch in batches for row in batch.to_pylist()]
    assert len(batches) > 5
    assert [(r["k"], r["exp"]) for r in found] == sorted((r["k"], r["exp"]) for r in found)
    assert Counter(r["n"] for r in found) == Counter(r["n"] for r in everything)


def test_the_run_of_one_key_is_merged_by_expiration_over_many_stripes(
    long_runs: OpenTable,
) -> None:
    long_runs = _sized(long_runs, first_bytes=1, most_bytes=1)
    expected = sorted(r["exp"] for r in _model(long_runs) if r["k"] == _key(5))

    found = long_runs.probe(_key(5))

    assert found["exp"].to_pylist() == expected


def test_a_limit_stops_reading(points: OpenTable, capsys: pytest.CaptureFixture[str]) -> None:
    points = _sized(points, scan_bytes=1)
    window = points.at_latest()
    reader = window.scan()
    reader.read_next_batch()
    some = window.cost.groups_read
    reader.close()

    whole = points.at_latest()
    whole.scan().read_all()
    assert some < whole.cost.groups_read / 2
    arguments = ["--warehouse", str(points.warehouse.root), "scan", "t", "--limit", "3", "--format", "csv"]
    assert main(arguments) == 0
    assert len(list(csv.reader(capsys.readouterr().out.splitlines()))) == 4


def test_a_predicate_on_the_key_or_the_times_skips_row_groups(points: OpenTable) -> None:
    window = points.at_latest()
    found = window.scan(["n"], f"k between '{_key(500)}' and '{_key(900)}'").read_all()

    assert Counter(found["n"].to_pylist()) == Counter(
        r["n"] for r in _model(points) if _key(500) <= r["k"] <= _key(900)
    )
    assert window.cost.groups_read <= window.cost.files
    assert window.cost.groups_read < window.cost.groups
    early = points.at_latest()
    assert early.scan(where="exp <= 6").read_all().num_rows == 0
    assert early.cost.groups_read < early.cost.groups


def test_a_scan_holds_a_few_row_groups_and_not_the_answer(points: OpenTable) -> None:
    pool = pa.default_memory_pool()
    window = points.at_latest()
    total = sum(batch.nbytes for batch in window.scan())
    tracemalloc.start()
    before, most = pool.bytes_allocated(), 0
    for _ in points.at_latest().scan():
        most = max(most, pool.bytes_allocated() - before)
    _, python_most = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert total > 10_000_000
    assert most < total * 0.9
    assert python_most < 10_000_000


QUERIES = [
    "SELECT count(*) AS c, sum(n) AS s, min(exp) AS a, max(exp) AS b FROM t",
    "SELECT k, count(*) AS c FROM t GROUP BY k ORDER BY c DESC, k LIMIT 20",
    "SELECT exp, avg(n) AS a FROM t WHERE n % 7 = 1 GROUP BY exp ORDER BY exp",
    "WITH big AS (SELECT * FROM t WHERE n > 20000) SELECT exp, count(*) AS c FROM big GROUP BY exp HAVING count(*) > 3 ORDER BY exp",
    "SELECT a.n AS x, b.n AS y FROM t a JOIN t b ON a.k = b.k AND a.n < b.n ORDER BY x, y LIMIT 15",
    "SELECT CASE WHEN n % 2 = 0 THEN NULL ELSE n END AS m FROM t ORDER BY m LIMIT 5",
    "SELECT upper(k) AS u, length(pay) AS l FROM t ORDER BY n LIMIT 5",
    "SELECT DISTINCT ins FROM t ORDER BY ins",
    "SELECT n / 2 AS half FROM t ORDER BY n LIMIT 3",
    "SELECT k FROM t WHERE k LIKE 'key-00001%' ORDER BY k, n",
    "SELECT count(*) AS c FROM t WHERE k IN (SELECT k FROM t WHERE n < 10000)",
]


@pytest.mark.parametrize("query", QUERIES)
def test_plain_sql_gives_the_same_through_duckdb_and_spark(points: OpenTable, query: str, spark: Any) -> None:
    points.warehouse.register(spark)

    direct = points.warehouse.sql(query).read_all()

    by_spark = spark.sql(query).toArrow()
    assert direct.to_pylist() == by_spark.to_pylist()
    assert direct.num_rows
    for ours, theirs in zip(direct.schema, by_spark.schema, strict=True):
        assert ours.type == theirs.type or (pa.types.is_integer(ours.type) and pa.types.is_integer(theirs.type))


def test_a_view_of_spark_holds_a_lease_until_it_is_replaced(warehouse: Warehouse, tmp_path: Path, spark: Any) -> None:
    """Queries through Ebb hold one while they run, and leave those of the session's own views as they are."""
    table = _filled(warehouse, tmp_path, keys=10, records=50, pay=10)
    warehouse.sql("SELECT count(*) FROM t", engine="spark")
    assert table.status().leases == ()
    warehouse.register(spark)
    count = spark.sql("SELECT * FROM t").count()
    (lease,) = table.status().leases
    for _ in range(3):
        table.update()
    assert table.erase().files_leased
    assert spark.sql("SELECT * FROM t").count() == count

    warehouse.register(spark)
    assert [each.version > lease.version for each in table.status().leases] == [True]
    assert table.erase().files_leased == 0
    warehouse.sql("SELECT count(*) FROM t", engine="spark")
    assert len(table.status().leases) == 1


def test_a_warm_sql_session_follows_the_newest_window(warehouse: Warehouse, tmp_path: Path) -> None:
    table = _filled(warehouse, tmp_path, keys=10, records=50, pay=10)
    session = warehouse.sql_session()
    counts = []
    for _ in range(4):
        counts.append(session.answer("SELECT count(*) AS c FROM t").read_all()["c"][0].as_py())
        assert counts[-1] == table.scan().read_all().num_rows
        table.update()

    assert counts == sorted(counts, reverse=True)
    assert len(set(counts)) == 4


def test_the_engine_without_a_jvm_can_neither_read_files_nor_change_anything(warehouse: Warehouse) -> None:
    session = warehouse.sql_session()
    for query in (
        "SELECT * FROM read_csv('/etc/hostname')", "SELECT * FROM '/etc/hostname'", "COPY (SELECT 1) TO 'x.csv'",
        "ATTACH 'x.db'", "INSTALL httpfs", "SET threads = 1", "CREATE TABLE x AS SELECT 1", "PRAGMA version", "CALL pragma_version()",
    ):  # fmt: skip
        with pytest.raises(UsageError):
            session.answer(query)
    assert not Path("x.csv").exists()


def _cold(table: OpenTable) -> Window:
    return Warehouse.open(table.warehouse.root).table("t").at_latest()


def _chunk_bytes(table: OpenTable, groups: Iterable[tuple[str, int]], *columns: str) -> int:
    """Return what columns take in row groups, as their footers tell it."""
    total = 0
    for path, group in groups:
        facts = pq.read_metadata(table.table.folder / path).row_group(group)
        chunks = [facts.column(i) for i in range(facts.num_columns)]
        total += sum(chunk.total_compressed_size for chunk in chunks if chunk.path_in_schema in columns)
    return total


def _opened(table: OpenTable, path: str) -> DataFile:
    return DataFile.open(str(table.table.folder), next(f for f in table.table.snapshot().files if f.path == path))


def _footer_bytes(table: OpenTable, paths: Iterable[str]) -> int:
    """Return the size of footers, and of the contents that they vouch for."""
    files = [_opened(table, path) for path in set(paths)]
    return sum(file.footer.serialized_size + 8 + len(file.contents.block) for file in files)


def _pages(table: OpenTable, path: str, group: int, column: str) -> list[tuple[int, int]]:
    """Return size and records of each page of a column, the dictionary too."""
    file = _opened(table, path)
    pages = file.contents.pages(group, file.leaf(column))
    return [(file.contents.page_bytes[page], file.contents.page_records[page]) for page in pages]


def _page_bytes(table: OpenTable, groups: Iterable[tuple[str, int]], column: str, key: str) -> int:
    """Return what the pages of a column take that hold a record of a key, and the dictionaries before them."""
    total = 0
    for path, group in groups:
        with pq.ParquetFile(table.table.folder / path) as file:
            keys = file.read_row_group(group, columns=["k"])["k"].to_pylist()
        at = 0
        for size, count in _pages(table, path, group, column):
            total += size if key in keys[at : at + count] or (not count and key in keys) else 0
            at += count
    return total


def test_the_cost_of_a_probe_counts_what_is_read_and_nothing_else(points: OpenTable) -> None:
    """What was found beside files, columns of small values whole, and of wide ones the pages that hold the key."""
    key = points.scan(["k"]).read_all()["k"][0].as_py()
    window, narrow, wide = _cold(points), _cold(points), _cold(points)
    files, wanted = window.visible_files(), window.wanted([key])
    met = window.finder.find(window.snapshot, files, wanted, window.cost)
    groups = [(block.path, block.row_group) for block in window.finder.filtered(met, files, wanted, window.cost)]
    sides = sum((points.table.folder / side_file(file.path)).stat().st_size for file in files)
    assert 0 < len(groups) <= len(met)
    assert max(len(_pages(points, *place, "pay")) for place in groups) > 5
    is_over = any(file.has_expired(SLOTS) for file in files if file.path in {path for path, _ in groups})
    needed = ("k", "n", "exp", *["_exp_slot"] * is_over)  # the order of records is by key and expiration
    several = {
        name for name in ("n", "exp", "_exp_slot", "ins", "pay")
        if any(sum(count > 0 for _, count in _pages(points, *place, name)) > 1 for place in groups)
    }  # fmt: skip

    def of_pages(*columns: str) -> int:
        return sum(_page_bytes(points, groups, name, key) for name in columns if name in several)

    def expected(*columns: str) -> int:
        return _chunk_bytes(points, groups, *(name for name in columns if name not in several)) + of_pages(*columns)

    narrow.probe(key, columns=["n"])
    wide.probe(key)

    assert "pay" in several
    assert (narrow.cost.directory_bytes, wide.cost.directory_bytes) == (sides, sides)
    assert narrow.cost.bytes_read == sides + expected(*needed)
    assert wide.cost.bytes_read == sides + expected(*needed, "ins", "pay")
    assert _page_bytes(points, groups, "pay", key) < _chunk_bytes(points, groups, "pay") / 3
    assert (narrow.cost.groups_read, narrow.cost.files_read) == (len(groups), len({path for path, _ in groups}))

    for window, columns in ((narrow, ["n"]), (wide, None)):  # what is narrow is kept
        warm = replace(window, cost=Cost())
        warm.probe(key, columns=columns)
        read = of_pages(*needed, *["ins", "pay"] * (columns is None))
        assert (warm.cost.directory_bytes, warm.cost.bytes_read) == (0, read)
    assert of_pages("pay") > 0


def test_keys_on_every_page_are_read_whole(points: OpenTable) -> None:
    """So many runs of records that looking for their pages saves nothing; the answer is the same."""
    keys = sorted(set(points.scan(["k"]).read_all()["k"].to_pylist()))[::7]
    window = _cold(points)
    found = window.probe(*keys)

    wanted = set(keys)
    assert Counter(found["n"].to_pylist()) == Counter(r["n"] for r in _model(points) if r["k"] in wanted)
    by_n = {record["n"]: record for record in _model(points)}
    assert all(by_n[record["n"]] == record for record in found.to_pylist())


def test_the_cost_of_a_scan_counts_its_columns_and_footers(points: OpenTable) -> None:
    window = _cold(points)
    files = window.visible_files()
    groups = [(f.path, g) for f in files for g in range(pq.read_metadata(points.table.folder / f.path).num_row_groups)]
    expired = [(path, g) for path, g in groups if next(f for f in files if f.path == path).has_expired(SLOTS)]

    window.scan(["n"]).read_all()

    slots = _chunk_bytes(points, expired, "_exp_slot")
    footers = _footer_bytes(points, [f.path for f in files])
    assert window.cost.bytes_read == footers + _chunk_bytes(points, groups, "n") + slots
    assert window.cost.directory_bytes == footers


def test_the_cost_of_a_probe_is_told(points: OpenTable, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    ebb = Command(points.warehouse.root, capsys)

    told = ebb.right("probe", "t", _key(1), _key(2), "--explain", "--json").json

    assert told["keys"] == 2
    assert told["groups_read"] <= told["groups_met"] <= told["groups"]
    assert told["files_read"] <= told["files"] == len(points.table.snapshot().files)
    assert told["clock"] == SLOTS
    assert {"log_seconds", "directory_seconds", "read_seconds", "bytes_read", "bytes_returned"} <= told.keys()
    text = ebb.right("probe", "t", "--from", _key(1), "--explain").out
    assert [line.split("  ")[0] for line in text.splitlines()] == [
        "window",
        "files",
        "row groups",
        "bytes",
        "found",
        "seconds",
    ]


def test_both_levels_of_isolation_give_the_newest_window_of_a_quiet_table(
    points: OpenTable, capsys: pytest.CaptureFixture[str]
) -> None:
    ebb = Command(points.warehouse.root, capsys)
    for command in (
        ("scan", "t", "--columns", "n"),
        ("probe", "t", "--from", _key(7), "--to", _key(5000), "--columns", "k,n"),
    ):
        one = ebb.right(*command, "--format", "csv").out
        other = ebb.right(*command, "--format", "csv", "--isolation", "latest").out
        assert Counter(one.splitlines()) == Counter(other.splitlines())
        assert command[0] == "scan" or [line.split(",")[0] for line in one.splitlines()] == [
            line.split(",")[0] for line in other.splitlines()
        ]
    assert points.up_to_date().probe(_key(1)).equals(points.at_latest().probe(_key(1)))


def test_a_scan_through_spark_prints_the_same(points: OpenTable, capsys: pytest.CaptureFixture[str]) -> None:
    ebb = Command(points.warehouse.root, capsys)
    command = ("scan", "t", "--where", f"k < '{_key(900)}' and n > 100", "--columns", "n,k", "--format", "csv")

    here = ebb.right(*command).out
    there = ebb.right(*command, "--engine", "spark").out

    assert sorted(here.splitlines()) == sorted(there.splitlines())
    assert len(here.splitlines()) > 10
    assert "direct" in ebb.wrong(*command, "--engine", "spark", "--isolation", "latest", code=2)


def test_a_latest_window_that_is_kept_reads_the_newest_window_each_time(warehouse: Warehouse, tmp_path: Path) -> None:
    table = _filled(warehouse, tmp_path, keys=10, records=40, pay=10)
    kept = table.up_to_date()
    for _ in range(5):
        assert kept.scan().read_all().num_rows == table.scan().read_all().num_rows
        table.update()
