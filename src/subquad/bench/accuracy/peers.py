"""Who competes: each peer, its version, how it is made, tuned and as it comes."""

from __future__ import annotations

import hashlib
import inspect
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from subquad.bench.accuracy.readers import version

TASKS = ("regression", "classification")


@dataclass(frozen=True, kw_only=True)
class Peer:
    """A way to learn from a table.

    ``make(classes, seed, tuned)`` returns what has `fit`, `predict` and, where it can,
    `predict_proba`. ``settings()`` is its grid, and another grid makes other cells.
    """

    name: str
    package: str
    make: Callable[[bool, int, bool], Any]
    settings: Callable[[], Any]
    kind: str

    @property
    def version(self) -> str | None:
        """The version installed; None where it is missing."""
        return version(self.package)

    @property
    def fingerprint(self) -> str:
        """Changes when the grid does."""
        content = json.dumps(self.settings(), sort_keys=True, default=str)
        return hashlib.sha256(content.encode()).hexdigest()[:16]


def _classical(name: str) -> Callable[[bool, int, bool], Any]:
    def make(classes: bool, seed: int, tuned: bool) -> Any:
        from subquad.bench.accuracy import classical

        return getattr(classical, name)(classes, seed, tuned)

    return make


def _grid(*names: str) -> Callable[[], Any]:
    def settings() -> Any:
        from subquad.bench.accuracy import classical

        return [classical.GRIDS[name] for name in names]

    return settings


def _process(classes: bool, seed: int, tuned: bool) -> Any:
    from subquad.bench.accuracy.process import Process

    return Process(classes, seed, tuned)


def _process_settings() -> Any:
    from subquad.bench.accuracy import process

    return [process.KERNELS, process.LENGTHS, process.ITERATIONS, process.INNER_ITERATIONS]


def _boosted(package: str) -> Callable[[bool, int, bool], Any]:
    def make(classes: bool, seed: int, tuned: bool) -> Any:
        from subquad.bench.accuracy.boosting import Boosted

        return Boosted(package, classes, seed, tuned)

    return make


def _boosted_settings(package: str) -> Callable[[], Any]:
    def settings() -> Any:
        from subquad.bench.accuracy import boosting

        draw = getattr(boosting, f"draw_{package}")
        return [inspect.getsource(draw), boosting.DRAWS, boosting.ROUNDS, boosting.PATIENCE]

    return settings


def _xrfm(classes: bool, seed: int, tuned: bool) -> Any:
    from subquad.bench.accuracy.rfm import XRFM

    return XRFM(classes, seed, tuned)


def _xrfm_settings() -> Any:
    from subquad.bench.accuracy import rfm

    return [inspect.getsource(rfm.draw), rfm.DRAWS, rfm.ITERATIONS, rfm.DEFAULT]


def _ours(classes: bool, seed: int, tuned: bool) -> Any:
    import subquad

    name = "SubquadClassifier" if classes else "SubquadRegressor"
    return getattr(subquad, name)(random_state=seed)


def _our_source() -> str:
    """Changes with every file that our estimators may run."""
    import subquad

    root = Path(subquad.__file__).parent
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        if path.relative_to(root).parts[0] not in ("bench", "cli"):
            digest.update(path.read_bytes())
    return digest.hexdigest()


def have_ours() -> bool:
    """Whether the package has its estimators."""
    import subquad

    return hasattr(subquad, "SubquadRegressor") and hasattr(subquad, "SubquadClassifier")


OURS = "subquad"


def _sklearn(name: str, kind: str, function: str, *grids: str) -> Peer:
    return Peer(
        name=name,
        package="scikit-learn",
        make=_classical(function),
        settings=_grid(*grids),
        kind=kind,
    )


def _boosting(name: str, package: str) -> Peer:
    make, settings = _boosted(name), _boosted_settings(name)
    return Peer(name=name, package=package, make=make, settings=settings, kind="boosting")


PEERS = {
    peer.name: peer
    for peer in (
        Peer(name=OURS, package="subquad", make=_ours, settings=_our_source, kind="ours"),
        _sklearn("ridge", "linear", "ridge", "ridge", "logistic"),
        _sklearn("kernel-ridge", "kernel", "LeastSquares", "kernel_ridge"),
        _sklearn("svm", "kernel", "RBFMachine", "svm", "svm_epsilon"),
        Peer(
            name="gaussian-process",
            package="scikit-learn",
            make=_process,
            settings=_process_settings,
            kind="kernel",
        ),
        _sklearn("extra-trees", "trees", "extra_trees", "forest"),
        _sklearn("random-forest", "trees", "forest", "forest"),
        _boosting("lightgbm", "lightgbm"),
        _boosting("xgboost", "xgboost-cpu"),
        _sklearn("mlp", "network", "mlp", "mlp"),
        Peer(name="xrfm", package="xrfm", make=_xrfm, settings=_xrfm_settings, kind="kernel"),
    )
}
