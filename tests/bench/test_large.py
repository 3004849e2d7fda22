"""`subquad bench large`, its quick form."""

import numpy as np
import pytest

from subquad.bench import large
from subquad.bench.large import friedman, with_jumps
from subquad.estimators import base


def test_both_tables_are_fitted_in_blocks_and_beside_peers(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, rows in (("EXACT_ROWS", 500), ("SEARCHED", 300), ("ANCHORS", 400), ("JUDGED", 300)):
        monkeypatch.setattr(base, name, rows)
    measured = large.run(samples=1500, quick=True)
    assert [point["table"] for point in measured["points"]] == ["friedman", "jumps"]
    assert measured["samples"] == 1500
    for point in measured["points"]:
        assert point["peer_scores"]["ridge"] < point["score"] < point["ceiling"] + 0.01
        assert abs(point["left_out_score"] - point["score"]) < 0.1
    assert measured["peer_scores"] == measured["points"][0]["peer_scores"]
    assert "large: 1500 rows: ridge" in capsys.readouterr().err


def test_the_functions_are_what_they_say() -> None:
    X = np.zeros((2, 20))
    X[1, [0, 1, 2, 3, 4]] = [0.5, 1.0, 0.5, 1.0, 1.0]
    assert np.allclose(friedman(X), [5.0, 10 + 0 + 10 + 5])
    X[1, [5, 7]] = 1
    assert np.allclose(with_jumps(X) - friedman(X), [0.0, 5 + 8])
