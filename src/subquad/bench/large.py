"""`subquad bench large`: more rows than a matrix of rows by rows may have.

Two tables are fitted by `SubquadRegressor` with defaults, and by peers: ridge regression tuned by
leave-one-out, scikit-learn's histogram gradient boosting and LightGBM (where it is installed) with
their defaults. The first is Friedman's function of 5 inputs among others that do not matter, with
noise of deviation 1 (Friedman, *Multivariate adaptive regression splines*, 1991); scores and times
at the top level are those. The second adds jumps along other inputs, which suit trees. Scores are
R² on 10,000 further rows; `ceiling` is what the function without noise would score.
"""

from __future__ import annotations

import importlib.util
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from subquad.bench.machine import machine_info
from subquad.bench.widest import peak_rss_gb
from subquad.checks import integer
from subquad.theory.duals import Array

FEATURES = 20
TEST_ROWS = 10_000
QUICK_ROWS = 4000


def run(*, samples: int = 50_000, seed: int = 0, quick: bool = False) -> dict[str, object]:
    """Return the JSON object of `subquad bench large`.

    Args:
        samples: rows to learn from.
        seed: of rows, noise and networks.
        quick: at most 4,000 rows.
    """
    samples, seed = integer("samples", samples, least=100), integer("seed", seed, least=0)
    samples = min(samples, QUICK_ROWS) if quick else samples
    points = []
    for name, function in FUNCTIONS.items():
        rng = np.random.default_rng(seed)
        X = rng.random((samples + TEST_ROWS, FEATURES))
        clean = function(X)
        y = clean + rng.standard_normal(len(X))
        points.append({"table": name, **_contest(X, y, clean, samples, seed)})
    first = points[0]
    return {
        "machine": machine_info(),
        "samples": samples,
        "features": FEATURES,
        "seconds": first["seconds"],
        "peak_rss_gb": first["peak_rss_gb"],
        "score": first["score"],
        "peer_scores": first["peer_scores"],
        "points": points,
    }


def friedman(X: Array) -> Array:
    """Friedman's first function, of the first five inputs."""
    found: Array = (
        10 * np.sin(np.pi * X[:, 0] * X[:, 1])
        + 20 * (X[:, 2] - 0.5) ** 2
        + 10 * X[:, 3]
        + 5 * X[:, 4]
    )
    return found


def with_jumps(X: Array) -> Array:
    """The same, and jumps along four other inputs, two of them only together."""
    found: Array = (
        friedman(X)
        + 5 * (X[:, 5] > 0.37)
        - 4 * (X[:, 6] > 0.62)
        + 8 * (X[:, 7] > 0.45) * (X[:, 8] < 0.7)
    )
    return found


FUNCTIONS: dict[str, Callable[[Array], Array]] = {"friedman": friedman, "jumps": with_jumps}


def _contest(X: Array, y: Array, clean: Array, n: int, seed: int) -> dict[str, Any]:
    """Fit ours and the peers on the first n rows, and score them on the others."""
    from subquad.estimators.regressor import SubquadRegressor

    def score(values: Array) -> float:
        from sklearn.metrics import r2_score

        return float(r2_score(y[n:], values))

    _tell(f"{n} rows: subquad")
    began = time.perf_counter()
    model = SubquadRegressor(random_state=seed).fit(X[:n], y[:n])
    seconds = time.perf_counter() - began
    ours, peak = score(model.predict(X[n:])), peak_rss_gb()
    scores: dict[str, float | None] = {}
    times: dict[str, float] = {"subquad": seconds}
    for name, make in _peers(seed).items():
        _tell(f"{n} rows: {name}")
        if make is None:
            scores[name] = None
            continue
        began = time.perf_counter()
        fitted = make().fit(X[:n], y[:n])
        times[name] = time.perf_counter() - began
        scores[name] = score(fitted.predict(X[n:]))
    return {
        "seconds": seconds,
        "peak_rss_gb": peak,
        "score": ours,
        "ceiling": score(clean[n:]),
        "members": [f"{m['activation']} on {m['encoding']} inputs" for m in model.members_],
        "left_out_score": model.loo_score_,
        "peer_scores": scores,
        "fit_seconds": times,
    }


def _peers(seed: int) -> dict[str, Callable[[], Any] | None]:
    """Makers of the peers; None where a package is missing."""
    from sklearn.ensemble import HistGradientBoostingRegressor
    from sklearn.linear_model import RidgeCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    found: dict[str, Callable[[], Any] | None] = {
        "ridge": lambda: make_pipeline(StandardScaler(), RidgeCV(np.logspace(-4, 4, 17))),
        "histogram boosting": lambda: HistGradientBoostingRegressor(random_state=seed),
        "lightgbm": None,
    }
    if importlib.util.find_spec("lightgbm") is not None:

        def lightgbm() -> Any:
            from lightgbm import LGBMRegressor

            return LGBMRegressor(random_state=seed, verbose=-1)

        found["lightgbm"] = lightgbm
    return found


def _tell(text: str) -> None:
    print(f"large: {text}", file=sys.stderr, flush=True)
