"""Rows of numbers and their bits, 64 numbers at a time: the vector steps of the compiled kernels.

A compiler does not turn a loop that packs comparisons into bits, or bits into numbers, into the
few vector instructions that it takes. So those steps say what they mean: a comparison of 64
numbers *is* a word, and a word *is* the mask of a selection, on any processor.

A row of n numbers goes with `ceil(n / 64)` words; what is left over at its end is done one by one.
"""

# mypy: disallow-untyped-decorators=False, disallow-untyped-defs=False, disallow-untyped-calls=False
# mypy: disable-error-code="call-arg,assignment,var-annotated"

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic, overload

LANE = 64  # bits of a word
GROUP = 16  # numbers of a short transform
ONE = np.uint64(1)
LINE = 64  # bytes of a cache line, at least
FAST = {"reassoc", "contract", "nsz", "nnan"}  # sums and minima in any order

BARE: Any = {"cache": True, "_nrt": False}
bare = numba.njit(**BARE)
"""Compiles a function that counts no references to arrays. Counting is atomic: threads that take
rows of one array a million times would wait for each other. Such a function allocates nothing."""


@intrinsic
def ones(typing_context, word):
    """Number of bits that are 1."""
    return types.uint64(types.uint64), lambda context, builder, signature, args: builder.ctpop(
        args[0]
    )


@intrinsic
def lowest(typing_context, word):
    """Place of the lowest bit that is 1; the word must not be 0."""

    def generate(context, builder, signature, args):
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 1))

    return types.uint64(types.uint64), generate


def _vector(context, array, lanes=LANE):
    return ir.VectorType(context.get_value_type(array.dtype), lanes)


def _place(context, builder, array, value, at, lanes=LANE):
    data = context.make_array(array)(context, builder, value).data
    return builder.bitcast(builder.gep(data, [at]), _vector(context, array, lanes).as_pointer())


def _load(context, builder, array, value, at, lanes=LANE):
    place = _place(context, builder, array, value, at, lanes)
    return builder.load(place, align=array.dtype.bitwidth // 8)


@intrinsic
def _above_64(typing_context, a, bound, at):
    """Bits of `a > bound` for the 64 numbers from ``at`` on."""

    def generate(context, builder, signature, args):
        left, right = (
            _load(context, builder, kind, value, args[2])
            for kind, value in zip(signature.args[:2], args[:2], strict=True)
        )
        return builder.bitcast(builder.fcmp_ordered(">", left, right), ir.IntType(LANE))

    return types.uint64(a, bound, types.intp), generate


def _against_one(operator):
    """An intrinsic: bits of ``a operator bound`` for 64 numbers and one bound."""

    @intrinsic
    def compare(typing_context, a, bound, at):
        def generate(context, builder, signature, args):
            numbers, vector = signature.args[0], _vector(context, signature.args[0])
            none = ir.Constant(vector, ir.Undefined)
            single = builder.insert_element(none, args[1], ir.Constant(ir.IntType(32), 0))
            everywhere = ir.Constant(ir.VectorType(ir.IntType(32), LANE), None)
            found = builder.fcmp_ordered(
                operator,
                _load(context, builder, numbers, args[0], args[2]),
                builder.shuffle_vector(single, none, everywhere),
            )
            return builder.bitcast(found, ir.IntType(LANE))

        return types.uint64(a, a.dtype, types.intp), generate

    return compare


_below_64, _over_64 = _against_one("<="), _against_one(">")


@intrinsic
def _keep_64(typing_context, word, a, at, out):
    """out = a where the word's bits are 1, else 0, for the 64 numbers from ``at`` on."""

    def generate(context, builder, signature, args):
        numbers = signature.args[1]
        kept = builder.select(
            builder.bitcast(args[0], ir.VectorType(ir.IntType(1), LANE)),
            _load(context, builder, numbers, args[1], args[2]),
            ir.Constant(_vector(context, numbers), None),
        )
        place = _place(context, builder, signature.args[3], args[3], args[2])
        builder.store(kept, place, align=numbers.dtype.bitwidth // 8)
        return context.get_dummy_value()

    return types.void(types.uint64, a, types.intp, out), generate


@intrinsic
def _tally_64(typing_context, word, value, out, at):
    """Add to the 64 int32 from ``at`` on whose bits are 1."""

    def generate(context, builder, signature, args):
        word, value, out, at = args
        kind = signature.args[2]
        vector = _vector(context, kind)
        none, zero = ir.Constant(vector, ir.Undefined), ir.Constant(vector, None)
        single = builder.insert_element(none, value, ir.Constant(ir.IntType(32), 0))
        added = builder.select(
            builder.bitcast(word, ir.VectorType(ir.IntType(1), LANE)),
            builder.shuffle_vector(single, none, zero),
            zero,
        )
        place = _place(context, builder, kind, out, at)
        total = builder.add(builder.load(place, align=4), added)
        builder.store(total, place, align=4)
        return context.get_dummy_value()

    return types.void(types.uint64, types.int32, out, types.intp), generate


@intrinsic
def _dot_words(typing_context, a, b, words):
    """Inner product of the first 64·words numbers."""

    def generate(context, builder, signature, args):
        numbers, vector = signature.args[0], _vector(context, signature.args[0])
        total = cgutils.alloca_once_value(builder, ir.Constant(vector, None))
        with cgutils.for_range(builder, args[2]) as loop:
            at = builder.mul(loop.index, ir.Constant(loop.index.type, LANE))
            left, right = (
                _load(context, builder, numbers, value, at) for value in (args[0], args[1])
            )
            product = builder.fmul(left, right, flags=("contract",))
            added = builder.fadd(builder.load(total), product, flags=("contract",))
            builder.store(added, total)
        real = vector.element
        reduce = cgutils.get_or_insert_function(
            builder.module,
            ir.FunctionType(real, [real, vector]),
            f"llvm.vector.reduce.fadd.v{LANE}f{numbers.dtype.bitwidth}",
        )
        start = ir.Constant(real, -0.0)
        return builder.call(reduce, [start, builder.load(total)], fastmath=("reassoc",))

    return a.dtype(a, b, types.intp), generate


@intrinsic
def butterflies(typing_context, a, at):
    """Walsh-Hadamard transform of the sixteen numbers from ``at`` on: the stages 1, 2, 4, 8."""

    def generate(context, builder, signature, args):
        numbers = signature.args[0]
        none = ir.Constant(_vector(context, numbers, GROUP), ir.Undefined)

        def arranged(one, other, lanes):
            kind = ir.VectorType(ir.IntType(32), GROUP)
            return builder.shuffle_vector(one, other, ir.Constant(kind, lanes))

        vector = _load(context, builder, numbers, args[0], args[1], GROUP)
        for half in (1, 2, 4, 8):
            partner = arranged(vector, none, [lane ^ half for lane in range(GROUP)])
            sums, rest = builder.fadd(vector, partner), builder.fsub(partner, vector)
            vector = arranged(sums, rest, [l + GROUP * bool(l & half) for l in range(GROUP)])
        place = _place(context, builder, numbers, args[0], args[1], GROUP)
        builder.store(vector, place, align=numbers.dtype.bitwidth // 8)
        return context.get_dummy_value()

    return types.void(a, types.intp), generate


@intrinsic
def butterflies_across(typing_context, a, at, apart):
    """Walsh-Hadamard transforms of sixteen columns: rows of sixteen numbers, ``apart`` from
    one another, the first of them at ``at``. Four stages with one visit to memory."""

    def generate(context, builder, signature, args):
        numbers = signature.args[0]
        value, at, apart = args
        places = [
            _place(context, builder, numbers, value, row, GROUP)
            for row in (
                builder.add(at, builder.mul(apart, ir.Constant(apart.type, k)))
                for k in range(GROUP)
            )
        ]
        align = numbers.dtype.bitwidth // 8
        rows = [builder.load(place, align=align) for place in places]
        for half in (1, 2, 4, 8):
            rows = [
                builder.fsub(rows[k ^ half], row) if k & half else builder.fadd(row, rows[k ^ half])
                for k, row in enumerate(rows)
            ]
        for place, row in zip(places, rows, strict=True):
            builder.store(row, place, align=align)
        return context.get_dummy_value()

    return types.void(a, types.intp, types.intp), generate


@intrinsic
def turn(typing_context, a, at, apart, out, to, between):
    """Transpose sixteen rows of sixteen numbers: ``apart`` from one another in ``a`` from ``at``
    on, and ``between`` in ``out`` from ``to`` on."""

    def generate(context, builder, signature, args):
        numbers, target = signature.args[0], signature.args[3]
        source, at, apart, out, to, between = args
        align = numbers.dtype.bitwidth // 8

        def places(kind, value, first, step):
            for k in range(GROUP):
                row = builder.add(first, builder.mul(step, ir.Constant(step.type, k)))
                yield _place(context, builder, kind, value, row, GROUP)

        rows = [builder.load(p, align=align) for p in places(numbers, source, at, apart)]
        for half in (1, 2, 4, 8):  # exchange the off-diagonal blocks of side ``half``
            for k in (k for k in range(GROUP) if not k & half):
                upper, lower = rows[k], rows[k | half]
                for row, kept in ((k, 0), (k | half, half)):
                    lanes = [
                        (l & ~half | kept) + GROUP * bool(l & half) for l in range(GROUP)
                    ]  # the numbers of this half of both rows, side by side
                    mask = ir.Constant(ir.VectorType(ir.IntType(32), GROUP), lanes)
                    rows[row] = builder.shuffle_vector(upper, lower, mask)
        for place, row in zip(places(target, out, to, between), rows, strict=True):
            builder.store(row, place, align=align)
        return context.get_dummy_value()

    return types.void(a, types.intp, types.intp, out, types.intp, types.intp), generate


@intrinsic
def _fetch(typing_context, a, at):
    """Bring the number at ``at`` into the cache, without waiting for it."""

    def generate(context, builder, signature, args):
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        byte, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
        ask = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        place = builder.bitcast(builder.gep(data, [args[1]]), byte)
        builder.call(ask, [place, *(ir.Constant(number, k) for k in (0, 3, 1))])
        return context.get_dummy_value()

    return types.void(a, types.intp), generate


@bare
def fetch_all(a):
    """Bring a row into the cache, without waiting for it."""
    for i in range(0, a.size, LINE // a.itemsize):
        _fetch(a, i)


@bare
def count(bits):
    """How many bits are 1."""
    total = np.int64(0)
    for w in range(bits.size):
        total += np.int64(ones(bits[w]))
    return total


@bare
def fetch(a, bits):
    """Bring the numbers into the cache whose bits are 1, without waiting for them."""
    if 2 * count(bits) * (LINE // a.itemsize) > a.size:  # about every second line: as well take all
        fetch_all(a)
        return
    for w in range(bits.size):
        word = bits[w]
        while word:
            _fetch(a, w * LANE + np.int64(lowest(word)))
            word &= word - ONE


@bare
def places_of(bits, places):
    """Write the places of bits that are 1; returns how many."""
    count = 0
    for w in range(bits.size):
        word = bits[w]
        while word:
            places[count] = w * LANE + np.int64(lowest(word))
            word &= word - ONE
            count += 1
    return count


@bare
def pick_out(a, places, out):
    """The numbers at these places."""
    for i in range(out.size):
        out[i] = a[places[i]]


@bare
def dot(a, b):
    """Inner product of two rows."""
    whole = a.size // LANE
    total = _dot_words(a, b, whole)
    for i in range(whole * LANE, a.size):
        total += a[i] * b[i]
    return total


@bare
def copy(a, out):
    """out = a."""
    for i in range(a.size):
        out[i] = a[i]


@bare
def tally(bits, value, out):
    """Add an integer to each number of ``out`` whose bit is 1."""
    for w in range(bits.size):
        low = w * LANE
        if low + LANE <= out.size:
            _tally_64(bits[w], value, out, low)
        else:
            for i in range(low, out.size):
                out[i] += value * np.int32((bits[w] >> np.uint64(i - low)) & ONE)


@bare
def keep(bits, a, out):
    """out = a where the bits are 1, else 0."""
    for w in range(bits.size):
        low = w * LANE
        if low + LANE <= a.size:
            _keep_64(bits[w], a, low, out)
        else:
            for i in range(low, a.size):
                out[i] = a[i] if (bits[w] >> np.uint64(i - low)) & ONE else a[i] * 0


@bare
def above(a, level, bits):
    """Bits of `a > level`, number by number."""
    for w in range(bits.size):
        low = w * LANE
        if low + LANE <= a.size:
            bits[w] = _above_64(a, level, low)
        else:
            word = np.uint64(0)
            for i in range(low, a.size):
                word |= np.uint64(a[i] > level[i]) << np.uint64(i - low)
            bits[w] = word


@bare
def below(a, bound, bits):
    """Bits of `a <= bound`, one bound for all."""
    for w in range(bits.size):
        low = w * LANE
        if low + LANE <= a.size:
            bits[w] = _below_64(a, bound, low)
        else:
            word = np.uint64(0)
            for i in range(low, a.size):
                word |= np.uint64(a[i] <= bound) << np.uint64(i - low)
            bits[w] = word


@bare
def over(a, bound, bits):
    """Bits of `a > bound`, one bound for all."""
    for w in range(bits.size):
        low = w * LANE
        if low + LANE <= a.size:
            bits[w] = _over_64(a, bound, low)
        else:
            word = np.uint64(0)
            for i in range(low, a.size):
                word |= np.uint64(a[i] > bound) << np.uint64(i - low)
            bits[w] = word


@numba.njit(**BARE, fastmath=FAST)
def sum_and_norm(a):
    """`|sum a|` and `‖a‖`."""
    s = v = a[:1][0] * 0
    for i in range(a.size):
        s += a[i]
        v += a[i] * a[i]
    return abs(s), np.sqrt(v)


def least(a):
    """The least of numbers >= 0, which their bits order alike: compilers like integers better."""
    whole = np.int32 if a.dtype == np.float32 else np.int64
    return a.view(whole).min().view(a.dtype)


@overload(least)
def _compiled_least(a):
    whole, real = (np.int32, np.float32) if a.dtype == types.float32 else (np.int64, np.float64)

    def find(a):
        words = a.view(whole)
        low = words[0]
        for i in range(words.size):
            low = min(low, words[i])
        return whole(low).view(real)

    return find
