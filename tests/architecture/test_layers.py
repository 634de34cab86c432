"""What the source may and may not do, read from the source itself."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LAYERS = ("index", "warehouse", "maintenance", "cli")  # each may import itself and those before it
# Inside a package, each of these imports itself and those before it; those in one place do not import each other.
RANKS: dict[str, tuple[tuple[str, ...], ...]] = {
    "index": (
        ("errors", "stored"),
        (
            "foreign",
            "head",
            "features",
            "timeline",
            "grid",
            "keys",
            "histogram",
            "fingerprints",
            "journal",
            "asked",
            "lease",
        ),
        ("types", "policy", "cellfile", "contents"),
        ("columns", "strategy", "directory", "places", "manifest"),
        ("ranges", "ledger", "holds"),
        ("changes",),
        ("values", "cost", "conversion", "sample"),
        ("predicate", "inputs"),
        ("expression",),
    ),
    "warehouse": (
        ("settings",),
        ("store",),
        ("table",),
        ("parquet",),
        ("ranges", "holds"),
        ("spark",),
        ("read",),
        ("intake",),
        ("sql", "examine", "check"),
    ),
    "maintenance": (
        ("context", "landing_place", "phases", "plan", "values"),
        ("backup_place", "carry_out", "declare", "reading"),
        ("keep",),
        ("backup",),
        ("backup_care",),
        ("define", "stage", "upkeep"),
        ("update", "inspect", "restore"),
        ("landing", "adopt", "retry", "repair"),
        ("ask", "copies"),
        ("amend", "forget", "holds"),
        ("schedule",),
        ("api",),
    ),
    "cli": (("hints", "output"), ("options",), ("interrupts",), ("commands",), ("main",), ("start",)),
}
# What the command line knows: the functions below it, and their errors. Another edge needs no more than that.
EDGE = {"cli": ("ebb.cli", "ebb.maintenance", "ebb.index.errors", "ebb.index.foreign", "ebb.index.head")}
# Where each engine lives.
ENGINES = {
    "deltalake": ("warehouse/table", "warehouse/parquet/arrow.py"),
    "pyspark": ("warehouse/spark", "warehouse/intake", "warehouse/sql/spark.py"),
    "py4j": ("warehouse/spark",),
    "duckdb": ("warehouse/sql/duckdb.py",),
    "delta": (),
}
# Who may call the operating system: for files of tables, for what users asked to be written, and for the JVM's process.
SYSTEM = {"os", "shutil", "fcntl", "socket", "subprocess", "tempfile"}
SYSTEM_HOMES = (
    "warehouse/store",
    "warehouse/spark",
    "warehouse/settings.py",  # the environment
    "warehouse/read/pool.py",  # threads do not survive a fork
    "warehouse/table/leases.py",  # neither does the one that renews leases
    "warehouse/read/latest.py",  # a temporary file without a name
    "cli/output",
    "cli/main.py",  # the umask, and a pipe that breaks
    "cli/start.py",  # how Ctrl-C ends the process while nothing is open
    "cli/commands/shell.py",  # where the history is
)
MOST_LINES = 400
_SKIPPED = {".venv", ".git", "node_modules", "build", "dist"}


def modules(*packages: str) -> list[Path]:
    """Return the Python files of packages."""
    return sorted(file for package in packages for file in (ROOT / package).rglob("*.py"))


@cache
def tracked() -> list[Path]:
    """Return the files that are, or would be, under version control."""
    try:
        listed = subprocess.run(
            ["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True
        ).stdout.splitlines()
    except (OSError, subprocess.CalledProcessError):
        found = (file for file in ROOT.rglob("*") if not _SKIPPED & set(file.relative_to(ROOT).parts))
        return sorted(file for file in found if file.is_file())
    return sorted({ROOT / name for name in listed if (ROOT / name).is_file()})


@cache
def tree_of(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"), str(file))


def imports(node: ast.AST) -> Iterator[str]:
    """Yield the top-level names of everything imported below a node, wherever it stands."""
    for inner in ast.walk(node):
        if isinstance(inner, ast.Import):
            yield from (_own(alias.name) for alias in inner.names)
        elif isinstance(inner, ast.ImportFrom) and inner.level == 0 and inner.module:
            yield _own(inner.module)


def _own(name: str) -> str:
    """Return the package that an import is about: ours without the name that all of them share."""
    return name.removeprefix("ebb.").split(".")[0]


def modules_used(tree: ast.Module) -> Iterator[tuple[str, ...]]:
    """Yield everything of ours that a module imports, as the parts of its name below ``ebb``."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("ebb."):
            yield from ((*node.module.split(".")[1:], alias.name) for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (tuple(a.name.split(".")[1:]) for a in node.names if a.name.startswith("ebb."))


def imports_at_start(tree: ast.Module) -> Iterator[str]:
    """Yield what importing a module imports: not what stands in functions or is for the type checker only."""
    for node in tree.body:
        if isinstance(node, ast.Import | ast.ImportFrom | ast.If | ast.Try | ast.With) and not _is_for_types(node):
            yield from imports(node)


def named(file: Path) -> str:
    return file.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("file", modules(*LAYERS), ids=named)
def test_imports_point_down_only(file: Path) -> None:
    layer = LAYERS.index(file.relative_to(ROOT).parts[0])

    assert not set(imports(tree_of(file))) & set(LAYERS[layer + 1 :])
    assert not set(imports(tree_of(file))) & {"tests", "bench"}


@pytest.mark.parametrize("file", modules(*LAYERS), ids=named)
def test_inside_a_package_imports_point_down_too(file: Path) -> None:
    package, *below = file.relative_to(ROOT).with_suffix("").parts
    if below == ["__init__"]:
        return
    ranks = {name: place for place, names in enumerate(RANKS[package]) for name in names}

    assert below[0] in ranks, "a new module needs a place in RANKS"
    for used in modules_used(tree_of(file)):
        if used[0] == package and used[1] != below[0]:
            assert ranks[used[1]] < ranks[below[0]], f"{named(file)} imports {'.'.join(used)}"


@pytest.mark.parametrize("edge", list(EDGE))
def test_an_edge_calls_maintenance_and_knows_nothing_of_what_is_below(edge: str) -> None:
    guilty = [
        f"{named(file)}: {name}"
        for file in modules(edge)
        for used in modules_used(tree_of(file))
        if not f"{(name := '.'.join(['ebb', *used]))}.".startswith(tuple(f"{known}." for known in EDGE[edge]))
    ]

    assert guilty == []


def test_everybody_imports_our_modules_by_the_name_they_are_installed_under() -> None:
    guilty = [
        f"{named(file)}: {node.module if isinstance(node, ast.ImportFrom) else node.names[0].name}"
        for file in [*modules(*LAYERS), *modules("tests", "bench")]
        for node in ast.walk(tree_of(file))
        if (isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in LAYERS)
        or (isinstance(node, ast.Import) and node.names[0].name.split(".")[0] in LAYERS)
    ]

    assert guilty == []


@pytest.mark.parametrize("engine", list(ENGINES))
def test_each_engine_has_a_room_of_its_own(engine: str) -> None:
    homes = ENGINES[engine]
    guilty = [named(f) for f in modules(*LAYERS) if engine in set(_used(tree_of(f))) and not named(f).startswith(homes)]

    assert guilty == []


def test_files_are_touched_in_the_store_only() -> None:
    guilty = [
        named(f) for f in modules(*LAYERS) if SYSTEM & set(_used(tree_of(f))) and not named(f).startswith(SYSTEM_HOMES)
    ]

    assert guilty == []


def test_packages_are_empty_but_for_the_public_one() -> None:
    assert [named(f) for f in modules(*LAYERS) if f.name == "__init__.py" and f.read_text(encoding="utf-8")] == []


def test_no_module_is_longer_than_anyone_wants_to_read() -> None:
    lines = {named(f): len(f.read_text(encoding="utf-8").splitlines()) for f in modules(*LAYERS)}

    assert {name: count for name, count in lines.items() if count > MOST_LINES} == {}


def test_the_installed_names_are_the_folders() -> None:
    for layer in LAYERS:
        assert (ROOT / "ebb" / layer).resolve() == (ROOT / layer).resolve()
    assert sorted(p.name for p in (ROOT / "ebb").iterdir() if p.name != "__pycache__") == [
        "__init__.py",
        *sorted(LAYERS),
    ]


def _used(tree: ast.Module) -> Iterator[str]:
    """Yield what a module really imports, somewhere; what only the type checker sees is not used."""
    hidden = {id(n) for node in ast.walk(tree) if _is_for_types(node) for inner in node.body for n in ast.walk(inner)}  # type: ignore[attr-defined]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom) and id(node) not in hidden:
            yield from imports(node)


def _is_for_types(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)


def test_nothing_imports_spark_or_pandas_before_it_is_needed() -> None:
    guilty = [
        named(f) for f in modules(*LAYERS) if {"pyspark", "delta", "py4j", "pandas"} & set(imports_at_start(tree_of(f)))
    ]

    assert guilty == []


def test_nobody_calls_pandas() -> None:
    assert [named(f) for f in modules(*LAYERS) if "pandas" in set(imports(tree_of(f)))] == []


def test_the_index_is_pure() -> None:
    outside = set(ENGINES) | {
        "pyarrow",
        "numpy",
        "os",
        "io",
        "pathlib",
        "socket",
        "subprocess",
        "time",
        "random",
        "shutil",
        "tempfile",
    }
    guilty = {named(f): found for f in modules("index") if (found := outside & set(imports(tree_of(f))))}

    assert guilty == {}


def writes(tree: ast.Module) -> Iterator[str]:
    """Yield every call that writes to standard output or standard error."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        called = ast.unparse(node.func)
        to_stream = re.search(r"std(out|err)", called) and called.rpartition(".")[2].startswith("write")
        if to_stream or called in ("print", "pprint", "typer.echo", "typer.secho", "os.write", "traceback.print_exc"):
            yield f"{node.lineno}: {called}"


def test_only_the_output_of_the_command_line_writes_to_the_terminal() -> None:
    guilty = [
        f"{named(file)}:{call}"
        for file in modules(*LAYERS)
        if not named(file).startswith("cli/output/")
        for call in writes(tree_of(file))
    ]

    assert guilty == []


@pytest.mark.parametrize(
    "text", ["print(1)", "sys.stdout.write(x)", "sys.stderr.buffer.writelines(x)", "sys.__stdout__.write(x)", "typer.echo(x)"]
)  # fmt: skip
def test_a_write_to_the_terminal_is_found(text: str) -> None:
    assert len(list(writes(ast.parse(text)))) == 1


def test_no_pickle_no_eval_no_shell() -> None:
    guilty = []
    for file in tracked():
        if file.suffix != ".py":
            continue
        tree = tree_of(file)
        # Tests may: they prove that our errors survive it.
        if {"pickle", "cloudpickle", "dill", "marshal", "shelve"} & set(imports(tree)) and "tests" not in file.parts:
            guilty.append(f"{named(file)}: imports a pickler")
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call):
                continue
            if isinstance(node.func, ast.Name) and node.func.id in ("eval", "exec", "__import__"):
                guilty.append(f"{named(file)}:{node.lineno}: {node.func.id}")
            if isinstance(node.func, ast.Attribute) and node.func.attr in ("system", "popen"):
                guilty.append(f"{named(file)}:{node.lineno}: {node.func.attr}")
            if any(
                k.arg == "shell" and not (isinstance(k.value, ast.Constant) and k.value.value is False)
                for k in node.keywords
            ):
                guilty.append(f"{named(file)}:{node.lineno}: a shell")

    assert guilty == []


def _place(name: str) -> tuple[int, str]:
    """Order names as ruff does: constants, classes, the rest."""
    return (0 if name.isupper() else 1 if name[:1].isupper() else 2), name


@pytest.mark.parametrize("package", LAYERS)
def test_what_a_module_offers_can_be_imported_and_is_all_that_others_import(package: str) -> None:
    taken: dict[str, set[str]] = {}
    for file in modules(*LAYERS):
        for used in modules_used(tree_of(file)):
            taken.setdefault(".".join(["ebb", *used[:-1]]), set()).add(used[-1])
    for file in modules(package):
        name = ".".join(["ebb", *file.relative_to(ROOT).with_suffix("").parts])
        if name.endswith(".__init__"):
            continue
        offered = importlib.import_module(name).__all__
        assert [item for item in offered if not hasattr(sys.modules[name], item)] == [], name
        assert offered == sorted(offered, key=_place), name
        assert len(set(offered)) == len(offered), name
        assert taken.get(name, set()) - set(offered) == set(), name


def test_every_command_is_in_the_readme() -> None:
    from ebb.cli.main import app

    text = (ROOT / "README.md").read_text(encoding="utf-8")
    commands = [command.callback.__name__ for command in app.registered_commands if command.callback]

    assert len(commands) >= 16
    assert [command for command in commands if not re.search(rf"\bebb {command}\b", text)] == []


def test_the_readme_names_no_command_that_is_not_there() -> None:
    from ebb.cli.main import app

    text = (ROOT / "README.md").read_text(encoding="utf-8")
    commands = {command.callback.__name__ for command in app.registered_commands if command.callback}
    shown = set(re.findall(r"^\$ ebb ([a-z]+)", text, re.MULTILINE)) | set(re.findall(r"`ebb ([a-z]+)", text))

    assert shown - commands == set()


def test_no_tracked_file_names_this_machine_or_a_registry() -> None:
    # Written in parts, so that this file does not find itself.
    places = [r"(?<![\w.-])/" + place for place in ("root/", "work/", "Users/", "home/[a-z]")]
    hosts = [
        "py" + r"pi\.org",
        "python" + r"hosted\.org",
        "repo1" + r"\.maven",
        "maven" + r"\.org",
        "arti" + "factory",
        "npm" + r"js\.org",
    ]
    pattern = re.compile("|".join([*places, *hosts, r"--(extra-)?index-url", r"://localhost", r"\b127\.0\.0\.1:\d"]))
    guilty = []
    for file in tracked():
        if file == Path(__file__) or file.stat().st_size > 5_000_000:
            continue
        try:
            text = file.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        guilty += [f"{named(file)}: {match[0]}" for match in pattern.finditer(text)]

    assert guilty == []
