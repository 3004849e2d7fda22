"""The view of a training: a table on a terminal, lines elsewhere, silence when quiet."""

import io
import sys
from types import SimpleNamespace

import pytest

from subquad.cli.live import StageView, TrainingView, si


def info(iteration, residual=1e-3):
    return SimpleNamespace(
        iteration=iteration,
        residual=residual,
        firing=[0.25, 0.125],
        cost=SimpleNamespace(flops=2_500_000),
        certificate="Certificate(…)",
    )


def view(quiet=False, verbose=False):
    return TrainingView(dense_step=1e9, aim=1e-6, quiet=quiet, verbose=verbose)


def test_lines(capsys):
    with view() as shown:
        assert shown(info(1)) is False
    assert capsys.readouterr().err == (
        "iteration 1: residual 1.00e-03, firing 25.0 12.5 %, 2.5 Mflop (0.25 % of a dense step), "
        "0.0 s\n"
    )


def test_many_iterations_do_not_flood(capsys):
    with view() as shown:
        for k in range(1, 1000):
            shown(info(k))
    assert capsys.readouterr().err.count("\n") <= 20
    with view(verbose=True) as shown:
        for k in range(1, 30):
            shown(info(k))
    assert capsys.readouterr().err.count("Certificate") == 29


def test_more_than_a_dense_step_is_a_multiple(capsys):
    with TrainingView(dense_step=1e5, aim=1e-6, quiet=False, verbose=False) as shown:
        shown(info(1))
    assert "(25 times a dense step)" in capsys.readouterr().err


def test_quiet(capsys):
    with view(quiet=True) as shown:
        shown(info(1))
    assert capsys.readouterr().err == ""


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_stages_are_lines(capsys):
    with StageView(quiet=False) as shown:
        shown("looking")
    assert capsys.readouterr().err == "0.0 s: looking\n"
    with StageView(quiet=True) as shown:
        shown("looking")
    assert capsys.readouterr().err == ""


def test_stages_on_a_terminal(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setenv("COLUMNS", "120")
    with StageView(quiet=False) as shown:
        shown("looking for scales")
        shown("training")
    text = sys.stderr.getvalue()
    assert "0.0 s  looking for scales" in text
    assert "0.0 s  training" in text


def test_terminal(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setenv("COLUMNS", "120")
    with view() as shown:
        for k, residual in enumerate((1e-1, 1e-3, 1e-9, float("nan"))):
            shown(info(k + 1, residual))
    text = sys.stderr.getvalue()
    assert "dense step" in text
    assert "█" * 12 in text
    assert "█" * 6 + "░" * 6 in text


@pytest.mark.parametrize(
    ("value", "shown"), [(0, "0 "), (12, "12 "), (1234, "1.23 k"), (5e9, "5 G"), (2e16, "20 P")]
)
def test_prefixes(value, shown):
    assert si(value) == shown
