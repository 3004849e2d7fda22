from subquad import Cost
from subquad.cost import record


def test_open_ledgers_collect_and_closed_ones_do_not() -> None:
    outer, inner = Cost(), Cost()
    with outer:
        record("a", flops=1, bytes=10)
        with inner:
            record("a", flops=2)
            record("b", bytes=5)
    record("a", flops=100)
    assert (outer.flops, outer.bytes) == (3, 15)
    assert (inner.flops, inner.bytes) == (2, 5)
    assert outer.procedures["a"].calls == 2
    assert outer.as_dict()["b"] == {"calls": 1, "flops": 0, "bytes": 5}


def test_a_ledger_opened_inside_itself_counts_once() -> None:
    cost = Cost()
    with cost, cost:
        record("a", flops=1)
    assert cost.flops == 1


def test_merge_adds_calls_too() -> None:
    a, b = Cost(), Cost()
    for cost in (a, b):
        with cost:
            record("x", flops=3, bytes=4)
    a.merge(b)
    assert (a.procedures["x"].calls, a.flops, a.bytes) == (2, 6, 8)
