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
ENGINES = {"pyspark", "delta", "deltalake", "py4j"}
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
            yield from (alias.name.split(".")[0] for alias in inner.names)
        elif isinstance(inner, ast.ImportFrom) and inner.level == 0 and inner.module:
            yield inner.module.split(".")[0]


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
    assert not set(imports(tree_of(file))) & {"tests", "bench", "demo"}


def test_spark_and_delta_live_in_the_warehouse_only() -> None:
    guilty = [named(f) for f in modules("index", "maintenance", "cli") if ENGINES & set(_used(tree_of(f)))]

    assert guilty == []


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
    outside = {
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
    guilty = {named(f): found for f in modules("index") if (found := (outside | ENGINES) & set(imports(tree_of(f))))}

    assert guilty == {}


def test_only_render_and_output_print() -> None:
    calls = {
        named(file)
        for file in modules(*LAYERS)
        for node in ast.walk(tree_of(file))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print"
    }

    assert calls == set()


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
def test_what_a_package_offers_can_be_imported_and_is_sorted(package: str) -> None:
    for file in modules(package):
        name = ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        offered = getattr(importlib.import_module(name), "__all__", None)
        if offered is None:
            assert name == "cli", f"{name} has no __all__"
            continue
        missing = [item for item in offered if not hasattr(sys.modules[name], item)]
        assert missing == [], name
        assert offered == sorted(offered, key=_place), name
        assert len(set(offered)) == len(offered), name


def test_every_command_is_in_the_readme() -> None:
    from cli.main import app

    text = (ROOT / "README.md").read_text(encoding="utf-8")
    commands = [command.callback.__name__ for command in app.registered_commands if command.callback]

    assert len(commands) >= 16
    assert [command for command in commands if not re.search(rf"\bebb {command}\b", text)] == []


def test_the_readme_names_no_command_that_is_not_there() -> None:
    from cli.main import app

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
