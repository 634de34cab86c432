"""The runner of documents is tested too: one that lets everything pass would prove nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.documents import Block, blocks, matches, run_document, steps

PAGE = """\
# A page

```console
$ printf 'plate,came,until\\nA-1,1,25\\n' > first.csv
$ ebb create t --like first.csv --key plate --inserted came --expires until \\
>     --tick 10 --span 120
table t created in DATA/t
…
$ W=1 ebb status t | grep -c grid
1
$ ebb scan nothing
ebb: there is no table nothing in …; it has t
```

```python
word = "names are kept"
```

```python
assert word == "names are kept"
```

```sh
exit 1
```
"""


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EBB_WAREHOUSE", "DATA")
    (tmp_path / "page.md").write_text(PAGE, encoding="utf-8")
    return tmp_path / "page.md"


def test_commands_and_python_run_in_order_and_other_blocks_do_not(
    page: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_document(page, tmp_path, capsys) == 6


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("table t created in DATA/t", "table t created in DATA/u"),
        ("\n1\n", "\n2\n"),
        ("it has t", "it has u"),
        ("ebb: there is no table nothing in …; it has t\n", ""),
        ("--tick 10", "--tick 0"),
        ("printf ", "exit 3; printf "),
        ('assert word == "names are kept"', "assert not word"),
    ],
)
def test_whatever_is_not_as_shown_is_noticed(
    right: str, wrong: str, page: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert PAGE.count(right) == 1
    page.write_text(PAGE.replace(right, wrong), encoding="utf-8")

    with pytest.raises(AssertionError):
        run_document(page, tmp_path, capsys)


def test_a_block_knows_its_line_and_a_command_its_continuation(page: Path) -> None:
    first = blocks(page)[0]

    assert (first.language, first.line) == ("console", 4)
    assert [step.line for step in steps(first)] == [4, 5, 9, 11]
    assert next(steps(Block("console", "$ a \\\n> b\nc\n", 1)))[:2] == ("a \\\nb", ["c"])


@pytest.mark.parametrize(
    ("shown", "printed", "expected"),
    [
        (["a"], "a\n", True),
        (["a"], "a\nb\n", False),
        (["a", "…"], "a\nb\nc\n", True),
        (["…", "c"], "a\nb\nc\n", True),
        (["…", "c"], "a\nb\n", False),
        (["a … c"], "a b c\n", True),
        (["a … c"], "a b d\n", False),
        (["took 1.25 s, 3 kB"], "took 7.00 s, 1.2 MB\n", True),
        (["3 files"], "4 files\n", False),
        (["(a|b)"], "a\n", False),
    ],
)
def test_what_is_shown_stands_for_what_is_printed(shown: list[str], printed: str, *, expected: bool) -> None:
    assert matches(shown, printed) is expected
