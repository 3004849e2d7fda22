"""Generated and sparse weights in plain PyTorch; the twin of ``weights_numba``.

Generated Gaussians: entry (r, c) of W is `scale * g`, g standard normal and a pure function of
(key, r, c). Philox4x32-10 (Salmon, Moraes, Dror, Shaw 2011, "Parallel random numbers: as easy
as 1, 2, 3") turns the counter (16 (r // 64) + r % 16, c, 0, 0) into four words, of which word
(r // 16) % 4 is the entry's. The word's top bit is the sign and its other bits x give
`g = -Phi^-1((2 x + 1) / 2^33)` by a table of cubics: sums and products in one fixed order, so
the bits are the same in any order, on any number of threads and in both twins.
"""

from __future__ import annotations

from statistics import NormalDist

import numpy as np
import torch
from torch import Tensor

from subquad.rows import SparseRows

GROUP = 64  # rows that share their Philox calls: four words from each of sixteen counters
LANES = 16
STEPS = 4  # the table cuts every octave of the tail probability into 2^STEPS pieces
BLOCK = 1 << 22  # numbers generated at a time
ENTRY_COST = 32  # compiled, an entry by itself takes the time of so many in a column: no vectors

MULTIPLIERS = 0xD2511F53, 0xCD9E8D57
BUMPS = 0x9E3779B9, 0xBB67AE85
ROUNDS = 10
LOW = 0xFFFFFFFF

# The numba twin takes the table in as a constant: after a change, clear its cache.


def _cubics() -> np.ndarray:
    """Coefficients (4×512) of `-Phi^-1(v / 2^33)` for v from 1 to 2^32, piece by piece.

    Piece `16 e + s` is v = 2^e (1 + (s + (t + 1)/2) / 16), t from -1 to 1; the cubic meets the
    function (AS241, Wichura 1988, as Python's statistics module computes it) at the four Chebyshev
    nodes, which leaves 2e-8; in float32 the whole is within 3e-7 up to 4 and 5e-7 beyond.
    """
    nodes = np.cos(np.pi * (np.arange(4) + 0.5) / 4)
    inverse = np.linalg.inv(np.vander(nodes, increasing=True))
    pieces = 1 << STEPS
    octave, step = np.divmod(np.arange(32 * pieces), pieces)
    v = np.exp2(octave)[:, None] * (1 + (step[:, None] + (nodes + 1) / 2) / pieces)
    quantile = NormalDist().inv_cdf
    values = np.array([[-quantile(p) for p in row] for row in v / 2.0**33])
    return (values @ inverse.T).T.astype(np.float32)


CUBICS = _cubics()


def philox(
    counter: tuple[Tensor, Tensor, Tensor, Tensor], key: tuple[int, int]
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Philox4x32-10 on int64 tensors that hold 32-bit words."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(ROUNDS):
        # Products of two words overflow int64 only in sign, which the masks take away.
        p0, p1 = c0 * MULTIPLIERS[0], c2 * MULTIPLIERS[1]
        c0, c1, c2, c3 = (
            ((p1 >> 32) ^ c1 ^ k0) & LOW,
            p1 & LOW,
            ((p0 >> 32) ^ c3 ^ k1) & LOW,
            p0 & LOW,
        )
        k0, k1 = (k0 + BUMPS[0]) & LOW, (k1 + BUMPS[1]) & LOW
    return c0, c1, c2, c3


def gaussian_words(index: Tensor, m_out: int, key: tuple[int, int]) -> Tensor:
    """Return the 32-bit words of whole columns, one a row (len(index)×m_out), as int64."""
    groups = -(-m_out // GROUP)
    block = torch.arange(groups * LANES, device=index.device)[None, :]
    zero = torch.zeros_like(block)
    words = philox((block, index[:, None], zero, zero), key)
    lanes = [w.expand(index.numel(), -1).reshape(-1, groups, 1, LANES) for w in words]
    return torch.cat(lanes, 2).reshape(index.numel(), groups * GROUP)[:, :m_out]


def normals(words: Tensor) -> Tensor:
    """Return the standard normals (float32) of 32-bit words (int64)."""
    bits = (((words << 1) & LOW) | 1).double().view(torch.int64)
    piece = (bits >> (52 - STEPS)) - (1023 << STEPS)
    t = (((bits >> (20 - STEPS)) & LOW) - (1 << 31)).float() * 2.0**-31
    a0, a1, a2, a3 = torch.from_numpy(CUBICS).to(words.device)[:, piece]
    z = a0 + t * (a1 + t * (a2 + t * a3))
    return torch.where(words >> 31 == 0, z, -z)


def support(rows: SparseRows) -> tuple[Tensor, Tensor]:
    """Return the columns that any row uses, ascending, and each entry's place among them."""
    used = torch.zeros(rows.width, dtype=torch.bool, device=rows.device)
    used[rows.columns] = True
    return used.nonzero()[:, 0], (used.cumsum(0) - 1)[rows.columns]


def gaussian_columns(
    index: Tensor, m_out: int, key: tuple[int, int], scale: float, dtype: torch.dtype
) -> Tensor:
    """Return columns of W, one a row (len(index)×m_out)."""
    out = torch.empty(index.numel(), m_out, dtype=dtype, device=index.device)
    step = max(1, BLOCK // m_out)
    for low in range(0, index.numel(), step):
        words = gaussian_words(index[low : low + step], m_out, key)
        out[low : low + step] = normals(words).to(dtype) * scale
    return out


def gaussian_matmul(rows: SparseRows, m_out: int, key: tuple[int, int], scale: float) -> Tensor:
    """Return `rows W^T` (n×m_out), generating only the columns in the rows' support."""
    out = torch.zeros(rows.shape[0], m_out, dtype=rows.dtype, device=rows.device)
    union, slots = support(rows)
    step = max(1, BLOCK // m_out)
    for low in range(0, union.numel(), step):
        index = union[low : low + step]
        kept = (slots >= low) & (slots < low + step)
        part = torch.zeros(rows.shape[0], index.numel(), dtype=rows.dtype, device=rows.device)
        part[rows.owners[kept], slots[kept] - low] = rows.values[kept]
        out += part @ gaussian_columns(index, m_out, key, scale, rows.dtype)
    return out


def gaussian_transpose(rows: SparseRows, m_in: int, key: tuple[int, int], scale: float) -> Tensor:
    """Return `rows W` (n×m_in) for rows over m_out."""
    n, m_out = rows.shape
    out = torch.empty(n, m_in, dtype=rows.dtype, device=rows.device)
    dense = rows.dense()
    step = max(1, BLOCK // m_out)
    for low in range(0, m_in, step):
        index = torch.arange(low, min(low + step, m_in), device=rows.device)
        out[:, index] = dense @ gaussian_columns(index, m_out, key, scale, rows.dtype).T
    return out


def gaussian_transpose_at(
    rows: SparseRows, pattern: SparseRows, key: tuple[int, int], scale: float
) -> Tensor:
    """Return the entries of `rows W` on ``pattern``: sample i generates its own S×S block."""
    out = torch.empty(pattern.nnz, dtype=rows.dtype, device=rows.device)
    for i in range(rows.shape[0]):
        part = slice(int(rows.start[i]), int(rows.start[i + 1]))
        kept = slice(int(pattern.start[i]), int(pattern.start[i + 1]))
        r, c = rows.columns[part][:, None], pattern.columns[kept][None, :]
        counter = (r // GROUP) * LANES + r % LANES
        zero = torch.zeros_like(counter)
        words = torch.stack(philox((counter, c, zero, zero), key))
        which = (r // LANES % 4)[None].expand(1, *words.shape[1:])
        block = normals(words.gather(0, which)[0]).to(rows.dtype) * scale
        out[kept] = rows.values[part] @ block
    return out


# Sparse weights come as their ``table``: W^T as sparse rows, one for each column of W.


def sparse_matmul(table: SparseRows, rows: SparseRows) -> Tensor:
    """Return `rows W^T` (n×m_out)."""
    out = torch.zeros(rows.shape[0], table.width, dtype=rows.dtype, device=rows.device)
    for i in range(rows.shape[0]):
        part = slice(int(rows.start[i]), int(rows.start[i + 1]))
        read = table[rows.columns[part]]
        out[i].index_add_(0, read.columns, read.scale(rows.values[part]).values)
    return out


def sparse_transpose(table: SparseRows, rows: SparseRows) -> Tensor:
    """Return `rows W` (n×m_in) for rows over m_out."""
    dense, owners = rows.dense(), table.owners
    out = torch.zeros(rows.shape[0], table.shape[0], dtype=rows.dtype, device=rows.device)
    for i in range(rows.shape[0]):
        out[i].index_add_(0, owners, table.values * dense[i, table.columns])
    return out


def sparse_transpose_at(table: SparseRows, rows: SparseRows, pattern: SparseRows) -> Tensor:
    """Return the entries of `rows W` on ``pattern``."""
    dense = rows.dense()
    out = torch.zeros(pattern.nnz, dtype=rows.dtype, device=rows.device)
    for i in range(rows.shape[0]):
        kept = slice(int(pattern.start[i]), int(pattern.start[i + 1]))
        read = table[pattern.columns[kept]]
        out[kept].index_add_(0, read.owners, read.values * dense[i, read.columns])
    return out
