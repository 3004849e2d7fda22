"""Prediction files."""

from __future__ import annotations

import csv
import io
from pathlib import Path

from subquad.runs.atomic import write_text
from subquad.runs.folder import Prediction


def write_predictions(path: Path, prediction: Prediction) -> None:
    """Write a CSV: row number from 0, prediction, and one probability column a class."""
    content = io.StringIO()
    writer = csv.writer(content, lineterminator="\n")
    writer.writerow(["row", "prediction", *(f"proba_{name}" for name in prediction.classes)])
    for row, value in enumerate(prediction.values.tolist()):
        shares = [] if prediction.probabilities is None else prediction.probabilities[row].tolist()
        writer.writerow([row, value, *shares])
    write_text(path, content.getvalue())
