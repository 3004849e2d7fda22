"""The command line as a whole: its surface, its speed, how it ends."""

import contextlib
import signal
import subprocess
import sys

import pytest
from typer.main import get_command

import subquad
from subquad.cli.app import _ending, app
from subquad.errors import TrainingFailed

SURFACE = {
    "demo": "--out --seed --threads --json --quiet -q --verbose -v",
    "fit": "DATA --target --out --task --width --depth --shift --weights --layers --method "
    "--ridge --encoding --metric --members --validation --groups --class-weight --solver --flush "
    "--tol --max-iter --max-memory --seed --threads --json --quiet -q --verbose -v",
    "predict": "DIR DATA --out --std --interval --threads --json --quiet -q --verbose -v",
    "report": "DIR --verbose -v",
    "bench": "NAME --quick --method --width --samples --depth --shift --weights --size --rows "
    "--jobs --peers --data --repeats --cache --ledger --seed --threads --json --verbose -v",
    "env": "--json --verbose -v",
}


def test_surface_is_frozen():
    commands = get_command(app).commands
    found = {}
    for name, command in commands.items():
        names = [
            [parameter.metavar] if parameter.param_type_name == "argument" else parameter.opts
            for parameter in command.params
        ]
        found[name] = " ".join(option for options in names for option in options)
    assert found == SURFACE


def test_every_option_and_command_has_help():
    for command in get_command(app).commands.values():
        assert command.help
        assert all(getattr(parameter, "help", None) for parameter in command.params)


def test_help_and_import_are_light(start):
    heavy = "('torch', 'sklearn', 'numba', 'scipy', 'pyarrow')"
    code = f"import sys, subquad.cli.app; print([m for m in {heavy} if m in sys.modules])"
    assert start(code=code).stdout == "[]\n"
    shown = start("--help")
    assert shown.returncode == 0
    assert all(name in shown.stdout for name in SURFACE)
    assert shown.stderr == ""


def test_version_and_no_arguments(call):
    assert call("--version") == (0, f"subquad {subquad.__version__}\n", "")
    code, out, err = call()
    assert (code, err) == (0, "")
    assert "Usage: subquad" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["fti"], "No such command 'fti'. Did you mean 'fit'?"),
        (["fit", "x.csv", "--targte", "y"], "No such option: --targte: did you mean --target?"),
        (["fit", "x.csv"], "Missing option '--target'"),
        (["fit", "x.csv", "--target"], "Option '--target' requires an argument"),
        (["predict"], "Missing argument 'DIR'"),
        (["env", "more"], "unexpected extra argument"),
        (["demo", "--threads", "0"], "Invalid value for '--threads'"),
        (["demo", "--threads", "100000"], "Invalid value for '--threads'"),
        (["bench", "scaling", "--shift", "nan"], "must be a finite number >= 0, got nan"),
        (["bench", "skech"], "did you mean 'sketch'"),
        (["demo", "-q", "-v"], "--quiet and --verbose exclude each other"),
    ],
)
def test_bad_usage(call, arguments, message):
    code, out, err = call(*arguments)
    assert code == 2
    assert out == ""
    assert err.startswith("subquad: ")
    assert message in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (TrainingFailed("training failed:\nadd ridge"), 1, "subquad: training failed: add ridge"),
        (MemoryError(), 1, "subquad: not enough memory"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory"), 1, "not enough memory"),
        (OSError(28, "No space left on device", "a/b"), 1, "subquad: a/b: No space left"),
        (ZeroDivisionError("oops"), 1, "fault of subquad, ZeroDivisionError: oops"),
        (KeyboardInterrupt(), 130, "subquad: interrupted"),
    ],
)
def test_every_ending_is_one_line(call, monkeypatch, error, code, message):
    def fail(*arguments, **options):
        raise error

    monkeypatch.setattr("subquad.cli.env.collect", fail)
    ended, out, err = call("env")
    assert (ended, out) == (code, "")
    assert message in err
    assert err.count("\n") == 1


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/dev/full")
def test_a_full_disk_behind_standard_output_is_named(monkeypatch):
    from subquad.cli.options import Output

    with open("/dev/full", "w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        with pytest.raises(OSError, match="standard output") as caught:
            Output().result("x" * 10000)
        monkeypatch.undo()
        assert _ending(caught.value) == (1, "standard output: No space left on device")
        with contextlib.suppress(OSError):
            full.close()


def test_verbose_shows_where_a_fault_is(call, monkeypatch, tables, tmp_path):
    def fail(*arguments, **options):
        raise ZeroDivisionError

    monkeypatch.setattr("subquad.tables.read.read_table", fail)
    arguments = ("fit", tables["regression"], "--target", "y", "--out", tmp_path / "run")
    assert "Traceback" not in call(*arguments)[2]
    assert "Traceback" in call(*arguments, "-v")[2]


def test_warnings_are_one_line(call, monkeypatch):
    import warnings

    def warn(*arguments, **options):
        warnings.warn("look\nout", UserWarning, stacklevel=1)
        return {}

    monkeypatch.setattr("subquad.cli.env.collect", warn)
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        assert call("env") == (0, "", "subquad: warning: look out\n")


def test_notes_of_the_library_are_shown_once(call, monkeypatch):
    import logging

    log = logging.getLogger("subquad")

    def note(*arguments, **options):
        for k in range(3):
            log.warning("iteration %d: singular", k + 1)
        return {}

    monkeypatch.setattr("subquad.cli.env.collect", note)
    assert call("env")[2] == "subquad: note: iteration 1: singular\n"
    assert log.handlers == []


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_interrupt_ends_with_130_and_one_line(tables, tmp_path):
    code = (
        "import sys, signal, subquad.runs.ensemble as e\n"
        # A shell's background jobs, and all they start, ignore interrupts.
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "def slow(*a, **k):\n"
        "    print('training', flush=True)\n"
        "    import time; time.sleep(60)\n"
        "e.fit_ensemble = slow\n"
        "from subquad.cli.app import main; sys.exit(main())"
    )
    out = tmp_path / "run"
    arguments = ["fit", str(tables["regression"]), "--target", "y", "--out", str(out)]
    process = subprocess.Popen(
        [sys.executable, "-c", code, *arguments, "-q"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "training\n"
    process.send_signal(signal.SIGINT)
    rest, err = process.communicate(timeout=60)
    assert (process.returncode, rest) == (130, "")
    assert err == "subquad: interrupted: nothing more was written\n"
    assert list(out.iterdir()) == []


def test_completion(start):
    words = {"COMP_WORDS": "subquad fit --wi", "COMP_CWORD": "2"}
    code = "import sys; from subquad.cli.app import main; sys.exit(main())"
    shown = start(code=code, _SUBQUAD_COMPLETE="complete_bash", **words)
    assert shown.stdout.split() == ["--width"]


def test_environment(call):
    import json

    code, out, err = call("env", "--json")
    assert (code, err) == (0, "")
    facts = json.loads(out)
    assert facts["versions"]["subquad"] == subquad.__version__
    assert facts["devices"][0] == "cpu"
    assert facts["threads"]["torch"] >= 1
    assert facts["memory"]["total_gb"] > 0
    assert "torch" in call("env")[1]
