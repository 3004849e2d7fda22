"""What subquad raises and warns about.

Misuse is an exception; a numerical failure is a result with a remedy, which becomes
:class:`TrainingFailed` only where the caller asked for that with ``throw=True``.
"""

import difflib
from collections.abc import Iterable


class SubquadError(Exception):
    """Base of every exception that subquad raises on purpose."""


class InvalidInput(SubquadError, ValueError):
    """An argument, a file or a table breaks a rule; the message says which and what to do."""


class TrainingFailed(SubquadError, RuntimeError):
    """Training ended without reaching its aim and ``throw=True`` was given."""


class DeadSampleWarning(UserWarning):
    """Some samples fire no neuron in some layer, so nothing can be learned from them."""


def unknown_name(kind: str, name: object, known: Iterable[str]) -> InvalidInput:
    """Return the error for a name that is not one of ``known``, with the nearest that is.

    >>> str(unknown_name("flush policy", "spare", ["sparse", "never"]))
    "unknown flush policy 'spare': did you mean 'sparse'? Choose from never, sparse"
    """
    names = sorted(known)
    folded = {known_name.lower(): known_name for known_name in names}
    near = difflib.get_close_matches(str(name).lower(), folded, n=1)
    hint = f" did you mean {folded[near[0]]!r}?" if near else ""
    return InvalidInput(f"unknown {kind} {name!r}:{hint} Choose from {', '.join(names)}")
