"""Real data that comes with scikit-learn."""

from __future__ import annotations

import numpy as np

from subquad.tables.table import Table, finish


def diabetes() -> Table:
    """442 patients: ten measurements, and how far their diabetes had gone a year later."""
    from sklearn.datasets import load_diabetes

    data = load_diabetes(scaled=False)
    columns = {
        name: np.asarray(values, dtype=np.float64)
        for name, values in zip(data.feature_names, data.data.T, strict=True)
    }
    return finish({**columns, "progression": np.asarray(data.target, dtype=np.float64)}, "diabetes")
