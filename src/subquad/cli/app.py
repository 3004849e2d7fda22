"""The command line as a whole: which commands there are, and what every ending looks like.

Exit codes: 0 done, 1 the work failed, 2 bad usage or bad input, 130 interrupted. Every error is
one line on stderr; ``-v`` adds the traceback of an error that is ours.
"""

from __future__ import annotations

import logging
import re
import sys
import traceback
import warnings
from collections.abc import Sequence
from typing import Annotated, TextIO

import typer
from typer.main import get_command

from subquad import __version__
from subquad.cli.bench import bench
from subquad.cli.demo import demo
from subquad.cli.env import env
from subquad.cli.fit import fit
from subquad.cli.predict import predict
from subquad.cli.report import report
from subquad.errors import InvalidInput, SubquadError
from subquad.kernels import short_waits

app = typer.Typer(
    name="subquad",
    help="Gauss-Newton training of very wide networks at a cost below width squared.",
    rich_markup_mode="markdown",
)
for _command in (demo, fit, predict, report, bench, env):
    app.command()(_command)


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"subquad {__version__}")
        raise typer.Exit


@app.callback()
def common(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="The version.")
    ] = False,
) -> None:
    """Gauss-Newton training of very wide networks at a cost below width squared."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code."""
    short_waits()
    given = list(sys.argv[1:] if arguments is None else arguments)
    notes = _Notes(logging.WARNING)
    logging.getLogger("subquad").addHandler(notes)
    with warnings.catch_warnings():
        warnings.showwarning = _show_warning
        try:
            code = get_command(app).main(given or ["--help"], "subquad", standalone_mode=False)
            return _interrupted() if code == 130 else int(code or 0)
        except (KeyboardInterrupt, typer.Abort):
            return _interrupted()
        except typer.Exit as stop:
            return int(stop.exit_code)
        except Exception as error:
            code, line = _ending(error)
            if code == 1 and {"-v", "--verbose"} & set(given):
                traceback.print_exc()
            _line(line)
            return code
        finally:
            logging.getLogger("subquad").removeHandler(notes)


class _Notes(logging.Handler):
    """Shows what the library logs, once however many iterations say it."""

    def __init__(self, level: int) -> None:
        super().__init__(level)
        self._seen: set[str] = set()

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        what = re.sub(r"^iteration \d+: ", "", text)
        if what not in self._seen:
            self._seen.add(what)
            _line(f"note: {text}")


def _ending(error: Exception) -> tuple[int, str]:
    """Exit code and line of an error."""
    if isinstance(error, InvalidInput):
        return 2, str(error)
    if isinstance(error, SubquadError):
        return 1, str(error)
    if hasattr(error, "format_message"):  # typer's usage errors, whose class it does not export
        near = getattr(error, "possibilities", None)
        words = str(getattr(error, "message", "")) if near else str(error.format_message())
        return 2, f"{words}: did you mean {near[0]}?" if near else words
    if isinstance(error, MemoryError) or "allocate memory" in str(error):
        return 1, "not enough memory: try a smaller --width, fewer rows, or a larger machine"
    if isinstance(error, OSError) and error.strerror:
        return 1, f"{error.filename or 'a file'}: {error.strerror}"
    return 1, f"this is a fault of subquad, {type(error).__name__}: {error} (-v shows where)"


def _interrupted() -> int:
    _line("interrupted: nothing more was written")
    return 130


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    if not issubclass(category, (DeprecationWarning, FutureWarning)):
        _line(f"warning: {message}")


def _line(text: str) -> None:
    print(f"subquad: {' '.join(text.split())}", file=sys.stderr)
