"""The last layer in sample space on firing bits alone, compiled for the CPU.

Where an entry's bit does not change, its share of outputs and Gram matrix is linear in the step
and known without looking. So an entry is computed only when it may have crossed its threshold:
``expiry`` is its distance to the threshold when it was last computed plus its row's ``reach``
then, and ``reach`` bounds all movement of a row's entries up to the row's last visit. A row is
passed over while ``alarm``, its least expiry, is ahead of what it can have moved since: first by
a bound for all rows, then by one that knows its bits. What this equals, entry for entry, is
:class:`subquad.training.samplespace.SampleSpaceState`.

With K = mean + (K - mean), an entry of a row with weights w moves by at most
`mean |sum w| + max_i ‖K_i - mean‖ ‖w‖`: the common part is known from one sum, and by
Cauchy-Schwarz the rest is small, since weights of either sign cancel in it.

| symbol | shape | meaning |
|---|---|---|
| `Z` | m×n | pre-activations at the start; never written to |
| `level`, `offset` | n | an entry fires for `z > level` and is then worth `z - offset` |
| `bits`, `fresh` | m×words | firing bits where the step began, and as last computed |
| `columns` | n×groups | ``bits`` transposed: 64 neurons a word |
| `slot`, `store` | m, rows×n | a row's weights w when its bits last changed, where they ever did |
| `epoch`, `seen` | m | moments of the row's last change of bits, and of its last visit |
| `since` | moments×n | what the steps since each moment add to w where a row fires |

Rows are cut into tasks by their number alone, and every task sums up its own share, so results
do not depend on the number of threads.
"""

# mypy: disallow-untyped-decorators=False, disallow-untyped-defs=False, disallow-untyped-calls=False
# mypy: disable-error-code="call-arg,assignment,var-annotated"

from __future__ import annotations

import numba
import numpy as np

from subquad.kernels.lanes_numba import (
    BARE,
    LANE,
    ONE,
    above,
    bare,
    below,
    copy,
    dot,
    fetch,
    fetch_all,
    keep,
    least,
    lowest,
    ones,
    places_of,
    sum_and_norm,
    tally,
)

TASKS = 64  # shares of the rows: more than threads, so that they end together
AHEAD = 8  # rows whose entries are fetched before the first of them is computed
TILE = 512  # words of each sample's bits that are counted together: they fit the nearest caches
SLACK = 1 + 1e-6  # what rounding may add to a movement


@bare
def _share(m, task, tasks):
    """Rows of a task: whole words of ``columns``, so that no two tasks write to one."""
    groups = (m + LANE - 1) // LANE
    return LANE * (groups * task // tasks), min(m, LANE * (groups * (task + 1) // tasks))


@bare
def _distances(z, level, scale, far, safe):
    for i in range(z.size):
        safe[i] = scale[i] * abs(z[i] - level[i]) + far


@numba.njit(**BARE, fastmath={"contract"})
def _add_outputs(z, level, offset, head, total):
    """total += head (z - offset) where it fires, in float64."""
    for i in range(z.size):
        total[i] += np.float64(head * (z[i] - offset[i]) if z[i] > level[i] else level[i] * 0)


@bare
def _weights(bits, added, slot, store, weight):
    """The row's weights now: those stored, and all steps since where it fires."""
    keep(bits, added, weight)
    if slot >= 0:
        kept = store[slot]
        for i in range(weight.size):
            weight[i] += kept[i]


@numba.njit(**BARE, fastmath={"contract"})
def _move_whole(z, weight, head, kernel, places, out):
    """out = z - head w K over the nonzeros of w, eight rows of K at a time; returns how many.

    The movement is summed up by itself. Terms that were taken off z one by one would all round to
    z's grid, alike in every row, and the outputs would be off by a hundred times their rounding.
    """
    count = 0
    for i in range(weight.size):
        places[count] = i
        count += weight[i] != 0
    for i in range(out.size):
        out[i] = 0
    k = 0
    while k + 8 <= count:
        p0, p1, p2, p3 = places[k], places[k + 1], places[k + 2], places[k + 3]
        p4, p5, p6, p7 = places[k + 4], places[k + 5], places[k + 6], places[k + 7]
        v0, v1, v2, v3 = weight[p0] * head, weight[p1] * head, weight[p2] * head, weight[p3] * head
        v4, v5, v6, v7 = weight[p4] * head, weight[p5] * head, weight[p6] * head, weight[p7] * head
        k0, k1, k2, k3 = kernel[p0], kernel[p1], kernel[p2], kernel[p3]
        k4, k5, k6, k7 = kernel[p4], kernel[p5], kernel[p6], kernel[p7]
        for i in range(out.size):
            x = out[i] + v0 * k0[i]
            x = x + v1 * k1[i]
            x = x + v2 * k2[i]
            x = x + v3 * k3[i]
            x = x + v4 * k4[i]
            x = x + v5 * k5[i]
            x = x + v6 * k6[i]
            out[i] = x + v7 * k7[i]
        k += 8
    while k < count:
        v0, k0 = weight[places[k]] * head, kernel[places[k]]
        for i in range(out.size):
            out[i] += v0 * k0[i]
        k += 1
    for i in range(out.size):
        out[i] = z[i] - out[i]
    return count


@numba.njit(parallel=True, cache=True)
def look_at_rows(
    Z, level, scale, offset, sign, kernel, since, bits, slot, store, epoch, seen, now,
    fresh, expiry, alarm, reach, total, work,
):  # fmt: skip
    """Compute every entry: ``fresh`` bits, distances, and outputs (a row of ``total`` a task)."""
    n, tasks = Z.shape[1], total.shape[0]
    for task in numba.prange(tasks):
        weight, row, places = np.empty(n, Z.dtype), np.empty(n, Z.dtype), np.empty(n, np.int64)
        low, high = _share(Z.shape[0], task, tasks)
        work[task, 0] = _look(
            low, high, Z, level, scale, offset, sign, kernel, since, bits, slot, store, epoch, seen,
            now, fresh, expiry, alarm, reach, weight, row, places, total[task],
        )  # fmt: skip
        work[task, 1] = 0


@bare
def _look(
    low, high, Z, level, scale, offset, sign, kernel, since, bits, slot, store, epoch, seen, now,
    fresh, expiry, alarm, reach, weight, row, places, total,
):  # fmt: skip
    terms = 0
    for r in range(low, high):
        if now:
            _weights(bits[r], since[epoch[r]], slot[r], store, weight)
            terms += _move_whole(Z[r], weight, sign[r], kernel, places, row)
        else:
            copy(Z[r], row)
        seen[r], reach[r] = now, 0.0
        _distances(row, level, scale, row[:1][0] * 0, expiry[r])
        above(row, level, fresh[r])
        _add_outputs(row, level, offset, sign[r], total)
        alarm[r] = least(expiry[r])
    return terms


@numba.njit(parallel=True, cache=True)
def transpose_bits(bits, columns):
    """``columns`` from ``bits``."""
    groups = columns.shape[1]
    m, n = bits.shape[0], columns.shape[0]
    for g in numba.prange(groups):
        block = np.zeros(bits.shape[1] * LANE, np.uint64)
        for r in range(g * LANE, min(m, (g + 1) * LANE)):
            place = np.uint64(r - g * LANE)
            for w in range(bits.shape[1]):
                word = bits[r, w]
                part = block[w * LANE : (w + 1) * LANE]
                for b in range(LANE):
                    part[b] |= ((word >> np.uint64(b)) & ONE) << place
        for i in range(n):
            columns[i, g] = block[i]


@numba.njit(parallel=True, cache=True)
def count_common(columns, counts):
    """counts[i, j] = neurons that fire for both samples, lower half."""
    n, groups = columns.shape
    side = (n + 7) // 8  # pairs of samples in blocks of 8×8: a block's words stay in the cache
    for block in numba.prange(side * side):
        p = block // side
        q = block - p * side
        if q <= p:
            for i in range(8 * p, min(n, 8 * p + 8)):
                for j in range(8 * q, min(i + 1, 8 * q + 8)):
                    counts[i, j] = 0
            for low in range(0, groups, TILE):
                high = min(groups, low + TILE)
                for i in range(8 * p, min(n, 8 * p + 8)):
                    a = columns[i, low:high]
                    for j in range(8 * q, min(i + 1, 8 * q + 8)):
                        b = columns[j, low:high]
                        total = np.uint64(0)
                        for g in range(a.size):
                            total += ones(a[g] & b[g])
                        counts[i, j] += np.int64(total)


@numba.njit(parallel=True, cache=True)
def move_rows(
    Z, level, scale, offset, sign, kernel, tilt, since, coarse, bits, slot, store, epoch, seen,
    now, fresh, expiry, alarm, reach, change, work,
):  # fmt: skip
    """Bring ``fresh`` up to the moment ``now``; sum what flipped bits change in the outputs.

    ``coarse`` bounds, for each moment, the movement of any row since.
    """
    n, tasks = Z.shape[1], change.shape[0]
    for task in numba.prange(tasks):
        weight, row, places = np.empty(n, Z.dtype), np.empty(n, Z.dtype), np.empty(n, np.int64)
        due, found = np.empty((AHEAD, bits.shape[1]), np.uint64), np.empty(AHEAD, np.int64)
        low, high = _share(Z.shape[0], task, tasks)
        for start in range(low, high, AHEAD):
            stop = min(high, start + AHEAD)
            rows, asked = _find_rows(
                start, stop, tilt, since, coarse, bits, seen, now, fresh, expiry, alarm, reach,
                weight, found,
            )  # fmt: skip
            _find_entries(rows, found, Z, bits, fresh, expiry, reach, due)
            entries, terms = _move_due(
                rows, found, due, Z, level, scale, offset, sign, kernel, since, bits, slot, store,
                epoch, fresh, expiry, alarm, reach, weight, row, places, change[task],
            )  # fmt: skip
            work[task, 0] += asked
            work[task, 1] += entries
            work[task, 2] += terms


@bare
def _find_rows(
    start, stop, tilt, since, coarse, bits, seen, now, fresh, expiry, alarm, reach, weight, found
):  # fmt: skip
    """Which rows may have an entry that crossed; how many, and how many were asked closely."""
    rows = asked = 0
    for r in range(start, stop):
        old, last = bits[r], fresh[r]
        turned = False  # what flipped at a longer step that was taken back is computed again
        for w in range(old.size):
            turned |= old[w] != last[w]
        if alarm[r] > reach[r] + coarse[seen[r]] and not turned:
            continue
        asked += 1
        keep(old, since[seen[r]], weight)
        s, v = sum_and_norm(weight)
        far = reach[r] + (tilt * s + v)
        if alarm[r] > far * SLACK and not turned:
            continue
        reach[r], seen[r] = far, now
        fetch_all(expiry[r])
        found[rows] = r
        rows += 1
    return rows, asked


@bare
def _find_entries(rows, found, Z, bits, fresh, expiry, reach, due):
    """Bits of the entries that may have crossed."""
    for k in range(rows):
        r = found[k]
        below(expiry[r], Z.dtype.type(reach[r] * SLACK), due[k])
        for w in range(bits.shape[1]):
            due[k, w] |= bits[r, w] ^ fresh[r, w]
        fetch(Z[r], due[k])


@bare
def _move_due(
    rows, found, due, Z, level, scale, offset, sign, kernel, since, bits, slot, store, epoch, fresh,
    expiry, alarm, reach, weight, row, places, total,
):  # fmt: skip
    """Compute the entries that are due; how many they are, and terms of whole rows."""
    entries = terms = 0
    for k in range(rows):
        r = found[k]
        old, last, safe, head, far = bits[r], fresh[r], expiry[r], sign[r], reach[r]
        _weights(old, since[epoch[r]], slot[r], store, weight)
        count = places_of(due[k], places)
        entries += count
        if 6 * count > Z.shape[1]:
            terms += _move_whole(Z[r], weight, head, kernel, places, row)
            _distances(row, level, scale, far, safe)
            above(row, level, last)
        else:
            for j in range(count):
                i = places[j]
                row[i] = z = Z[r, i] - head * dot(weight, kernel[i])
                safe[i] = scale[i] * abs(z - level[i]) + far
                w, b = i >> 6, np.uint64(i & 63)
                last[w] = (last[w] & ~(ONE << b)) | (np.uint64(z > level[i]) << b)
        for w in range(old.size):
            word = old[w] ^ last[w]
            while word:
                b = lowest(word)
                word &= word - ONE
                i = w * LANE + np.int64(b)
                value = np.float64(head * (row[i] - offset[i]))
                total[i] += value if (last[w] >> b) & ONE else -value
        alarm[r] = least(safe)
    return entries, terms


@numba.njit(parallel=True, cache=True)
def count_flips(bits, fresh, slot, flips):
    """A task: flipped bits, and rows that have their first one."""
    m, tasks = bits.shape[0], flips.shape[0]
    for task in numba.prange(tasks):
        total, rows = np.uint64(0), 0
        for r in range(*_share(m, task, tasks)):
            here = np.uint64(0)
            for w in range(bits.shape[1]):
                here += ones(bits[r, w] ^ fresh[r, w])
            total += here
            rows += (here != 0) & (slot[r] < 0)
        flips[task, 0], flips[task, 1] = total, rows


@numba.njit(parallel=True, cache=True)
def accept_rows(
    bits, fresh, columns, slot, store, first, epoch, since, now, counts, by_flips
):  # fmt: skip
    """Begin a new step: rows that flipped store their weights.

    Task t's new rows take the slots from ``first[t]`` on. With ``by_flips`` each flip of a sample
    goes into that sample's row of ``counts``, an array a share of the tasks: what `C + C^T` of the
    sum tells off the diagonal, and C on it, is what :func:`count_common` would count more.
    """
    m, tasks, shares = bits.shape[0], first.size, counts.shape[0]
    for share in numba.prange(shares):
        weight = np.empty(store.shape[1], store.dtype)
        for task in range(tasks * share // shares, tasks * (share + 1) // shares):
            low, high = _share(m, task, tasks)
            _accept(
                low, high, first[task], bits, fresh, columns, slot, store, epoch, since, now,
                counts[share], by_flips, weight,
            )  # fmt: skip


@bare
def _accept(
    low, high, free, bits, fresh, columns, slot, store, epoch, since, now, counts, by_flips, weight
):  # fmt: skip
    for r in range(low, high):
        old, new = bits[r], fresh[r]
        same = True
        for w in range(old.size):
            same &= old[w] == new[w]
        if same:
            continue
        _weights(old, since[epoch[r]], slot[r], store, weight)
        if slot[r] < 0:
            slot[r] = free
            free += 1
        copy(weight, store[slot[r]])
        epoch[r] = now
        g, place = r // LANE, ONE << np.uint64(r % LANE)
        for w in range(old.size):
            turned = old[w] ^ new[w]
            while turned:
                b = lowest(turned)
                turned &= turned - ONE
                i = w * LANE + np.int64(b)
                columns[i, g] ^= place
                old[w] &= ~(ONE << b)
                if by_flips:  # take sample i out of the row's firing samples, or into them
                    change = np.int32(1) if (new[w] >> b) & ONE else np.int32(-1)
                    tally(old, change, counts[i])
                    counts[i, i] += change
                old[w] |= new[w] & (ONE << b)


@numba.njit(parallel=True, cache=True)
def weights_of_rows(bits, slot, store, epoch, since, factors, out):
    """out (n×m) = the weights of every row, times its factor."""
    n, m = out.shape
    for g in numba.prange((m + LANE - 1) // LANE):
        low, high = g * LANE, min(m, (g + 1) * LANE)
        block = np.empty((LANE, n), out.dtype)
        for r in range(low, high):
            _weights(bits[r], since[epoch[r]], slot[r], store, block[r - low])
        for i in range(n):
            for r in range(low, high):
                out[i, r] = factors[r] * block[r - low, i]
