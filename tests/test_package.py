"""The package as a whole: what it exports, what imports what, how fast it comes up."""

import ast
import statistics
import subprocess
import sys
from pathlib import Path

import subquad

SOURCE = Path(subquad.__file__).parent

# Lower folders never import higher ones. Within a line, none imports the other.
ORDER = [
    {"errors", "cost"},
    {"rows", "checks", "memory"},
    {"kernels", "activations"},
    {"weights", "sketch", "theory"},
    {"lowrank"},
    {"network"},
    {"gram"},
    {"training"},
    {"tables"},
    {"estimators"},
    {"runs"},
    {"bench"},
    {"cli"},
]


# These two bring scikit-learn, and come when they are asked for.
ESTIMATORS = ("SubquadClassifier", "SubquadRegressor")
LOAD = f"[getattr(subquad, name) for name in subquad.__all__ if name not in {ESTIMATORS}]\n"


def imported_parts(file: Path) -> set[str]:
    parts = set()
    for node in ast.walk(ast.parse(file.read_text())):
        names = []
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        parts |= {name.split(".")[1] for name in names if name.startswith("subquad.")}
    return parts


def test_the_way_of_the_data_is_one_way() -> None:
    rank = {part: level for level, parts in enumerate(ORDER) for part in parts}
    for file in SOURCE.rglob("*.py"):
        own = file.relative_to(SOURCE).parts[0].removesuffix(".py")
        if own in ("__init__", "__main__"):
            continue
        for part in imported_parts(file) - {own}:
            assert rank[part] < rank[own], f"{file.name} in {own} imports {part}"


def test_exported_names() -> None:
    assert sorted(subquad.__all__) == [
        "Cost",
        "DeadSampleWarning",
        "GELU",
        "InvalidInput",
        "LeakyReLU",
        "ReLU",
        "ShiftedReLU",
        "SiLU",
        "Sigmoid",
        "SubquadClassifier",
        "SubquadError",
        "SubquadRegressor",
        "Tanh",
        "ThresholdedLinear",
        "TrainResult",
        "TrainingFailed",
        "WideNet",
        "train",
    ]
    assert all(hasattr(subquad, name) for name in subquad.__all__)


def test_import_leaves_heavy_packages_alone() -> None:
    script = (
        f"import sys, subquad\n{LOAD}"
        "heavy = {'numba', 'sklearn', 'scipy', 'pandas', 'rich', 'typer', 'pyarrow'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_import_takes_little_more_than_torch() -> None:
    """At most 0.3 s more, every exported name loaded but the estimators.

    In processor time, which other work on the machine does not stretch, not by the clock on the
    wall; the median of five.
    """
    script = (
        "import time, torch\n"
        "started = time.process_time()\n"
        f"import subquad\n{LOAD}"
        "print(time.process_time() - started)"
    )
    extra = [
        float(
            subprocess.run([sys.executable, "-c", script], capture_output=True, check=True).stdout
        )
        for _ in range(5)
    ]
    assert statistics.median(extra) <= 0.3
