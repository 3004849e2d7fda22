"""Ensembles that cannot fit are refused before they start, with what would."""

import re

import pytest

from subquad import memory
from subquad.errors import InvalidInput
from subquad.estimators.base import EXACT_ROWS
from subquad.estimators.choices import Choices
from subquad.estimators.footprint import check_ensemble, peak


def test_a_refusal_names_rows_that_fit():
    held = memory.resident_bytes()
    limit = (held + 1e9) / 1e9
    choices = Choices(max_memory=limit)
    with pytest.raises(InvalidInput, match="rows would fit; or raise max_memory") as refused:
        check_ensemble(choices, 2900, 10, 1)
    rows = int(re.search(r": (\d+) rows would fit", str(refused.value))[1])
    assert 100 < rows < 2900
    check_ensemble(choices, rows // 2, 10, 1)


def test_where_nothing_fits():
    with pytest.raises(InvalidInput, match=r"max_memory is 0\.001 GB: raise max_memory"):
        check_ensemble(Choices(max_memory="1MB"), 100, 10, 1)


def test_many_rows_take_no_matrix_of_rows_by_rows():
    assert peak(Choices(), 100_000, 10, 1) < 8 * 100_000**2 / 10
    small, large = (peak(Choices(), n, 10, 1) for n in (1000, EXACT_ROWS))
    assert small < large


@pytest.mark.parametrize(
    "choices",
    [Choices(layers="all", depth=2), Choices(activation="GELU"), Choices(shift=1.0, depth=3)],
)
def test_every_way_of_training_has_a_job(choices):
    assert peak(choices, 500, 10, 3) > 8 * 10 * 500**2


def test_a_refusal_names_a_width_that_fits():
    limit = (memory.resident_bytes() + 3e9) / 1e9
    with pytest.raises(InvalidInput, match=r"width \d+ would fit") as refused:
        check_ensemble(Choices(max_memory=limit, width=10**7), 500, 10, 1)
    width = int(re.search(r"width (\d+) would fit", str(refused.value))[1])
    check_ensemble(Choices(max_memory=limit, width=width // 2), 500, 10, 1)
