"""Inputs that both sketches are tested with."""

import warnings

import scipy.sparse
import torch
from torch import Tensor

from subquad.rows import SparseRows

F64 = torch.float64


def random(
    n: int, m: int, *, seed: int = 0, share: float = 1.0, dtype: torch.dtype = F64
) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    rows = torch.randn(n, m, generator=generator, dtype=dtype)
    return rows * (torch.rand(n, m, generator=generator) < share)


def forms(matrix: Tensor) -> dict[str, object]:
    """The same matrix as everything that a sketch accepts."""
    rows = SparseRows.from_dense(matrix)
    parts = (rows.values.numpy(), rows.columns.numpy(), rows.start.numpy())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch says once that its CSR tensors are in beta
        csr = torch.sparse_csr_tensor(
            rows.start, rows.columns, rows.values, size=matrix.shape, check_invariants=False
        )
    return {
        "dense": matrix,
        "numpy": matrix.numpy(),
        "view": matrix.T.contiguous().T,
        "rows": rows,
        "torch csr": csr,
        "scipy csr": scipy.sparse.csr_array(parts, shape=tuple(matrix.shape)),
    }


def broken(start: list[int], columns: list[int], count: int) -> SparseRows:
    values = torch.ones(count, dtype=F64)
    return SparseRows(torch.tensor(start), torch.tensor(columns), values, 4)


# (U, V, groups, message) for a sketch with m1 = 4 and m2 = 3
BAD_ROWS: list[tuple[object, object, object, str]] = [
    (random(2, 5), random(2, 3), None, r"U must have rows of length m1 = 4, got shape \(2, 5\)"),
    (random(2, 4), random(2, 4), None, "V must have rows of length m2 = 3"),
    (random(2, 4)[0], random(2, 3), None, "U must have rows of length m1 = 4"),
    (random(2, 4), random(3, 3), None, "same number of rows: got 2 and 3"),
    (random(2, 4).float(), random(2, 3), None, "same dtype"),
    (random(2, 4), random(2, 3).to("meta"), None, "same device"),
    (random(2, 4).int(), random(2, 3), None, r"U must be float32 or float64, got torch\.int32"),
    (random(2, 4).half(), random(2, 3), None, r"convert it with \.double\(\)"),
    ("rows", random(2, 3), None, "U is a str"),
    (broken([0, 1, 3], [0, 1], 2), random(2, 3), None, "U is no valid CSR matrix: its row starts"),
    (broken([0, 2, 1], [0], 1), random(2, 3), None, "U is no valid CSR matrix: its row starts"),
    (broken([0, 1, 2], [0, 4], 2), random(2, 3), None, "U has column indices outside 0 … 3"),
    (broken([0, 1, 2], [-1, 0], 2), random(2, 3), None, "U has column indices outside 0 … 3"),
    (random(2, 4), random(2, 3), [0], "groups must name one group a row, 2 in all"),
    (random(2, 4), random(2, 3), [[0, 1]], "groups must name one group a row"),
    (random(2, 4), random(2, 3), [0, -1], "groups must not be negative, got -1"),
    (random(2, 4), random(2, 3), [0.0, 1.0], "groups must be integers"),
    (random(2, 4), random(2, 3), [True, False], "groups must be integers"),
    (random(2, 4), random(2, 3), "ab", "groups must be a tensor of integers, got str"),
]

BAD_SIZES: list[tuple[dict[str, object], str]] = [
    ({"m1": 0}, r"m1 must be an integer in 1\.\.2147483647, got 0"),
    ({"m1": 2**31}, "m1 must be an integer in"),
    ({"m2": 2.0}, r"m2 must be an integer in 1\.\.2147483647, got 2\.0"),
    ({"s": -1}, "s must be an integer in"),
    ({"s": True}, "s must be an integer in .*, got True"),
    ({"seed": -1}, "seed must be an integer 0 or more, got -1"),
    ({"seed": None}, "seed must be an integer 0 or more, got None"),
]
