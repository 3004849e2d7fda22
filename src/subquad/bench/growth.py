"""How much memory a training run takes, measured in a process of its own.

`python -m subquad.bench.growth CASE` trains a small network first, so that libraries and compiled
kernels are in memory, then the case, and prints by how many bytes the process grew at most.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path

import torch

from subquad.bench.onerun import Case
from subquad.bench.widest import peak_rss_gb

SMALL = 256
"""Width of the network that is trained first."""


def peak_growth(case: Case) -> int | None:
    """Most bytes that the case takes beyond an idle process; None where the system tells none."""
    if peak_rss_gb() is None:
        return None
    given = json.dumps({"case": asdict(case), "threads": torch.get_num_threads()})
    command = [sys.executable, "-m", __name__, given]
    # The package may have come from a path that only this process knows.
    paths = os.pathsep.join(path for path in sys.path if path)
    done = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": paths}
    )
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed: {done.stderr.strip()}")
    return int(done.stdout)


def resident(field: str = "VmRSS") -> int:
    """Bytes that this process holds now, or most that it has held ("VmHWM").

    Linux's `ru_maxrss` is no use here: a new process inherits that of the one that started it.
    Where there is no /proc it is all there is, and stands for both.
    """
    try:
        lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    except OSError:
        return round(1e9 * (peak_rss_gb() or 0.0))
    fields = dict(line.split(":", 1) for line in lines)
    return 1024 * int(fields[field].split()[0])


def main() -> None:
    """Print the growth for the case that the command line holds."""
    given = json.loads(sys.argv[1])
    torch.set_num_threads(given["threads"])
    case = Case(**given["case"])
    small = replace(case, width=min(SMALL, case.width), samples=min(16, case.samples), shift=0.5)
    small.train(small.net())
    before = resident()
    case.train(case.net())
    print(resident("VmHWM") - before)


if __name__ == "__main__":
    main()
