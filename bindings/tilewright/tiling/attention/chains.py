"""Which operations of a network are attention that may be one step: two products with a softmax between."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import NamedTuple

from tilewright.spec.graph import OWN, Access, NetworkGraph
from tilewright.spec.graph import Operation as GraphOperation
from tilewright.spec.network import Function, Map, MatMul, NamedLayer, Reshape, Shape, parameters_of
from tilewright.tiling.operations.operation import VIEWS, Attention, Operation, Unmodelled

AXES = ("channels", "rows", "columns")


class Chain(NamedTuple):
    """Operations of a network that are attention.

    Attributes
    ----------
    scores, context
        Numbers of the products.
    between
        Numbers of what is done with scores, in order, at last the softmax.
    causal, mask
        n where query i sees keys up to i + n, and the number of the operation that says so.
    heads
        Heads that share a matrix of keys.
    alike
        Whether some of queries, keys and values may be the same values.
    """

    scores: int
    between: tuple[int, ...]
    context: int
    causal: int | None
    mask: int | None
    heads: int
    alike: bool

    @property
    def numbers(self) -> tuple[int, ...]:
        """All of them, in order."""
        return (self.scores, *self.between, self.context)


def chains(graph: NetworkGraph) -> Iterator[Chain]:
    """Yield the attention of a network, no operation twice."""
    taken: set[int] = set()
    for op in graph.ops:
        found = _chain(graph, op)
        if found is not None and not taken & {*found.numbers}:
            taken |= {*found.numbers}
            yield found


def _chain(graph: NetworkGraph, context: GraphOperation) -> Chain | None:
    """Return the attention whose context a product gives, or None."""
    spec = context.spec
    if not isinstance(spec, MatMul) or len(context.accesses) != 2:
        return None
    softmax = _alone(graph, context.accesses[0])
    if softmax is None or not _is_softmax(softmax, spec):
        return None
    between, causal, mask = [softmax.number], None, None
    op = _alone(graph, softmax.accesses[0])
    while op is not None and isinstance(op.spec, Map):
        if op.spec.numbers is not None and op.spec.numbers.causal is not None and causal is None:
            causal, mask = op.spec.numbers.causal, op.number
        elif op.spec.op in ("softmax", "lrn") or parameters_of(op.spec) > 1:
            return None
        between.insert(0, op.number)
        op = _alone(graph, op.accesses[0]) if len(op.accesses) == 1 else None
    if op is None or not isinstance(op.spec, MatMul) or len(op.accesses) != 2:
        return None
    scores = op.spec
    if (scores.groups, scores.rows, scores.columns) != (spec.groups, spec.rows, spec.depth):
        return None
    if scores.batch != spec.batch:
        return None
    keys, values = (
        _shared(graph, each.accesses[1], product.groups, product.depth * product.columns)
        for each, product in ((op, scores), (context, spec))
    )
    heads = keys if keys == values else 1
    operands = [op.accesses[0], op.accesses[1], context.accesses[1]]
    sources = [_source(graph, access) for access in operands]
    if any(source.source in (op.number, *between, context.number) for source in sources):
        return None
    alike = any(_overlap(one, other) for i, one in enumerate(sources) for other in sources[:i])
    return Chain(op.number, tuple(between), context.number, causal, mask, heads, alike)


def _alone(graph: NetworkGraph, access: Access) -> GraphOperation | None:
    """Return who gives all of what is read, through views, if nobody else reads it."""
    while access == Access(access.source) and access.source != OWN:
        op = graph.ops[access.source]
        if len(graph.consumers[op.number]) != 1 or op.leaves or not op.accesses:
            return None
        if not (isinstance(op.spec, Reshape) and op.spec.op in VIEWS):
            return op
        if len(op.accesses) != 1:
            return None
        access = op.accesses[0]
    return None


def _is_softmax(op: GraphOperation, context: MatMul) -> bool:
    """Whether an operation is a softmax of the scores of each query of each head.

    Scores are stored head by head, then key by key, and of each key query by query.
    """
    spec = op.spec
    if not isinstance(spec, Function) or spec.op != "softmax" or spec.along is None or len(op.accesses) != 1:
        return False
    if parameters_of(spec) or prod(spec.output) != context.groups * context.depth * context.rows:
        return False
    long = [axis for axis in spec.along if spec.output[AXES.index(axis)] > 1]
    if not long:
        return context.depth == 1
    if len(long) > 1:
        return False
    place = AXES.index(long[0])
    return spec.output[place] == context.depth and prod(spec.output[place + 1 :]) == context.rows


def _shared(graph: NetworkGraph, access: Access, groups: int, size: int) -> int:
    """Return how many heads, one after the other, read the same matrix of a second operand."""
    while access == Access(access.source) and access.source != OWN:
        op = graph.ops[access.source]
        if isinstance(op.spec, Reshape) and op.spec.op in VIEWS and len(op.accesses) == 1:
            access = op.accesses[0]
            continue
        if not isinstance(op.spec, Function) or op.spec.op != "expand" or len(op.accesses) != 1:
            return 1
        return _copies(graph.shape(op.accesses[0]), op.spec.output, groups, size)
    return 1


def _copies(given: Shape, output: Shape, groups: int, size: int) -> int:
    """Return how often each matrix stands in a row of copies; 1 where copies are none of matrices."""
    longer = [place for place in range(3) if given[place] != output[place]]
    if len(longer) != 1 or prod(output) != groups * size:
        return 1
    (place,) = longer
    many, rest = divmod(output[place], given[place])
    matrices = prod(output[place + 1 :]) == size and (place == 0 or given[place] == 1)
    return many if matrices and not rest and groups % many == 0 else 1


def _source(graph: NetworkGraph, access: Access) -> Access:
    """Return what is read through views and copies."""
    while access == Access(access.source) and access.source != OWN:
        op = graph.ops[access.source]
        view = isinstance(op.spec, Reshape) and op.spec.op in (*VIEWS, "transpose")
        copies = isinstance(op.spec, Function) and op.spec.op == "expand"
        if not (view or copies) or len(op.accesses) != 1:
            break
        access = op.accesses[0]
    return access


def _overlap(one: Access, other: Access) -> bool:
    if one.source != other.source:
        return False
    if one.channels is None or other.channels is None:
        return True
    return one.channels[0] < other.channels[1] and other.channels[0] < one.channels[1]


def attention_of(
    graph: NetworkGraph, chain: Chain, batch: int | None, between: Sequence[Operation]
) -> Operation:
    """Return attention as one operation of a problem.

    Parameters
    ----------
    batch
        Images processed together, when it is not what the network's file says.
    between
        What the vector unit does with scores, in order; nothing where no unit does it.
    """
    scores, context = graph.ops[chain.scores].spec, graph.ops[chain.context].spec
    assert isinstance(scores, MatMul) and isinstance(context, MatMul)
    images, matrices = scores.batch if batch is None else batch, scores.groups // chain.heads
    mask = None if chain.mask is None or not between else chain.between.index(chain.mask)
    attention = Attention(
        matrices=images * matrices,
        heads=chain.heads,
        queries=scores.rows,
        keys=scores.columns,
        depth=scores.depth,
        values=context.columns,
        causal=chain.causal,
        alike=chain.alike,
        between=tuple(between),
        mask=mask,
    )
    return Operation(
        op="attention",
        inputs=(
            (scores.groups * attention.depth, 1, attention.queries),
            (matrices * attention.depth, 1, attention.keys),
            (matrices * attention.values, 1, attention.keys),
        ),
        output=(scores.groups * attention.values, 1, attention.queries),
        batch=images,
        work=sum(each.work for each in between),
        macs=images * (scores.macs // scores.batch + context.macs // context.batch),
        attention=attention,
    )


Executed = NamedLayer | MatMul | tuple[str, Operation] | Unmodelled


def joined(graph: NetworkGraph, batch: int | None, executed: Sequence[Executed]) -> Iterator[Executed]:
    """Yield what a network does, with attention as one operation that stands where its context stood.

    That has the names of all its operations. Of those that no unit does it is still told that they are not
    counted. Attention of which a host does a part is left as it is: the host has a memory of its own.

    Parameters
    ----------
    executed
        What the network does, operation by operation.
    """
    by_name = {_name(each): each for each in executed}
    found: dict[str, tuple[str, Operation]] = {}
    done: set[str] = set()
    for chain in chains(graph):
        names = [graph.ops[number].name for number in chain.numbers]
        parts = [by_name[name] for name in names[1:-1] if name in by_name]
        counted = [part for part in parts if isinstance(part, tuple) and not isinstance(part, Unmodelled)]
        between = [part[1] for part in counted]
        if any(each.on == "host" for each in between) or (between and len(between) < len(names) - 2):
            continue
        name = " + ".join(names)
        found[names[-1]] = name, attention_of(graph, chain, batch, between)
        done |= {names[0], *(part[0] for part in counted)}
    for each in executed:
        if (name := _name(each)) not in done:
            yield found.get(name, each)


def _name(each: Executed) -> str:
    return each[0] if isinstance(each, tuple) else each.name
