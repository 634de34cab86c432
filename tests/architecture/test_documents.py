"""What the documents say can be looked up: links, files, messages and numbers."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from bench.report import documents
from tests.architecture.test_layers import RANKS
from tests.documents import ROOT, blocks, pages

PACKAGES = ("index", "warehouse", "maintenance", "cli")
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
# A path in backticks: from the top of the repository, with a folder and a known ending.
_PATH = re.compile(r"`((?:index|warehouse|maintenance|cli|ebb|tests|bench|docs)/[\w./-]*)`")
_MESSAGE = re.compile(r"^\| `([^`]+)` \|", re.MULTILINE)


def named(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def anchors(page: Path) -> set[str]:
    """Return the headings of a document as links name them."""
    titles = re.findall(r"^#+ (.+)$", _FENCE.sub("", page.read_text(encoding="utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", pages(), ids=named)
def test_every_link_leads_somewhere(page: Path) -> None:
    text = _FENCE.sub("", page.read_text(encoding="utf-8"))
    broken = []
    for link in _LINK.findall(text):
        if "://" in link:
            continue
        file, _, anchor = link.partition("#")
        target = (page.parent / file).resolve() if file else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)

    assert broken == []


@pytest.mark.parametrize("page", [p for p in pages() if p.name != "CHANGELOG.md"], ids=named)
def test_every_file_that_a_document_names_is_there(page: Path) -> None:
    paths = _PATH.findall(page.read_text(encoding="utf-8"))

    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_every_document_is_within_reach_of_the_readme() -> None:
    seen, waiting = set(), [ROOT / "README.md"]
    while waiting:
        page = waiting.pop()
        if page in seen or page.suffix != ".md":
            continue
        seen.add(page)
        links = _LINK.findall(page.read_text(encoding="utf-8"))
        waiting += [
            (page.parent / link.split("#")[0]).resolve() for link in links if "://" not in link and link[0] != "#"
        ]

    assert [named(page) for page in pages() if page not in seen] == []


def test_the_readme_can_be_read_in_five_minutes() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 190


def test_the_messages_that_the_guide_explains_are_those_that_are_printed() -> None:
    texts = [
        re.sub(r"\{.*?\}", "", node.value)
        for package in PACKAGES
        for file in (ROOT / package).rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    said = "\n".join(" ".join(text.split()) for text in texts)
    messages = _MESSAGE.findall((ROOT / "docs" / "guide.md").read_text(encoding="utf-8").split("## Troubleshooting")[1])
    fragments = [part.strip() for message in messages for part in re.split("[…;]", message) if part.strip()]

    assert len(messages) >= 15
    assert [part for part in fragments if " ".join(part.split()) not in said] == []


def test_the_numbers_in_the_documents_are_made_from_the_results() -> None:
    """``python -m bench.report`` writes them again."""
    assert [named(page) for page, text in documents().items() if page.read_text(encoding="utf-8") != text] == []


def test_blocks_that_run_are_marked_so() -> None:
    """A command with its output in another kind of block would not be run."""
    guilty = [
        f"{named(page)}:{block.line}"
        for page in (ROOT / "README.md", ROOT / "docs" / "guide.md")
        for block in blocks(page)
        if block.language != "console" and re.search(r"^\$ ", block.text, re.MULTILINE)
    ]

    assert guilty == []


def test_the_ranks_in_the_architecture_are_those_that_are_checked() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")

    for package, ranks in RANKS.items():
        rooms = " < ".join(", ".join(f"`{name}`" for name in names) for names in ranks)
        assert f"| `{package}/` | {rooms} |" in text
