"""`subquad bench accuracy`: learning from small real tables, beside tuned peers.

Every peer gets the same rows of the same folds: five, stratified for classes, twice. It tunes
itself on three inner folds of the training rows alone, on one thread, within the same seconds.
Results are kept cell by cell (set, peer, repeat, fold); a run that is stopped goes on where it
was, and cells are computed again only where set, peer, its version or its grid changed.
"""

from subquad.bench.accuracy.run import run, show

__all__ = ["run", "show"]
