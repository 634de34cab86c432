"""What Ebb needs, with the SHA-256 sums of all files that the package index has: ``python -m tests.hashes > requirements.txt``.

The versions are those of constraints.txt; which packages are needed is what the installed ones say. The index is the one
that pip uses, and its address is not written down.
"""

from __future__ import annotations

import re
import ssl
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from importlib.metadata import requires
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name, parse_sdist_filename, parse_wheel_filename

__all__ = ["needed", "pinned", "read_hashes"]

ROOT = Path(__file__).parents[1]
_HEAD = """\
# Everything that Ebb needs when it runs, with the SHA-256 sums of its files: pip install --require-hashes -r requirements.txt
# Made by python -m tests.hashes from constraints.txt; do not edit.
"""


def pinned() -> dict[str, str]:
    """Return the versions of constraints.txt."""
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").split()
    return {canonicalize_name(name): version for name, version in (line.split("==") for line in lines)}


def needed(name: str = "ebb", seen: frozenset[str] = frozenset()) -> frozenset[str]:
    """Return all packages that a package needs here when it runs."""
    for text in requires(name) or []:
        wanted = Requirement(text)
        inner = canonicalize_name(wanted.name)
        if inner not in seen and (wanted.marker is None or wanted.marker.evaluate({"extra": ""})):
            seen = needed(inner, seen | {inner})
    return seen


def read_hashes() -> dict[str, tuple[str, set[str]]]:
    """Return version and sums of each package of requirements.txt."""
    text = (ROOT / "requirements.txt").read_text(encoding="utf-8").replace("\\\n", "")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    parts = [re.fullmatch(r"([a-z0-9-]+)==(\S+)((?:\s+--hash=sha256:[0-9a-f]{64})+)", line.strip()) for line in lines]
    return {part[1]: (part[2], set(re.findall(r"sha256:(\w+)", part[3]))) for part in parts if part}


def _pip(*arguments: str) -> str:
    command = [sys.executable, "-m", "pip", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


def _index() -> str:
    default = "from pip._internal.models.index import PyPI; print(PyPI.simple_url)"
    command = [sys.executable, "-c", default]
    return (
        _pip("config", "get", "global.index-url")
        or subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    )


def _files(name: str, version: str) -> Iterator[str]:
    """Yield the sums of the files that the index has of a version."""
    request = urllib.request.Request(f"{_index().rstrip('/')}/{name}/", headers={"Accept": "text/html"})  # noqa: S310 - pip's
    context = ssl.create_default_context(cafile=_pip("config", "get", "global.cert") or None)
    with urllib.request.urlopen(request, context=context) as answer:  # noqa: S310 - the same
        page = answer.read().decode()
    for link, file in re.findall(r"<a ([^>]*)>([^<]*)</a>", page):
        found = re.search(r"#sha256=([0-9a-f]{64})", link)
        if found and "data-yanked" not in link and _version(file.strip()) == version:
            yield found[1]


def _version(file: str) -> str | None:
    try:
        return str((parse_wheel_filename if file.endswith(".whl") else parse_sdist_filename)(file)[1])
    except ValueError:  # an installer, or an egg of former times
        return None


def main() -> None:
    """Print the file."""
    sys.stdout.write(_HEAD)
    versions = pinned()
    for name in sorted(needed()):
        sums = sorted(set(_files(name, versions[name])))
        if not sums:
            raise SystemExit(f"the index has no files of {name} {versions[name]}")
        sys.stdout.write(
            " \\\n".join([f"{name}=={versions[name]}", *(f"    --hash=sha256:{one}" for one in sums)]) + "\n"
        )


if __name__ == "__main__":
    main()
