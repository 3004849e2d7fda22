"""What infinitely wide networks compute, in closed form or by quadrature."""

from subquad.theory.duals import Dual, dual
from subquad.theory.profile import Profile, profile

__all__ = ["Dual", "Profile", "dual", "profile"]
