"""Dense weights that stay in a safetensors file: for matrices larger than memory."""

from __future__ import annotations

import json
import math
import os
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from subquad.cost import record
from subquad.errors import InvalidInput, unknown_name
from subquad.rows import Rows, SparseRows, to_dense
from subquad.weights.base import FrozenWeight

BLOCK_BYTES = 1 << 26
"""What a product holds of the matrix at a time."""
GATHER_BELOW = 1 / 16
"""Share of columns under which picking them pays: pages are read whole anyway."""

STORED: dict[str, tuple[np.dtype[Any], torch.dtype]] = {
    "F32": (np.dtype("<f4"), torch.float32),
    "F64": (np.dtype("<f8"), torch.float64),
    "BF16": (np.dtype("<u2"), torch.float32),
}


class MappedWeight(FrozenWeight):
    """W (m_out×m_in) as it lies in a safetensors file, read block by block, as far as needed.

    float32, float64 or bfloat16; the last is computed with in float32. A product with sparse rows
    reads only rows of W in their support (`matmul_transpose`), or picks their columns where these
    are few (`matmul`).

    Args:
        path: a safetensors file; it must not change while the weight is in use.
        name: the tensor, of two axes.
        device: where products are computed.

    Raises:
        InvalidInput: no such file or tensor, not a safetensors file, or another type or shape.
    """

    kind = "mapped"
    whole_batch = True

    def __init__(
        self,
        path: str | os.PathLike[str],
        name: str,
        *,
        device: torch.device | str | None = None,
    ) -> None:
        entry = _find(os.fspath(path), name)
        stored, self._dtype = STORED[entry.dtype]
        self._map = np.memmap(path, stored, "r", entry.offset, entry.shape)
        self._bfloat16 = entry.dtype == "BF16"
        self._device = torch.device("cpu" if device is None else device)

    @property
    def shape(self) -> tuple[int, int]:
        """(m_out, m_in)."""
        return self._map.shape[0], self._map.shape[1]

    @property
    def dtype(self) -> torch.dtype:
        """Type of products."""
        return self._dtype

    @property
    def device(self) -> torch.device:
        """Where products are computed."""
        return self._device

    @property
    def nbytes(self) -> int:
        """Bytes that a product needs for a block: the matrix itself stays in the file."""
        return min(BLOCK_BYTES, self._map.size * self._dtype.itemsize)

    def matmul(self, rows: Rows) -> Tensor:
        """Return `Y W^T`, block of rows of W by block of rows."""
        m_out, m_in = self.shape
        Y = to_dense(rows).to(self.dtype)
        picked: slice | Tensor = slice(None)
        if isinstance(rows, SparseRows):
            union = torch.unique(rows.columns)
            if union.numel() < GATHER_BELOW * m_in:
                picked, Y = union, Y[:, union]
        out = torch.empty(Y.shape[0], m_out, dtype=self.dtype, device=self.device)
        step = self._step(Y.shape[1])
        for low in range(0, m_out, step):
            block = self._read(slice(low, low + step), picked)
            out[:, low : low + step] = Y @ block.T
        self._record("matmul", Y.shape[0], m_out * Y.shape[1])
        return out

    def matmul_transpose(self, rows: Rows, at: SparseRows | None = None) -> Tensor:
        """Return `Y W`, or its entries on ``at``, reading only rows of W in Y's support."""
        m_in = self.shape[1]
        n = rows.shape[0]
        if isinstance(rows, SparseRows):
            support = torch.unique(rows.columns)
        else:
            support = (rows != 0).any(0).nonzero()[:, 0]
        Y = to_dense(rows).to(self.dtype)
        out = torch.zeros(n, m_in, dtype=self.dtype, device=self.device)
        step = self._step(m_in)
        for low in range(0, support.numel(), step):
            part = support[low : low + step]
            out.addmm_(Y[:, part], self._read(part, slice(None)))
        self._record("matmul_transpose", n, support.numel() * m_in)
        return out if at is None else out[at.owners, at.columns]

    def columns(self, index: Tensor) -> Tensor:
        """Return the columns of W at ``index``, one a row."""
        return self._read(slice(None), index).T.contiguous()

    def dense(self) -> Tensor:
        """Return W, for sizes that fit."""
        return self._read(slice(None), slice(None))

    def _read(self, part: slice | Tensor, columns: slice | Tensor) -> Tensor:
        """Copy rows and columns of W out of the file."""
        block = self._map[part if isinstance(part, slice) else part.cpu().numpy()]
        if not isinstance(columns, slice):
            block = block[:, columns.cpu().numpy()]
        found = np.array(block)
        if self._bfloat16:
            return torch.from_numpy(found).view(torch.bfloat16).to(self.device, self.dtype)
        return torch.from_numpy(found).to(self.device)

    def _step(self, width: int) -> int:
        return max(1, BLOCK_BYTES // (max(width, 1) * self.dtype.itemsize))

    def _record(self, name: str, n: int, reads: int) -> None:
        record(name, flops=2 * n * reads, bytes=self._map.itemsize * reads)


@dataclass(frozen=True)
class _Entry:
    dtype: str
    shape: tuple[int, int]
    offset: int  # of its first byte in the file


def _find(path: str, name: str) -> _Entry:
    """Return where a tensor lies, after checking what the file says against what it is."""
    try:
        size = os.path.getsize(path)
        with open(path, "rb") as file:
            length = int.from_bytes(file.read(8), "little")
            if size < 8 or length > size - 8:
                raise InvalidInput(f"{path} is no safetensors file: its header has no end")
            header = json.loads(file.read(length))
    except OSError as error:
        raise InvalidInput(f"cannot read {path}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        if isinstance(error, InvalidInput):
            raise
        raise InvalidInput(f"{path} is no safetensors file: its header is no JSON") from None
    if not isinstance(header, dict):
        raise InvalidInput(f"{path} is no safetensors file: its header is no JSON object")
    header.pop("__metadata__", None)
    if name not in header:
        raise unknown_name(f"tensor of {path}", name, header)
    entry = header[name]
    try:
        dtype, shape, (begin, end) = str(entry["dtype"]), entry["shape"], entry["data_offsets"]
        sound = all(type(k) is int and k >= 0 for k in (*shape, begin, end))
    except (KeyError, TypeError, ValueError):
        sound = False
    if not sound:
        raise InvalidInput(f"{path}: the header's entry for {name!r} is not complete")
    count = math.prod(shape)
    if dtype not in STORED:
        raise InvalidInput(
            f"{name!r} in {path} must be float32, float64 or bfloat16, got {dtype}: convert it"
        )
    if len(shape) != 2 or count < 1:
        raise InvalidInput(
            f"{name!r} in {path} must be a matrix (m_out, m_in) without empty sides, "
            f"got shape {tuple(shape)}"
        )
    first = 8 + length + begin
    itemsize = STORED[dtype][0].itemsize
    if end - begin != count * itemsize or first + count * itemsize > size:
        raise InvalidInput(f"{path} is damaged: {name!r} does not fit the bytes it is given")
    return _Entry(dtype, (shape[0], shape[1]), first)
