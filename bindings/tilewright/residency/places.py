"""Operations that compute a pixel from those at its place: functions of single values, and stored numbers.

Numbers of the file that differ from place to place are an input of the network, as tensors are: a mask, or a
table of cosines, passes by as what it is added to or multiplies does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import accumulate

from tilewright.spec.access import BY_VALUE
from tilewright.spec.graph import OWN, Access, NetworkGraph, Operation
from tilewright.spec.network import NORMALISATIONS, Add, AnyLayer, Concat, Function, Input, Map, Mul, Shape

COMBINED: dict[str, type[Add] | type[Mul]] = {"add": Add, "sum": Add, "mul": Mul}
"""Functions that are sums or products, of operands of which some have one channel or one pixel for all."""


def graph_with_numbers(graph: NetworkGraph) -> NetworkGraph:
    """Return a coarse graph in which stored numbers of places are inputs, called ``numbers of NAME``.

    An operation that adds them, or multiplies by them, is a sum or a product of two operands. If it reads
    several tensors, a concatenation of its own joins them.
    """
    names = {op.name for op in graph.ops}
    found: list[Operation] = []
    numbers = {OWN: OWN}

    def name_of(what: str, name: str) -> str:
        name = f"{what} of {name}"
        while name in names:
            name = f"{what} of {name}"
        names.add(name)
        return name

    def add(spec: Input | Concat, read: tuple[Access, ...]) -> Access:
        found.append(Operation(len(found), spec, read, False))
        return Access(len(found) - 1)

    for op in graph.ops:
        accesses = tuple(access._replace(source=numbers[access.source]) for access in op.accesses)
        spec = op.spec
        numbered = spec.numbers_of_pixels if isinstance(spec, Map) else None
        if numbered is not None:
            if len(accesses) > 1:
                join = Concat(kind="concat", name=name_of("parts", op.name), input=spec.output)
                accesses = (add(join, accesses),)
            given = Input(kind="input", name=name_of("numbers", op.name), inputs=(), input=numbered.shape)
            accesses = (*accesses, add(given, ()))
            spec = _combined(numbered.op, spec.name, spec.output)
        numbers[op.number] = len(found)
        found.append(replace(op, number=len(found), spec=spec, accesses=accesses))
    return replace(graph, ops=tuple(found))


def graph_of_causal(graph: NetworkGraph) -> NetworkGraph:
    """Return a coarse graph in which causal masks are part of the softmax that alone reads the masked scores.

    Whoever computes the softmax knows positions, so that such a mask is none of its numbers.
    """
    masked: dict[int, Operation] = {}
    for op in graph.ops:
        readers = graph.consumers[op.number]
        if _is_causal_mask(op) and len(readers) == 1 and not op.leaves:
            softmax = graph.ops[readers[0]]
            if _is_along_keys(softmax, op):
                assert isinstance(op.spec, Map) and op.spec.numbers is not None
                folded = (*softmax.folded, op.spec, *op.folded)
                causal = op.spec.numbers.causal
                masked[op.number] = replace(softmax, accesses=op.accesses, folded=folded, causal=causal)
    return _without(graph, masked) if masked else graph


def _is_causal_mask(op: Operation) -> bool:
    spec = op.spec
    return isinstance(spec, Map) and spec.numbers is not None and spec.numbers.causal is not None


def _is_along_keys(op: Operation, mask: Operation) -> bool:
    """Whether an operation is a softmax of all keys of a query, of scores with a mask."""
    spec, masked = op.spec, mask.spec
    if not isinstance(spec, Function) or spec.op != "softmax" or op.accesses != (Access(mask.number),):
        return False
    assert isinstance(masked, Map) and masked.numbers is not None
    channels, height, _ = masked.numbers.shape
    along = ("channels",) if height == 1 and channels == spec.input[0] else ("rows",)
    keys = spec.input[0] if along == ("channels",) else spec.input[1]
    return spec.along == along and not spec.parameters and keys == channels * height


def graph_by_place(graph: NetworkGraph) -> NetworkGraph:
    """Return a graph whose functions of single values, and reductions of channels, go over pixels.

    Names and shapes tell what they are: see `tilewright.spec.access.BY_VALUE`.
    """
    return replace(graph, ops=tuple(_by_place(graph, op) for op in graph.ops))


def _by_place(graph: NetworkGraph, op: Operation) -> Operation:
    spec = op.spec
    if not isinstance(spec, Function) or spec.along is not None or spec.parameters or not op.accesses:
        return op
    given, output = [graph.shape(access) for access in op.accesses], spec.output
    if spec.op.startswith("reduce_") and given == [spec.input]:
        reduced = output == (1, *spec.input[1:])
        return replace(op, picks=(0,)) if reduced else op
    if spec.op not in BY_VALUE or output not in given:
        return op
    if set(given) == {output} or _alike(given, output, pixel=False):
        if spec.op in COMBINED and len(given) > 1:
            return replace(op, spec=_combined(spec.op, spec.name, output))
        first = sum(shape[0] for shape in given[: given.index(output)])
        return replace(op, picks=tuple(range(first, first + output[0])))
    if spec.op in COMBINED and _alike(given, output, pixel=True):
        return replace(op, spec=_combined(spec.op, spec.name, output))
    return op


def _alike(given: Sequence[Shape], output: Shape, *, pixel: bool) -> bool:
    """Whether operands have the shape of the output, or one channel, or one pixel, for all."""
    channels, *plane = output
    allowed = {output, (1, plane[0], plane[1]), *([(channels, 1, 1)] if pixel else [])}
    return set(given) <= allowed


def _combined(op: str, name: str, shape: Shape) -> AnyLayer:
    kind = "mul" if op == "mul" else "add"
    return COMBINED[op].model_validate({"kind": kind, "name": name, "input": shape})


def graph_of_joins(graph: NetworkGraph) -> NetworkGraph:
    """Return a graph whose concatenations of rows, or of columns of one row, go over pixels of parts."""
    return replace(graph, ops=tuple(_joined(graph, op) for op in graph.ops))


def _joined(graph: NetworkGraph, op: Operation) -> Operation:
    spec = op.spec
    plain = all(access == Access(access.source) for access in op.accesses)
    if not isinstance(spec, Function) or spec.op != "concat" or spec.parameters or not plain:
        return op
    given = [graph.shape(access) for access in op.accesses]
    if op.picks is not None or len(set(op.producers)) < len(given):
        return op
    channels, _, width = spec.output
    for axis, rest in ((1, [channels, width]), (2, [channels, 1])):
        others = [[size for place, size in enumerate(shape) if place != axis] for shape in given]
        ends = list(accumulate(shape[axis] for shape in given))
        if ends[-1] == spec.output[axis] and all(each == rest for each in others):
            begins = [0, *ends[:-1]]
            accesses = tuple(
                access._replace(at=(begin, 0) if axis == 1 else (0, begin))
                for access, begin in zip(op.accesses, begins, strict=True)
            )
            return replace(op, accesses=accesses, picks=tuple(range(channels)))
    return op


# One operation of several ----------------------------------------------------------------------------


def graph_of_merged(graph: NetworkGraph) -> NetworkGraph:
    """Return a graph in which operations that pick channels of a pixel are one with those before them.

    So it is where nothing else reads these, all of what they read is one tensor, and what they give is no
    smaller than what comes of it: it would not be kept instead. A function of single values without
    parameters is computed on the way out of such an operation.
    """
    while True:
        merged: dict[int, Operation] = {}  # by the numbers of those that are part of others then
        taken = set[int]()
        for op in graph.ops:
            found = _with_readers(graph, op) or _with_sources(graph, op)
            if found is not None and not taken & {op.number, *found[0]}:
                taken |= {op.number, *found[0]}
                merged |= dict.fromkeys(found[0], found[1])
        if not merged:
            return graph
        graph = _without(graph, merged)


def _with_readers(graph: NetworkGraph, op: Operation) -> tuple[set[int], Operation] | None:
    """Return an operation that picks channels with the function of single values that alone reads it."""
    readers = graph.consumers[op.number]
    if op.picks is None or op.leaves or len(readers) != 1:
        return None
    reader = graph.ops[readers[0]]
    spec = reader.spec
    function = isinstance(spec, Map) and spec.op not in NORMALISATIONS and not spec.parameters
    if not function or reader.accesses != (Access(op.number),) or reader.leaves:
        return None
    return {reader.number}, replace(op, folded=(*op.folded, spec, *reader.folded))


def _with_sources(graph: NetworkGraph, op: Operation) -> tuple[set[int], Operation] | None:
    """Return an operation that picks channels of what others pick, as one that picks of what these read."""
    if op.picks is None or op.has_views or op.spread > 1:
        return None
    if any(access.channels is not None for access in op.accesses):
        return None
    inside: list[Operation] = []
    accesses: dict[Access, int] = {}  # and the first channel of each, all joined
    end, channels = 0, list[int]()
    for access in op.accesses:
        source = None if access.source == OWN else graph.ops[access.source]
        given: tuple[Access, ...] = (access,)
        if source is not None and _picks_for(graph, source, op):
            inside.append(source)
            given = source.accesses
        begins = list[int]()
        for each in given:
            if each not in accesses:
                accesses[each], end = end, end + graph.shape(each)[0]
            begins += range(accesses[each], accesses[each] + graph.shape(each)[0])
        own = source.picks if source is not None and source in inside else range(len(begins))
        assert own is not None
        channels += [begins[pick] for pick in own]
    given_by = sum(source.spec.output[0] for source in inside)
    others = [access for access in op.accesses if access.source not in {each.number for each in inside}]
    kept = sum(graph.shape(access)[0] for access in dict.fromkeys(others))
    if not inside or len({access.source for access in accesses}) > 1:
        return None
    if op.spec.output[0] > given_by + kept:
        return None
    folded = (*(each for one in inside for each in (one.spec, *one.folded)), *op.folded)
    picks = tuple(channels[pick] for pick in op.picks)
    changed = replace(op, accesses=tuple(accesses), picks=picks, folded=folded)
    return {one.number for one in inside}, changed


def _picks_for(graph: NetworkGraph, source: Operation, reader: Operation) -> bool:
    """Whether an operation picks channels for another one alone."""
    alone = graph.consumers[source.number] == (reader.number,) and not source.leaves
    return source.picks is not None and source.spread == 1 and alone and not source.has_views


def _without(graph: NetworkGraph, gone: Mapping[int, Operation]) -> NetworkGraph:
    """Return a graph without some operations, by number, each of which is part of one that has changed."""
    kept = [op for op in graph.ops if op.number not in gone]
    changed = {op.number: op for op in gone.values()}
    numbers = {op.number: number for number, op in enumerate(kept)} | {OWN: OWN}
    numbers |= {number: numbers[op.number] for number, op in gone.items()}
    found = []
    for op in kept:
        own = changed.get(op.number, op)
        accesses = tuple(access._replace(source=numbers[access.source]) for access in own.accesses)
        found.append(replace(own, number=numbers[op.number], accesses=accesses))
    return replace(graph, ops=tuple(found))
