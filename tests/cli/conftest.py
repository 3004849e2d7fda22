"""Running the command in this process or in its own, on small made tables."""

import os
import subprocess
import sys

import numpy as np
import pytest

from subquad.cli.app import main


@pytest.fixture
def call(capsys):
    """Run a command in this process: (exit code, stdout, stderr)."""

    def run(*arguments):
        code = main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


@pytest.fixture(scope="session")
def start():
    """Run a command in a process of its own."""

    def run(*arguments, cwd=None, code=None, **environment):
        command = [sys.executable, "-c", code] if code else [sys.executable, "-m", "subquad"]
        return subprocess.run(
            [*command, *map(str, arguments)],
            capture_output=True,
            text=True,
            timeout=120,
            cwd=cwd,
            env={**os.environ, "NO_COLOR": "1", "COLUMNS": "100", **environment},
        )

    return run


def rows(classes):
    rng = np.random.default_rng(0)
    for k in range(40):
        size, weight = rng.normal(size=2)
        colour = ["red", "green", ""][k % 3]
        value = size + 0.5 * weight + (colour == "red")
        shown = "" if k % 9 == 0 else f"{size:.4f}"
        target = ["low", "mid", "high"][int(np.digitize(value, [0, 1]))] if classes else value
        # Enough columns that no two rows are close: a narrow network fits them in few steps.
        others = ",".join(f"{value:.3f}" for value in rng.normal(size=6))
        yield f"{shown},{weight:.4f},{colour},{others},{target}"


@pytest.fixture(scope="session")
def tables(tmp_path_factory):
    """Paths of a regression and a classification table."""
    folder = tmp_path_factory.mktemp("tables")
    paths = {}
    for name in ("regression", "classification"):
        paths[name] = folder / f"{name}.csv"
        lines = ["size,weight,colour,a,b,c,d,e,f,y", *rows(name == "classification")]
        paths[name].write_text("\n".join(lines) + "\n")
    return paths
