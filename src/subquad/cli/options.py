"""Options that several commands share, and where their output goes."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from subquad.errors import InvalidInput, unknown_name

MOST_THREADS = 1024
"""Above, thread libraries fail without a word."""

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress on stderr.")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="More detail on stderr.")]
Seed = Annotated[int, typer.Option(min=0, help="Seed of everything random.")]
Threads = Annotated[
    int | None,
    typer.Option(min=1, max=MOST_THREADS, help="CPU threads to use.", show_default="all cores"),
]


def at_least_zero(value: float | None) -> float | None:
    """Option callback: refuse what is not a finite number from 0 on."""
    if value is None or 0 <= value < math.inf:
        return value
    raise typer.BadParameter(f"must be a finite number >= 0, got {value}")


def share(value: float | None) -> float | None:
    """Option callback: refuse what does not lie between 0 and 1."""
    if value is None or 0 < value < 1:
        return value
    raise typer.BadParameter(f"must lie between 0 and 1, got {value}")


def auto_or(kind: type[int] | type[float]) -> Any:
    """Option that is "auto" or a number: whole and at least 1, or at least 0."""
    rule = "a whole number >= 1" if kind is int else "a finite number >= 0"

    def check(value: str) -> str:
        try:
            if value == "auto" or (1 if kind is int else 0) <= kind(value) < math.inf:
                return value
        except ValueError:
            pass
        raise typer.BadParameter(f"must be auto or {rule}, got {value!r}")

    return {"callback": check, "metavar": "auto|" + ("N" if kind is int else "X")}


def number_in(text: str, kind: type[int] | type[float]) -> Any:
    """The number that such an option holds, or "auto"."""
    return text if text == "auto" else kind(text)


def one_of(kind: str, *names: str) -> Any:
    """Option of one of the names; another is refused, with the nearest that is one."""

    def check(value: str | None) -> str | None:
        if value is None or value in names:
            return value
        raise typer.BadParameter(str(unknown_name(kind, value, names)))

    return {
        "callback": check,
        "metavar": "|".join(names),
        "autocompletion": lambda: list(names),
    }


class Output:
    """Where a command writes: words to stderr, results to stdout."""

    def __init__(self, *, quiet: bool = False, verbose: bool = False) -> None:
        if quiet and verbose:
            raise InvalidInput("--quiet and --verbose exclude each other: give one")
        self.quiet, self.verbose = quiet, verbose

    def say(self, text: str) -> None:
        """A line about the progress of the work."""
        if not self.quiet:
            print(text, file=sys.stderr, flush=True)

    def detail(self, text: str) -> None:
        """A line for those who asked for more."""
        if self.verbose:
            print(text, file=sys.stderr, flush=True)

    def warn(self, text: str) -> None:
        """A line that is shown even when quiet."""
        print(f"subquad: {' '.join(text.split())}", file=sys.stderr, flush=True)

    def result(self, text: str) -> None:
        """A result for people."""
        _to_stdout(text)

    def json(self, content: Mapping[str, Any]) -> None:
        """The result for machines."""
        from subquad.runs.atomic import plain

        _to_stdout(json.dumps(plain(content), allow_nan=False))


def _to_stdout(text: str) -> None:
    try:
        print(text, flush=True)
    except OSError as error:  # its own words name no file
        raise OSError(error.errno, error.strerror, "standard output") from None


def use_threads(threads: int | None) -> None:
    """Let torch, and what follows it, use this many CPU threads."""
    if threads is not None:
        import torch

        torch.set_num_threads(threads)


def check_out_file(path: Path, *, inputs: tuple[Path, ...] = ()) -> None:
    """Refuse, before any work, a result file that cannot be written or would eat its input."""
    if path.is_dir():
        raise InvalidInput(f"{path} is a folder: give a file to write to")
    if not path.parent.is_dir():
        raise InvalidInput(f"there is no folder {path.parent}: make it or give another")
    if any(path.exists() and source.exists() and path.samefile(source) for source in inputs):
        raise InvalidInput(f"{path} is the input itself: give another file to write to")
