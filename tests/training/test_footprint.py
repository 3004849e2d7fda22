"""The estimate of memory against real jobs, each in a process of its own."""

import math
import subprocess
import sys
from dataclasses import replace

import pytest
import torch

from subquad import GELU, InvalidInput, ShiftedReLU, WideNet, memory, train
from subquad.training import footprint
from subquad.training.fixedinputs import FixedInputs
from subquad.training.footprint import Job, fitting
from tests.oracles import targets, unit_rows

SCRIPT = """
import sys, torch
from pathlib import Path
from subquad import ShiftedReLU, WideNet, memory, train
from subquad.training import footprint

width, samples, max_memory, options = eval(sys.argv[1])

def run(width, samples, **more):
    X = torch.nn.functional.normalize(torch.randn(samples, 16, generator=torch.manual_seed(0)))
    y = torch.randn(samples, generator=torch.manual_seed(1))
    net = WideNet(16, width, activation=ShiftedReLU(1.0))
    return train(net, X, y, tol=1e-5, max_iter=5, **options, **more)

def peak():
    fields = dict(line.split(":", 1) for line in open("/proc/self/status"))
    return 1024 * int(fields["VmHWM"].split()[0])

jobs, fitting = [], footprint.fitting
def watched(job, *given, **named):
    jobs.append(job)
    return fitting(job, *given, **named)

footprint.fitting = watched
run(512, 16)  # loads what is loaded on demand
Path("/proc/self/clear_refs").write_text("5")  # forgets what compiling took
before = memory.resident_bytes()
if max_memory is None:
    run(width, samples)
    print(peak() - before, jobs[-1].peak())
else:
    least = footprint.BLOCKS[-1]
    jobs.append(footprint.Job.on(WideNet(16, width, activation=ShiftedReLU(1.0)), samples,
        state=max_memory))
    room = before + 1.05 * jobs[-1].peak(least)
    try:
        run(width, samples, max_memory=(before + 0.5 * jobs[-1].peak(least)) / 1e9)
    except ValueError:
        run(width, samples, max_memory=room / 1e9)
        print(peak() - before, room - before)
"""


def measure(*setting: object) -> tuple[float, float]:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, repr(setting)], capture_output=True, text=True, check=True
    )
    measured, estimate = (float(word) for word in done.stdout.split())
    return measured, estimate


@pytest.mark.skipif(not memory.resident_bytes(), reason="the system does not tell")
@pytest.mark.parametrize(
    ("width", "samples", "options"),
    [
        (1 << 16, 256, {}),
        (1 << 17, 128, {}),
        (1 << 15, 256, {"ridge": 0.1}),
        (1 << 16, 128, {"method": "paper"}),
        (1 << 14, 128, {"layers": "all"}),
        (1 << 14, 64, {"layers": "all", "ridge": 0.1}),
    ],
)
def test_estimates_are_honest(width: int, samples: int, options: dict[str, object]) -> None:
    measured, estimate = measure(width, samples, None, options)
    assert measured <= 1.15 * estimate
    assert estimate <= 2 * measured


@pytest.mark.skipif(not memory.resident_bytes(), reason="the system does not tell")
@pytest.mark.parametrize(("state", "options"), [("bits", {}), ("maintained", {"method": "paper"})])
def test_a_job_stays_within_little_memory(state: str, options: dict[str, object]) -> None:
    measured, room = measure(1 << 16, 128, state, options)
    assert measured <= room


@pytest.mark.parametrize("activation", [ShiftedReLU(0.7), ShiftedReLU(0.0), GELU()], ids=str)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"ridge": 0.01},
        {"method": "paper"},
        {"layers": "all"},
        {"layers": "all", "ridge": 0.01},
        {"flush": "lazy-columns"},
    ],
    ids=str,
)
def test_blocks_change_nothing_but_rounding(
    activation: ShiftedReLU, options: dict[str, object]
) -> None:
    if "flush" in options:
        options = {**options, "method": "paper"}
    net = WideNet(6, 300, 3, activation=activation, weights="dense", dtype=torch.float64)
    X, y = unit_rows(9, 6), targets(9)
    whole = train(net, X, y, max_iter=3, **options)  # type: ignore[arg-type]
    for size in (1.0, 30000.0):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(footprint, "fitting", lambda *given, size=size: size)
            parts = train(net, X, y, max_iter=3, **options)  # type: ignore[arg-type]
        for a, b in zip(whole.residuals, parts.residuals, strict=True):
            assert abs(a - b) <= 1e-12
        # Rounding at the start, amplified by a few nearly singular systems.
        assert torch.allclose(whole.predict(X), parts.predict(X), atol=1e-10)


def test_fixed_inputs_in_blocks() -> None:
    X = unit_rows(9, 6)
    for weights in ("dense", "gaussian", "hadamard"):
        net = WideNet(6, 300, 3, weights=weights, dtype=torch.float64)
        whole = FixedInputs(net, X)
        with memory.blocks(5000):
            parts = FixedInputs(net, X)
        assert torch.allclose(whole.Z, parts.Z, atol=1e-12)
        assert torch.allclose(whole.kernel, parts.kernel, atol=1e-12)
        assert whole.firing == pytest.approx(parts.firing)


JOB = Job(
    features=16,
    widths=(1 << 14, 1 << 14),
    outputs=1,
    samples=200,
    kind="dense",
    item=4,
    activation=ShiftedReLU(1.0),
    state="bits",
)


def test_refusal_names_what_would_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "resident_bytes", lambda: 0.3e9)
    with pytest.raises(InvalidInput, match=r"max_memory is 1 GB: width \d+ would fit; w") as caught:
        fitting(JOB, 1.0, made=False)
    assert "\n" not in str(caught.value)
    width = int(str(caught.value).split("width ")[2].split()[0])
    assert 1 << 10 < width < 1 << 14
    assert fitting(replace(JOB, widths=(width, width)), 1.0, made=False) <= math.inf
    assert "weights='hadamard' would" in str(caught.value)
    assert fitting(replace(JOB, kind="hadamard"), 1.0, made=False) <= math.inf
    with pytest.raises(InvalidInput, match=r"too large, \d+ rows would fit; or raise"):
        fitting(replace(JOB, samples=10**5, kind="hadamard"), 2.0)
    with pytest.raises(InvalidInput, match=r"max_memory is 0.1 GB: raise max_memory"):
        fitting(replace(JOB, kind="hadamard"), 0.1)


def test_blocks_follow_from_the_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "resident_bytes", lambda: 0.3e9)
    job = replace(JOB, kind="hadamard", widths=(1 << 16, 1 << 16), samples=1000, state="samples")
    assert fitting(job, 100) == math.inf
    least = (0.3e9 + footprint.COMPILED + job.peak(1 << 20)) / 1e9
    assert fitting(job, 1.01 * least) < 1 << 27


def test_more_of_anything_takes_more() -> None:
    for state in ("bits", "samples", "maintained"):
        job = replace(JOB, state=state)
        for change in (
            {"samples": 400},
            {"widths": (1 << 15, 1 << 15)},
            {"item": 8},
            {"left_out": True, "samples": 20000, "outputs": 2},
        ):
            assert replace(job, **change).peak() > job.peak()
    maintained = replace(JOB, state="maintained")
    for change in ({"trained": 2}, {"written": True}, {"sketched": True}, {"outputs": 3}):
        assert replace(maintained, **change).peak() > maintained.peak()
    assert replace(JOB, state="samples", ridge=True).peak() > replace(JOB, state="samples").peak()
    assert replace(JOB, kind="given", given=10**10).stored == 10**10


def test_train_and_networks_refuse_before_any_work() -> None:
    net = WideNet(6, 4096, 2)
    with pytest.raises(InvalidInput, match="raise max_memory"):
        train(net, unit_rows(9, 6), targets(9), max_memory="1MB")
    with pytest.raises(InvalidInput, match="max_memory must be"):
        train(net, unit_rows(9, 6), targets(9), max_memory="much")
    with (
        memory.limit(4),
        pytest.raises(InvalidInput, match=r"dense weights .* take 80 GB, .* width [12]\d000 "),
    ):
        WideNet(6, 100000, 3, weights="dense")
