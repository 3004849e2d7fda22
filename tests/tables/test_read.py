"""Every format reads to the same table; every malformed file gets one clear line."""

import sys
import zipfile

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest

from subquad.errors import InvalidInput
from subquad.tables.read import read_table


def written(folder, content, name="data.csv"):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def test_csv_numbers_text_and_missing(tmp_path):
    table = read_table(written(tmp_path, 'size, kind\n1.5,red\n,"a, b"\n-2e3,NA\n'))
    assert list(table.columns) == ["size", "kind"]
    np.testing.assert_array_equal(table.columns["size"], [1.5, np.nan, -2000.0])
    assert table.columns["kind"] == ["red", "a, b", None]
    assert table.rows == 3
    assert table.place(1) == "line 3"


@pytest.mark.parametrize(
    "content",
    [
        b"a,b\r\n1,x\r\n2,y\r\n",
        b"\xef\xbb\xbfa,b\n1,x\n2,y\n",
        b'"a","b"\n"1","x"\n"2","y"',
        b"a,b\r1,x\r2,y\r",
        b"a,b\n\n1,x\n\n2,y\n\n",
    ],
)
def test_csv_dialects(tmp_path, content):
    table = read_table(written(tmp_path, content))
    np.testing.assert_array_equal(table.columns["a"], [1.0, 2.0])
    assert table.columns["b"] == ["x", "y"]


def test_tsv_and_line_breaks_within_cells(tmp_path):
    table = read_table(written(tmp_path, 'a\tb\n1,5\t"two\nlines"\n2\t3\n', "data.tsv"))
    assert table.columns["a"] == ["1,5", "2"]
    assert table.columns["b"] == ["two\nlines", "3"]
    assert table.place(0) == "line 3"


def test_cells_keep_unicode_separators(tmp_path):
    table = read_table(written(tmp_path, "a,b\nx\u2028y\x0cz,1\n"))
    assert table.columns["a"] == ["x\u2028y\x0cz"]


def test_text_columns_can_be_asked_for(tmp_path):
    path = written(tmp_path, "code,x\n01,1\n02,2\n")
    assert read_table(path, text={"code"}).columns["code"] == ["01", "02"]


@pytest.mark.parametrize("cell", ["1_000", "٣", "0x10", "1 000", "1,5"])
def test_what_is_not_a_number(tmp_path, cell):
    assert read_table(written(tmp_path, f'a,b\n"{cell}",1\n')).columns["a"] == [cell]


def test_npz(tmp_path):
    path = tmp_path / "data.npz"
    np.savez(path, X=np.arange(6).reshape(3, 2), y=np.array(["a", "", "NA"]), b=np.ones(3, bool))
    table = read_table(path)
    assert list(table.columns) == ["X0", "X1", "y", "b"]
    np.testing.assert_array_equal(table.columns["X1"], [1.0, 3.0, 5.0])
    assert table.columns["y"] == ["a", None, None]
    np.testing.assert_array_equal(table.columns["b"], [1.0, 1.0, 1.0])


def arrow_table():
    return pa.table(
        {
            "i": pa.array([1, None, 3]),
            "f": pa.array([0.5, float("nan"), 2.0], pa.float32()),
            "b": pa.array([True, False, None]),
            "s": pa.array(["x", None, "NA"]),
            "c": pa.array(["u", "v", "u"]).dictionary_encode(),
            "d": pa.array([0, 1, None], pa.date32()),
            "n": pa.nulls(3),
        }
    )


@pytest.mark.parametrize("name", ["t.parquet", "t.feather", "t.arrow"])
def test_parquet_and_arrow(tmp_path, name):
    path = tmp_path / name
    if name == "t.parquet":
        pyarrow.parquet.write_table(arrow_table(), path)
    elif name == "t.feather":
        pyarrow.feather.write_feather(arrow_table(), path)
    else:
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, arrow_table().schema) as w:
            w.write_table(arrow_table())
    columns = read_table(path).columns
    np.testing.assert_array_equal(columns["i"], [1.0, np.nan, 3.0])
    np.testing.assert_array_equal(columns["f"], [0.5, np.nan, 2.0])
    np.testing.assert_array_equal(columns["b"], [1.0, 0.0, np.nan])
    assert columns["s"] == ["x", None, None]
    assert columns["c"] == ["u", "v", "u"]
    assert columns["d"] == ["1970-01-01", "1970-01-02", None]
    assert np.isnan(columns["n"]).all()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "is empty"),
        ("\n\n", "is empty"),
        (",\n1,2\n", "is empty"),
        ("a,b\n", "has a header and no rows"),
        ("a,b\n1,2\n1\n", "line 3: 1 cells where the header has 2"),
        ("a,b\n1,2,3\n", "line 2: 3 cells"),
        ("a,a\n1,2\n", "two columns are called 'a'"),
        (",b\n0,2\n", "column 1 has no name.*index=False"),
        ("a;b\n1;2\n", "separated by semicolons"),
        ('a,b\n"1,2\n', "line .*: unexpected end of data"),
        ('a,b\n"1"x,2\n', "line 2: .*mend the quotes"),
        ("a,b\n1,inf\n", "column 'b' is infinite at line 2"),
        ("a,b\n1,1e999\n", "column 'b' is infinite at line 2"),
        (b"a,b\n1,\xff\n", "line 2: byte 6 is not UTF-8"),
        ("a\n1\n".encode("utf-16"), "holds UTF-16"),
        (b"PAR1xxxx", "holds Parquet"),
        ("a\n" + "x" * 200_000 + "\n", "field larger than field limit"),
    ],
)
def test_malformed_csv(tmp_path, content, message):
    with pytest.raises(InvalidInput, match=message) as caught:
        read_table(written(tmp_path, content))
    assert "\n" not in str(caught.value)


def test_paths(tmp_path):
    with pytest.raises(InvalidInput, match="is a folder"):
        read_table(tmp_path)
    with pytest.raises(InvalidInput, match="there is no file"):
        read_table(tmp_path / "none.csv")
    with pytest.raises(InvalidInput, match=r"unknown suffix '\.txt'"):
        read_table(written(tmp_path, "a\n1\n", "data.txt"))


def test_a_file_that_may_not_be_read(tmp_path, monkeypatch):
    path = written(tmp_path, "a\n1\n")

    def refuse(self):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(type(path), "read_bytes", refuse)
    with pytest.raises(InvalidInput, match="cannot be read: Permission denied"):
        read_table(path)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"a": np.ones(2), "b": np.ones(3)}, "arrays differ in length"),
        ({"a": np.ones((2, 2, 2))}, "3 dimensions"),
        ({"a": np.float64(1)}, "0 dimensions"),
        ({"a": np.ones(2, complex)}, "type complex128"),
        ({"a": np.array([b"\xff"])}, "not ASCII"),
        ({"a": np.array([1, "x"], object)}, "pickled objects"),
        ({"a": np.array([1.0, np.inf])}, "column 'a' is infinite at row 1"),
        ({"a0": np.ones(1), "a": np.ones((1, 1))}, "two columns are called 'a0'"),
        ({}, "has no columns"),
        ({"a": np.ones(0)}, "no rows"),
    ],
)
def test_malformed_npz(tmp_path, arrays, message):
    np.savez(tmp_path / "data.npz", **arrays)
    with pytest.raises(InvalidInput, match=message):
        read_table(tmp_path / "data.npz")


def test_npz_that_is_none(tmp_path):
    with pytest.raises(InvalidInput, match="not an NPZ archive"):
        read_table(written(tmp_path, b"rubbish", "data.npz"))
    with zipfile.ZipFile(tmp_path / "zip.npz", "w") as archive:
        archive.writestr("note.txt", "hello")
    with pytest.raises(InvalidInput, match="is not an array"):
        read_table(tmp_path / "zip.npz")
    with zipfile.ZipFile(tmp_path / "cut.npz", "w") as archive:
        archive.writestr("a.npy", b"\x93NUMPY\x01\x00")
    with pytest.raises(InvalidInput, match="damage"):
        read_table(tmp_path / "cut.npz")


def test_malformed_parquet_and_arrow(tmp_path):
    with pytest.raises(InvalidInput, match="cannot be read as Parquet"):
        read_table(written(tmp_path, b"PAR1rubbish", "data.parquet"))
    with pytest.raises(InvalidInput, match="cannot be read as Arrow"):
        read_table(written(tmp_path, b"rubbish", "data.feather"))
    with pytest.raises(InvalidInput, match="Feather version 1"):
        read_table(written(tmp_path, b"FEA1rubbish", "old.feather"))
    pyarrow.parquet.write_table(pa.table({"a": [[1], [2]]}), tmp_path / "list.parquet")
    with pytest.raises(InvalidInput, match="column 'a' has type list"):
        read_table(tmp_path / "list.parquet")
    pyarrow.parquet.write_table(pa.table({"": [1]}), tmp_path / "name.parquet")
    with pytest.raises(InvalidInput, match="column 1 has no name"):
        read_table(tmp_path / "name.parquet")


def test_without_pyarrow(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(InvalidInput, match=r"pip install 'subquad\[tables\]'"):
        read_table(written(tmp_path, b"PAR1", "data.parquet"))


def test_unknown_column_names_the_nearest(tmp_path):
    table = read_table(written(tmp_path, "price,size\n1,2\n"))
    with pytest.raises(InvalidInput, match="did you mean 'price'"):
        table.column("prize")


def test_take_and_without(tmp_path):
    table = read_table(written(tmp_path, "a,b\n1,x\n2,y\n3,z\n"))
    part = table.take(np.array([2, 0])).without("a")
    assert part.columns == {"b": ["z", "x"]}
    assert part.place(0) == "line 4"
