import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from subquad import Cost, InvalidInput, WideNet
from subquad.rows import SparseRows
from subquad.weights import MappedWeight
from tests.oracles import sparse_matrix, unit_rows
from tests.weights.contract import check_products


def saved(folder: Path, **tensors: torch.Tensor) -> Path:
    path = folder / "weights.safetensors"
    save_file({name: t.contiguous() for name, t in tensors.items()}, path)
    return path


@pytest.mark.parametrize("shape", [(64, 64), (37, 23), (23, 370), (1, 1)], ids=str)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16], ids=str)
def test_products(shape: tuple[int, int], dtype: torch.dtype, tmp_path: Path) -> None:
    W = sparse_matrix(shape, 1.0, 0).to(dtype)
    weight = MappedWeight(saved(tmp_path, other=torch.zeros(3), W=W), "W")
    assert weight.dtype == (torch.float32 if dtype == torch.bfloat16 else dtype)
    assert torch.equal(weight.dense(), W.to(weight.dtype))
    check_products(weight, 1e-10 if dtype == torch.float64 else 1e-3)


def test_products_in_small_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("subquad.weights.mapped.BLOCK_BYTES", 5000)
    weight = MappedWeight(saved(tmp_path, W=sparse_matrix((50, 60), 1.0, 0)), "W")
    check_products(weight)
    assert weight.nbytes == 5000


def test_only_what_is_needed_is_read(tmp_path: Path) -> None:
    m_out, m_in = 300, 200
    weight = MappedWeight(saved(tmp_path, W=sparse_matrix((m_out, m_in), 1.0, 0)), "W")
    few = torch.zeros(2, m_in, dtype=torch.float64)
    few[:, [3, 9]] = 1
    with Cost() as forward:
        weight.matmul(SparseRows.from_dense(few))
    assert forward.bytes == 8 * m_out * 2
    some = torch.zeros(2, m_out, dtype=torch.float64)
    some[0, [5, 6, 250]] = 1
    with Cost() as back:
        weight.matmul_transpose(some)
    assert back.bytes == 8 * 3 * m_in


def test_a_network_runs_on_mapped_weights(tmp_path: Path) -> None:
    matrices = [torch.randn(90, 6), torch.randn(80, 90)]
    path = saved(tmp_path, a=matrices[0], b=matrices[1])
    mapped = WideNet(6, [90, 80], 2, weights=[MappedWeight(path, "a"), MappedWeight(path, "b")])
    plain = WideNet(6, [90, 80], 2, weights=matrices)
    X = unit_rows(5, 6)
    assert torch.allclose(mapped(X), plain(X), rtol=1e-4, atol=1e-3)


def test_bad_files_get_one_line(tmp_path: Path) -> None:
    path = saved(
        tmp_path,
        matrix=torch.ones(2, 3),
        vector=torch.ones(3),
        empty=torch.ones(0, 3),
        half=torch.ones(2, 3, dtype=torch.float16),
        whole=torch.ones(2, 3, dtype=torch.int64),
    )
    for name, message in (
        ("matrxi", "unknown tensor of .*did you mean 'matrix'"),
        ("vector", r"must be a matrix .*got shape \(3,\)"),
        ("empty", "without empty sides"),
        ("half", "must be float32, float64 or bfloat16, got F16"),
        ("whole", "got I64"),
    ):
        with pytest.raises(InvalidInput, match=message):
            MappedWeight(path, name)
    with pytest.raises(InvalidInput, match=r"cannot read .*No such file"):
        MappedWeight(tmp_path / "none.safetensors", "W")
    with pytest.raises(InvalidInput, match=r"cannot read .*directory"):
        MappedWeight(tmp_path, "W")


def entry(**changes: Any) -> bytes:
    return json.dumps(
        {"W": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24], **changes}}
    ).encode()


@pytest.mark.parametrize(
    ("header", "message"),
    [
        (b"no JSON", "its header is no JSON"),
        (b"\xff\xfe", "its header is no JSON"),
        (b"[1]", "no JSON object"),
        (b'{"W": 3}', "is not complete"),
        (b'{"W": {"dtype": "F32", "shape": [2, 3]}}', "is not complete"),
        (entry(shape=[-2, -3]), "is not complete"),
        (entry(shape=["2", 3]), "is not complete"),
        (entry(shape=6), "is not complete"),
        (entry(shape=[2, 4]), "is damaged"),
        (entry(data_offsets=[8, 32]), "is damaged"),
        (entry(data_offsets=[-4, 20]), "is not complete"),
        (entry(dtype=["F32"]), "must be float32"),
    ],
)
def test_damaged_headers_get_one_line(header: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.safetensors"
    path.write_bytes(len(header).to_bytes(8, "little") + header + b"\0" * 24)
    with pytest.raises(InvalidInput, match=message):
        MappedWeight(path, "W")
    path.write_bytes(b"\xff" * 20)
    with pytest.raises(InvalidInput, match="its header has no end"):
        MappedWeight(path, "W")
    path.write_bytes(b"abc")
    with pytest.raises(InvalidInput, match="its header has no end"):
        MappedWeight(path, "W")
