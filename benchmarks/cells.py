"""Put the results that `subquad bench accuracy` keeps, one file a cell, into one file of lines.

    python benchmarks/cells.py CACHE > benchmarks/results/accuracy-cells.jsonl

`subquad bench accuracy --ledger FILE` counts them where its own folder has none, so that hours of
other peers' tuning need not be spent again. Ours are left out: they change with the source.
"""

import json
import sys
from pathlib import Path

OURS = "subquad"


def main(cache: Path) -> None:
    for path in sorted(cache.glob("*/*/*/*.json")):
        if path.parent.name != OURS:
            entry = {"cell": path.relative_to(cache).as_posix(), **json.loads(path.read_text())}
            print(json.dumps(entry, separators=(",", ":")))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
