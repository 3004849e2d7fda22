"""Prediction files."""

from __future__ import annotations

import csv
import io
from pathlib import Path

from subquad.runs.atomic import write_text
from subquad.runs.folder import Prediction


def write_predictions(path: Path, prediction: Prediction) -> None:
    """Write a CSV: row number from 0, prediction, what more there is, one probability a class."""
    content = io.StringIO()
    writer = csv.writer(content, lineterminator="\n")
    shares = [f"proba_{name}" for name in prediction.classes]
    writer.writerow(["row", "prediction", *prediction.more, *shares])
    more = list(zip(*(column.tolist() for column in prediction.more.values()), strict=True))
    for row, value in enumerate(prediction.values.tolist()):
        given = [] if prediction.probabilities is None else prediction.probabilities[row].tolist()
        writer.writerow([row, value, *(more[row] if more else ()), *given])
    write_text(path, content.getvalue())
