"""The compiled search behind `excess_loads`: all that can follow a group in the plane.

A *state* is the last group of a sequence, what is done beside it, and its *lead*: how much less surplus the
sequence has than a fresh start from its last group. Patches of the last group that no patch touches together
are in different *clusters*; how far these are apart, and which way they are turned, is forgotten. A state is
followed while its lead is positive. In between, an *open* state is what of the next group touches the last
one, a piece for each cluster it touches; these are not placed yet. Surplus and lead are counted in parts, so
that the rate need not be a whole number. docs/bounds.md, theorem 4, proves that nothing is lost.
"""

# Numba infers the types of compiled functions; docstrings state them where it matters.
# mypy: allow-untyped-defs, allow-untyped-calls

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.core.jit import inner, recursive

Ints = NDArray[np.int64]

MOST = 4
"""Largest group: as many clusters fit on a board, and their pixels into 64 bits."""

_BESIDE = 8 * MOST
"""Most patches that are done beside a cluster."""
_WIDTH = 2 + MOST + _BESIDE
"""Numbers of a cluster: how many patches, how many done beside them, and both."""
_ROW = 2 + MOST * _WIDTH
"""Numbers in a row: of clusters; these; and whether they are pieces that are not placed yet."""
_APART = 40
"""Between clusters on the board."""
_EDGE = 14
"""Between the first cluster and the edges of the board."""
_WIDE, _HIGH = 2 * _EDGE + (2 * MOST) * _APART, 2 * _EDGE + _APART
MUCH = 1 << 20


class Kind(NamedTuple):
    """What is searched.

    Attributes
    ----------
    kernel
        Side of the kernel.
    group
        Most patches of a group.
    parts
        How many parts a pixel counts.
    step
        How many parts a step counts.
    held
        Fewest pixels on chip of a done patch for it to be remembered.
    """

    kernel: int
    group: int
    parts: int
    step: int
    held: int


class Store(NamedTuple):
    """The states that are kept, and scratch memory.

    Attributes
    ----------
    rows : int16, shape (states, _ROW)
        States in canonical form.
    lead, following, waiting : int64, shape (states,)
        Of each state the lead, or -1 if a better one was found; the next one of the same hash, or -1; and
        the next one with the same lead that is not followed yet, or -1.
    heads : int64, shape (power of two,)
        First state of each hash, or -1.
    tops : int64, shape (leads,)
        First state of each lead that is not followed yet, or -1.
    least : int64, shape (patches, pixels)
        Least surplus by the last group, in parts.
    used : int64, shape (1,)
        How many states there are.
    number, owner : int64, shape (_WIDE, _HIGH)
        The number of a pixel of the last group, or -1; and scratch.
    gone : bool, shape (_WIDE, _HIGH)
        Patches that are done.
    """

    rows: NDArray[np.int16]
    lead: Ints
    following: Ints
    waiting: Ints
    heads: Ints
    tops: Ints
    least: Ints
    used: Ints
    number: Ints
    owner: Ints
    gone: NDArray[np.bool_]


class Board(NamedTuple):
    """A group laid out, and patches that are done beside it; there is room behind both.

    Attributes
    ----------
    x, y : int64
        Patches of the group, the first `n`.
    done_x, done_y : int64
        Patches that are done beside them, the first `n_done`.
    """

    x: Ints
    y: Ints
    done_x: Ints
    done_y: Ints
    n: int
    n_done: int


class Followers(NamedTuple):
    """The patches that may follow a group, those first that share most pixels with it.

    Attributes
    ----------
    x, y, shares : int64, masks : uint64
        Their places, how many pixels they share, and which; the first `found`.
    pixels
        Pixels of the group.
    """

    x: Ints
    y: Ints
    shares: Ints
    masks: NDArray[np.uint64]
    found: int
    pixels: int


def store(states: int) -> Store:
    """Allocate a store for `states` states."""
    return Store(
        np.zeros((states, _ROW), np.int16),
        np.full(states, -1, np.int64),
        np.full(states, -1, np.int64),
        np.full(states, -1, np.int64),
        np.full(1 << max(10, states.bit_length()), -1, np.int64),
        np.full(4096, -1, np.int64),
        np.full((MOST + 1, 65), MUCH, np.int64),
        np.zeros(1, np.int64),
        np.full((_WIDE, _HIGH), -1, np.int64),
        np.full((_WIDE, _HIGH), -1, np.int64),
        np.zeros((_WIDE, _HIGH), np.bool_),
    )


@inner
def _bits(x):
    n = 0
    while x:
        x &= x - np.uint64(1)
        n += 1
    return n


@inner
def _image(i, x, y):
    """Return one of the eight images of a patch."""
    if i & 1:
        x = -x
    if i & 2:
        y = -y
    if i & 4:
        return y, x
    return x, y


@inner
def _sorted(codes, n):
    for i in range(1, n):
        code, j = codes[i], i - 1
        while j >= 0 and codes[j] > code:
            codes[j + 1] = codes[j]
            j -= 1
        codes[j + 1] = code


@inner
def _less(a, na, b, nb):
    """Compare sequences of codes: -1, 0 or 1."""
    for i in range(min(na, nb)):
        if a[i] != b[i]:
            return -1 if a[i] < b[i] else 1
    return 0 if na == nb else (-1 if na < nb else 1)


@inner
def _empty_board():
    """Return a board without patches."""
    beside = 2 * MOST * _BESIDE
    x, y = np.zeros(MOST, np.int64), np.zeros(MOST, np.int64)
    return Board(x, y, np.zeros(beside, np.int64), np.zeros(beside, np.int64), 0, 0)


@inner
def _sized(board, n, n_done):
    """Return a board of which so many patches count."""
    return Board(board.x, board.y, board.done_x, board.done_y, n, n_done)


@inner
def _clusters(kind, board, is_open, cluster):
    """Give each patch the number of its cluster, or of its piece if open; return how many there are."""
    px, py, n, reach = board.x, board.y, board.n, 2 * (kind.kernel - 1)
    cluster[:n] = -1
    n_clusters = 0
    for i in range(n):
        if cluster[i] >= 0:
            continue
        cluster[i] = n_clusters
        grown = True
        while grown:
            grown = False
            for a in range(n):
                if cluster[a] != n_clusters:
                    continue
                for b in range(n):
                    if is_open:
                        near = _field(px[a]) == _field(px[b])
                    else:
                        near = abs(px[a] - px[b]) <= reach and abs(py[a] - py[b]) <= reach
                    if near and cluster[b] < 0:
                        cluster[b] = n_clusters
                        grown = True
        n_clusters += 1
    return n_clusters


@inner
def _field(x):
    """Return which cluster of a board a patch belongs to, by its column."""
    return (x - _EDGE + _APART // 2) // _APART


@inner
def _remembered(kind, board, cluster, c, x, y, is_open):
    """Whether a state keeps in mind that a patch near cluster c is done."""
    px, py, n, beside = board.x, board.y, board.n, False
    for i in range(n):
        if cluster[i] == c and abs(px[i] - x) <= 1 and abs(py[i] - y) <= 1:
            beside = True
            break
    if is_open or not beside or kind.held <= 1:
        return beside
    held = 0
    for u in range(x, x + kind.kernel):
        for v in range(y, y + kind.kernel):
            for i in range(n):
                if cluster[i] == c and 0 <= u - px[i] < kind.kernel and 0 <= v - py[i] < kind.kernel:
                    held += 1
                    break
    return held >= kind.held


@inner
def _canonical(kind, board, is_open, row):
    """Write the row of a group, or of pieces on a board, and of what is done beside them."""
    cluster = np.zeros(MOST, np.int64)
    n_clusters = _clusters(kind, board, is_open, cluster)
    forms = np.zeros((n_clusters, _WIDTH), np.int64)
    ex, ey = np.zeros(_BESIDE, np.int64), np.zeros(_BESIDE, np.int64)
    for c in range(n_clusters):
        beside = 0
        for q in range(board.n_done):
            x, y = board.done_x[q], board.done_y[q]
            near = _remembered(kind, board, cluster, c, x, y, is_open)
            # Pieces that were laid out may have the same one beside them.
            for i in range(beside):
                if ex[i] == x and ey[i] == y:
                    near = False
                    break
            if near:
                ex[beside], ey[beside] = x, y
                beside += 1
        _least_image(board, cluster, c, ex[:beside], ey[:beside], forms[c])
    row[:] = 0
    row[0], row[_ROW - 1] = n_clusters, is_open
    used = np.zeros(n_clusters, np.bool_)
    for place in range(n_clusters):
        first = -1
        for c in range(n_clusters):
            if not used[c] and (first < 0 or _before(forms[c], forms[first])):
                first = c
        used[first] = True
        row[1 + place * _WIDTH : 1 + (place + 1) * _WIDTH] = forms[first]


@inner
def _before(form, other):
    """Whether a cluster comes before another one in a row."""
    order = _less(form[2:], form[0], other[2:], other[0])
    if order == 0:
        order = _less(form[2 + MOST :], form[1], other[2 + MOST :], other[1])
    return order < 0


@inner
def _least_image(board, cluster, c, ex, ey, form):
    """Write the least of the eight images of a cluster, with what is done beside it."""
    codes, others = np.zeros(MOST, np.int64), np.zeros(_BESIDE, np.int64)
    px, py, beside, found = board.x, board.y, len(ex), False
    for image in range(8):
        size, left, low = 0, MUCH, MUCH
        for i in range(board.n):
            if cluster[i] == c:
                x, y = _image(image, px[i], py[i])
                left, low = min(left, x), min(low, y)
        for i in range(board.n):
            if cluster[i] == c:
                x, y = _image(image, px[i], py[i])
                codes[size] = (x - left + 1) * 64 + y - low + 1
                size += 1
        _sorted(codes, size)
        order = -1
        if found:
            order = _less(codes, size, form[2:], size)
            if order > 0:
                continue
        for q in range(beside):
            x, y = _image(image, ex[q], ey[q])
            others[q] = (x - left + 1) * 64 + y - low + 1
        _sorted(others, beside)
        if order == 0 and _less(others, beside, form[2 + MOST :], beside) >= 0:
            continue
        found = True
        form[0], form[1] = size, beside
        form[2 : 2 + size] = codes[:size]
        form[2 + MOST : 2 + MOST + beside] = others[:beside]


@inner
def _laid_out(row, board):
    """Put clusters on a board and return it."""
    n = nd = 0
    for c in range(row[0]):
        at = 1 + c * _WIDTH
        shift = _EDGE + c * _APART
        for i in range(row[at]):
            code = row[at + 2 + i]
            board.x[n], board.y[n] = code // 64 - 1 + shift, code % 64 - 1 + _EDGE
            n += 1
        for i in range(row[at + 1]):
            code = row[at + 2 + MOST + i]
            board.done_x[nd], board.done_y[nd] = code // 64 - 1 + shift, code % 64 - 1 + _EDGE
            nd += 1
    return _sized(board, n, nd)


@inner
def _next(kind, store, board):
    """Find the patches that may follow and what they share."""
    near = MOST * (2 * kind.kernel - 1) ** 2
    qx, qy, shares = np.zeros(near, np.int64), np.zeros(near, np.int64), np.zeros(near, np.int64)
    masks = np.zeros(near, np.uint64)
    kernel, number, gone, owner = kind.kernel, store.number, store.gone, store.owner
    px, py, n = board.x, board.y, board.n
    pixels = 0
    for i in range(n):
        gone[px[i], py[i]] = True
        for x in range(px[i], px[i] + kernel):
            for y in range(py[i], py[i] + kernel):
                if number[x, y] < 0:
                    number[x, y] = pixels
                    pixels += 1
    for i in range(board.n_done):
        gone[board.done_x[i], board.done_y[i]] = True
    found = 0
    for i in range(n):
        for x in range(px[i] - kernel + 1, px[i] + kernel):
            for y in range(py[i] - kernel + 1, py[i] + kernel):
                if gone[x, y] or owner[x, y] >= 0:
                    continue
                owner[x, y] = 0
                mask = np.uint64(0)
                for u in range(x, x + kernel):
                    for v in range(y, y + kernel):
                        if number[u, v] >= 0:
                            mask |= np.uint64(1) << np.uint64(number[u, v])
                share = _bits(mask)
                # The largest shares first.
                j = found - 1
                while j >= 0 and shares[j] < share:
                    qx[j + 1], qy[j + 1], masks[j + 1], shares[j + 1] = qx[j], qy[j], masks[j], shares[j]
                    j -= 1
                qx[j + 1], qy[j + 1], masks[j + 1], shares[j + 1] = x, y, mask, share
                found += 1
    for i in range(found):
        owner[qx[i], qy[i]] = -1
    for i in range(n):
        gone[px[i], py[i]] = False
        for x in range(px[i], px[i] + kernel):
            for y in range(py[i], py[i] + kernel):
                number[x, y] = -1
    for i in range(board.n_done):
        gone[board.done_x[i], board.done_y[i]] = False
    return Followers(qx, qy, shares, masks, found, pixels)


@inner
def _need(kind, pixels, n, lead):
    """Return how many pixels of a group of n patches the next group must share to keep a lead."""
    return max(1, pixels - (kind.parts * n + kind.step + lead - 1) // kind.parts)


@inner
def _covers(followers, first, slots, mask, need):
    """Whether the given number of further patches can share enough pixels."""
    masks, shares, have = followers.masks, followers.shares, _bits(mask)
    if have >= need:
        return True
    if slots == 0:
        return False
    for i in range(first, followers.found):
        if have + slots * shares[i] < need:
            return False
        if _covers(followers, i + 1, slots - 1, mask | masks[i], need):
            return True
    return False


@inner
def _beside(row, other):
    """Whether no cluster of a row has others done beside it than that of another row of the same shape."""
    for c in range(row[0]):
        at = 1 + c * _WIDTH
        j, m = 0, other[at + 1]
        for i in range(row[at + 1]):
            code = row[at + 2 + MOST + i]
            while j < m and other[at + 2 + MOST + j] < code:
                j += 1
            if j == m or other[at + 2 + MOST + j] != code:
                return False
    return True


@inner
def _keep(kind, store, board, is_open, lead):
    """Keep a state unless one as good is known or nothing can follow; return False if the store is full.

    What is open stands on a board, each piece at its own place.
    """
    at = store.used[0]
    if at == len(store.rows):
        return False
    row = store.rows[at]
    _canonical(kind, board, is_open, row)
    code = np.uint64(1469598103934665603)
    for c in range(row[0]):
        for i in range(MOST):
            code = (code ^ np.uint64(row[1 + c * _WIDTH + 2 + i])) * np.uint64(1099511628211)
        code = (code ^ np.uint64(row[1 + c * _WIDTH])) * np.uint64(1099511628211)
    code = (code ^ np.uint64(is_open)) * np.uint64(1099511628211)
    code ^= code >> np.uint64(29)
    slot = np.int64(code & np.uint64(len(store.heads) - 1))
    i = store.heads[slot]
    while i >= 0:
        if store.lead[i] >= lead and _same(row, store.rows[i]) and _beside(store.rows[i], row):
            return True
        i = store.following[i]
    if not is_open and not _followed(kind, store, row, lead):
        return True
    i = store.heads[slot]
    while i >= 0:
        if 0 <= store.lead[i] <= lead and _same(row, store.rows[i]) and _beside(row, store.rows[i]):
            store.lead[i] = -1
        i = store.following[i]
    store.lead[at] = lead
    store.following[at] = store.heads[slot]
    store.heads[slot] = at
    store.waiting[at] = store.tops[lead]
    store.tops[lead] = at
    store.used[0] += 1
    return True


@inner
def _followed(kind, store, row, lead):
    """Note the surplus of a group; return whether anything can follow it."""
    board = _laid_out(row, _empty_board())
    followers = _next(kind, store, board)
    n, pixels = board.n, followers.pixels
    surplus = kind.parts * (pixels - n) - kind.step - lead
    store.least[n, pixels] = min(store.least[n, pixels], surplus)
    need = _need(kind, pixels, n, lead)
    return _covers(followers, 0, kind.group, np.uint64(0), need)


@inner
def _same(row, other):
    """Whether two rows have the same clusters or pieces, but for what is done beside them."""
    if row[0] != other[0] or row[_ROW - 1] != other[_ROW - 1]:
        return False
    for c in range(row[0]):
        at = 1 + c * _WIDTH
        if row[at] != other[at]:
            return False
        for i in range(row[at]):
            if row[at + 2 + i] != other[at + 2 + i]:
                return False
    return True


class Pieces(NamedTuple):
    """Parts of a group whose places are not known.

    Attributes
    ----------
    sizes : int64, shape (pieces, 2)
        How many patches each has, and how many are done beside them.
    x, y : int64, shape (pieces, MOST + _BESIDE)
        Patches, then those done beside them.
    images : bool, shape (pieces, 8)
        Which of its images differ from those before.
    alike : bool, shape (pieces,)
        Whether it is the same as the piece before.
    """

    sizes: Ints
    x: Ints
    y: Ints
    images: NDArray[np.bool_]
    alike: NDArray[np.bool_]


@inner
def _place(kind, store, pieces, placed, n_pieces, board, lead):
    """Lay out the pieces that are not placed yet in every way; return False if the store is full.

    A piece stands near one of those before or far from all, so they come in every order: one may join two
    that are not near each other. Those that are alike come one after the other.
    """
    if placed == (1 << n_pieces) - 1:
        return _keep(kind, store, board, False, lead)
    px, py, n, reach = board.x, board.y, board.n, 2 * (kind.kernel - 1)
    tried: set[tuple[int, int]] = set()
    for k in range(n_pieces):
        if placed >> k & 1 or (pieces.alike[k] and not placed >> (k - 1) & 1):
            continue
        now = placed | 1 << k
        size, beside = pieces.sizes[k]
        x, y = pieces.x[k, : size + beside], pieces.y[k, : size + beside]
        right, left = -MUCH, MUCH
        for i in range(n):
            right = max(right, px[i])
        for i in range(size):
            left = min(left, x[i])
        larger = _add_piece(board, x, y, size, right - left + _APART, 0)
        if not _place(kind, store, pieces, now, n_pieces, larger, lead):
            return False
        turned_x, turned_y = np.zeros(size + beside, np.int64), np.zeros(size + beside, np.int64)
        for image in range(8):
            if not pieces.images[k, image]:
                continue
            for i in range(size + beside):
                turned_x[i], turned_y[i] = _image(image, x[i], y[i])
            tried.clear()
            for i in range(n):
                for j in range(size):
                    for mx in range(px[i] - turned_x[j] - reach, px[i] - turned_x[j] + reach + 1):
                        for my in range(py[i] - turned_y[j] - reach, py[i] - turned_y[j] + reach + 1):
                            move = (mx, my)
                            if move in tried:
                                continue
                            tried.add(move)
                            if not _fits(board, turned_x, turned_y, size, mx, my):
                                continue
                            larger = _add_piece(board, turned_x, turned_y, size, mx, my)
                            if not _place(kind, store, pieces, now, n_pieces, larger, lead):
                                return False
    return True


@inner
def _add_piece(board, x, y, size, mx, my):
    """Return a board with a piece more, whose first `size` places are patches and whose others are done."""
    for q in range(size):
        board.x[board.n + q], board.y[board.n + q] = x[q] + mx, y[q] + my
    for q in range(size, len(x)):
        at = board.n_done + q - size
        board.done_x[at], board.done_y[at] = x[q] + mx, y[q] + my
    return _sized(board, board.n + size, board.n_done + len(x) - size)


@inner
def _fits(board, x, y, size, mx, my):
    """Whether a piece may stand there: no patch is done twice."""
    for q in range(len(x)):
        u, v = x[q] + mx, y[q] + my
        for i in range(board.n):
            if board.x[i] == u and board.y[i] == v:
                return False
        if q < size:
            for i in range(board.n_done):
                if board.done_x[i] == u and board.done_y[i] == v:
                    return False
    return True


@inner
def _choose(kind, store, lead, board, followers, chosen, n_chosen, mask):
    """Choose what touches the last group and keep what may follow; return False if the store is full.

    Parameters
    ----------
    chosen
        Numbers of the followers that are chosen, the first `n_chosen`.
    mask
        Pixels that they share with the group.
    """
    shared, need = _bits(mask), _need(kind, followers.pixels, board.n, lead)
    if n_chosen and shared >= need:
        after = lead + kind.parts * (board.n - followers.pixels + shared) + kind.step
        if not _chosen(kind, store, after, board, followers, chosen, n_chosen):
            return False
    if n_chosen == kind.group:
        return True
    first = chosen[n_chosen - 1] + 1 if n_chosen else 0
    for i in range(first, followers.found):
        if shared + (kind.group - n_chosen) * followers.shares[i] < need:
            break
        chosen[n_chosen] = i
        larger = mask | followers.masks[i]
        if not _choose(kind, store, lead, board, followers, chosen, n_chosen + 1, larger):
            return False
    return True


@inner
def _chosen(kind, store, lead, board, followers, chosen, n_chosen):
    """Keep the chosen patches as pieces by the cluster they touch, or as a group if it is one full piece."""
    after = _empty_board()
    is_open = n_chosen < kind.group
    for j in range(n_chosen):
        after.x[j], after.y[j] = followers.x[chosen[j]], followers.y[chosen[j]]
        is_open |= _field(after.x[j]) != _field(after.x[0])
    n, m = board.n, board.n_done
    after.done_x[:n], after.done_y[:n] = board.x[:n], board.y[:n]
    after.done_x[n : n + m], after.done_y[n : n + m] = board.done_x[:m], board.done_y[:m]
    return _keep(kind, store, _sized(after, n_chosen, n + m), is_open, lead)


@inner
def _put(pieces, k, row):
    """Make the k-th cluster of a row a piece."""
    at = 1 + k * _WIDTH
    size, beside = row[at], row[at + 1]
    pieces.sizes[k, 0], pieces.sizes[k, 1] = size, beside
    forms = np.zeros((8, MOST + _BESIDE), np.int64)
    for i in range(size + beside):
        code = row[at + 2 + i] if i < size else row[at + 2 + MOST + i - size]
        pieces.x[k, i], pieces.y[k, i] = code // 64 - 1, code % 64 - 1
    for image in range(8):
        left, low = MUCH, MUCH
        for i in range(size):
            x, y = _image(image, pieces.x[k, i], pieces.y[k, i])
            left, low = min(left, x), min(low, y)
        for i in range(size + beside):
            x, y = _image(image, pieces.x[k, i], pieces.y[k, i])
            forms[image, i] = (x - left + 1) * 64 + y - low + 1
        _sorted(forms[image], size)
        _sorted(forms[image, size:], beside)
        pieces.images[k, image] = True
        for other in range(image):
            if _less(forms[image], size + beside, forms[other], size + beside) == 0:
                pieces.images[k, image] = False
    pieces.alike[k] = k > 0
    for i in range(_WIDTH):
        if k > 0 and row[at + i] != row[at - _WIDTH + i]:
            pieces.alike[k] = False


@inner
def _arrange(kind, store, row, lead, pieces):
    """Place pieces, and further patches that touch none of the last group; False if the store is full."""
    n_pieces, total = row[0], 0
    for k in range(n_pieces):
        _put(pieces, k, row)
        total += pieces.sizes[k, 0]
    size, beside = pieces.sizes[0]
    for k in range(n_pieces, n_pieces + kind.group - total + 1):
        x, y = pieces.x[0, : size + beside], pieces.y[0, : size + beside]
        board = _add_piece(_empty_board(), x, y, size, 0, 0)
        if not _place(kind, store, pieces, 1, k, board, lead):
            return False
        pieces.sizes[k, 0], pieces.sizes[k, 1] = 1, 0
        pieces.x[k, 0], pieces.y[k, 0] = 0, 0
        pieces.images[k] = False
        pieces.images[k, 0] = True
        pieces.alike[k] = pieces.sizes[k - 1, 0] == 1 and pieces.sizes[k - 1, 1] == 0
    return True


@recursive
def follow(kind, store, most):
    """Follow at most `most` states, those with the largest leads first; begin with all first groups.

    Returns
    -------
    int
        How many states are left to follow; -1 if `store` is full.
    """
    board, chosen = _empty_board(), np.zeros(MOST, np.int64)
    pieces = Pieces(
        np.zeros((2 * MOST, 2), np.int64),
        np.zeros((2 * MOST, MOST + _BESIDE), np.int64),
        np.zeros((2 * MOST, MOST + _BESIDE), np.int64),
        np.zeros((2 * MOST, 8), np.bool_),
        np.zeros(2 * MOST, np.bool_),
    )
    # A first group is one patch and others, near or far.
    if store.used[0] == 0 and not _keep(kind, store, _sized(board, 1, 0), True, 0):
        return -1
    while most > 0:
        # What follows may have a larger lead.
        top = len(store.tops) - 1
        while top >= 0 and store.tops[top] < 0:
            top -= 1
        if top < 0:
            return 0
        i = store.tops[top]
        store.tops[top] = store.waiting[i]
        if store.lead[i] < 0:
            continue
        most -= 1
        row, lead = store.rows[i].copy(), store.lead[i]
        if row[_ROW - 1]:
            if not _arrange(kind, store, row, lead, pieces):
                return -1
            continue
        last = _laid_out(row, board)
        followers = _next(kind, store, last)
        if not _choose(kind, store, lead, last, followers, chosen, 0, np.uint64(0)):
            return -1
    left = 0
    for lead in range(len(store.tops)):
        i = store.tops[lead]
        while i >= 0:
            left += store.lead[i] >= 0
            i = store.waiting[i]
    return left
