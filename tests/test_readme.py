"""The Python examples of README and docs run as they stand."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "docs" / "estimators.md"]
BLOCKS = [
    block
    for page in PAGES
    for block in re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
]


@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_example_runs(number: int, capsys: pytest.CaptureFixture[str]) -> None:
    exec(compile(BLOCKS[number], f"block {number}", "exec"), {})
    assert capsys.readouterr().out


def test_there_are_examples() -> None:
    assert len(BLOCKS) >= 3
