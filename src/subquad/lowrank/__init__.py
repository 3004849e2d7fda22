"""The low-rank maintenance structure of the paper, usable alone on any matrix."""

from subquad.lowrank.policies import POLICIES
from subquad.lowrank.structure import LowRankMaintenance

__all__ = ["POLICIES", "LowRankMaintenance"]
