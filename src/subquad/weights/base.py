"""What a frozen weight matrix must do: be multiplied, and give columns. Nothing else.

Rows are vectors: `matmul(Y)` is `Y W^T`, `matmul_transpose(Y)` is `Y W`. A kind of weights
that is stored, generated or structured implements this and is used everywhere.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor

from subquad.rows import Rows, SparseRows


class FrozenWeight(ABC):
    """A linear map from m_in to m_out whose entries never change."""

    kind: str
    whole_batch = False
    """Whether a product costs much beside its rows, so that all of them should come at once."""

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int]:
        """(m_out, m_in)."""

    @property
    @abstractmethod
    def dtype(self) -> torch.dtype:
        """Type of products."""

    @property
    @abstractmethod
    def device(self) -> torch.device:
        """Where products are computed."""

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """Bytes that the kind keeps in memory."""

    @abstractmethod
    def matmul(self, rows: Rows) -> Tensor:
        """Return `Y W^T` (n×m_out) for rows Y (n×m_in)."""

    @abstractmethod
    def matmul_transpose(self, rows: Rows, at: SparseRows | None = None) -> Tensor:
        """Return `Y W` (n×m_in) for rows Y (n×m_out), or its entries on the pattern ``at``."""

    @abstractmethod
    def columns(self, index: Tensor) -> Tensor:
        """Return the columns of W at ``index``, one a row (len(index)×m_out)."""

    @abstractmethod
    def dense(self) -> Tensor:
        """Return W (m_out×m_in), for small sizes."""
