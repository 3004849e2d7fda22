"""How much of the change so far a ridge step may take back.

With `rho` in (0, 1] the step is `-J^T q - rho D`, `q = (G + lam / rho I)^{-1} (f - y - rho J D)`:
Levenberg-Marquardt's, `-(J^T J + (lam / rho) I)^{-1} (J^T (f - y) + lam D)`, without m². At rho = 1
it leads to `D' = -J^T q`, the minimum of the linearised problem, which drops all of D that J does
not see. But J moves, and what f makes of that drop is of second order in a change that is not
small: with little ridge only ever shorter steps along it help, and they end far from the minimum.
So a step that had to be shortened makes rho smaller, and one that went all its way larger.
"""

from __future__ import annotations

LEAST = 1e-4
"""Below this a step is hardly more than a gradient's."""


class Damping:
    """`rho`, from how far along its direction each step went."""

    def __init__(self) -> None:
        self._share, self._first, self._last = 1.0, 1.0, 1.0

    @property
    def share(self) -> float:
        """`rho` of a step that starts at the present point."""
        went = self._last / self._first
        return min(1.0, 2 * self._share) if went >= 1 else max(LEAST, self._share * went / 2)

    def aim(self, share: float) -> None:
        """A direction of this `rho` was taken."""
        self._share, self._first = share, 0.0

    def move_to(self, eta: float) -> None:
        """The step went so far along it, the first time or after all."""
        self._first, self._last = self._first or eta, eta
