"""A reader sees the old file or the new one, and no temporary file stays."""

import json
import os

import numpy as np
import pytest

from subquad.runs.atomic import plain, replacing, write_json, write_text


def test_writes_and_overwrites(tmp_path):
    path = tmp_path / "a.json"
    write_json(path, {"x": 1})
    write_json(path, {"x": [1.5, float("nan"), float("inf")], "y": (None, "ü")})
    assert json.loads(path.read_text("utf-8")) == {"x": [1.5, None, None], "y": [None, "ü"]}
    assert os.listdir(tmp_path) == ["a.json"]


def test_plain_values():
    value = {"a": np.float64(2.5), "b": np.int64(3), 4: np.array([1, 2]), "c": True}
    assert json.dumps(plain(value)) == '{"a": 2.5, "b": 3, "4": [1, 2], "c": true}'


def test_a_failing_write_leaves_the_old_file(tmp_path):
    path = tmp_path / "a.txt"
    write_text(path, "old")

    def interrupted():
        with replacing(path) as temporary:
            temporary.write_text("half of the n")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    with pytest.raises(UnicodeEncodeError):
        write_text(path, "\ud800")
    with pytest.raises(FileNotFoundError), replacing(path):
        pass
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["a.txt"]


def test_a_failing_rename_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "a.txt"
    write_text(path, "old")

    def refuse(source, target):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(OSError, match="No space left"):
        write_text(path, "new")
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["a.txt"]
