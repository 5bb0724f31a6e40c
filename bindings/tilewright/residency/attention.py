"""Products whose second operand is loaded in blocks, and attention whose keys pass by in blocks."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from math import prod
from operator import or_
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from tilewright.spec.access import reads_place
from tilewright.spec.graph import OWN, Access, NetworkGraph, Operation
from tilewright.spec.network import Add, Function, Map, MatMul, Mul, Shape, parameters_of

IntT = TypeVar("IntT", np.int16, np.int64)

MOST_VALUES = 2**24
"""Most values of a second operand of which it is told which of them are loaded at a time."""


class SecondPart(NamedTuple):
    """What a product reads of a tensor as its second operand, in elements.

    Attributes
    ----------
    size
        All.
    unit
        Of one column of one matrix, at most.
    column, row
        Of one column, and of one row, of all matrices, at most.
    """

    size: int
    unit: int
    column: int
    row: int


@dataclass(frozen=True)
class SecondOperand:
    """The second operand of a product that is computed row by row.

    Attributes
    ----------
    matrices, columns
        Matrices that differ, as heads may share one, and columns of each.
    parts
        What is read of each tensor, by number.
    """

    matrices: int
    columns: int
    parts: Mapping[int, SecondPart]

    @property
    def units(self) -> int:
        """Columns of all matrices, of which blocks are loaded."""
        return self.matrices * self.columns


def second_operand(graph: NetworkGraph, op: Operation) -> SecondOperand | None:
    """Return the second operand of a product whose rows are pixels; None if it is not in blocks.

    The file must say how it is stored, and only whole matrices may be copies of others.
    """
    owner = owners_of_second(graph, op)
    if owner is None:
        return None
    parts: dict[int, SecondPart] = {}
    for number, access in enumerate(op.operands[1]):
        own = owner == number
        found = SecondPart(
            int(own.sum()),
            int(own.sum(axis=1).max(initial=0)),
            int(own.sum(axis=(0, 1)).max(initial=0)),
            int(own.sum(axis=(0, 2)).max(initial=0)),
        )
        before = parts.get(access.source + 1, SecondPart(0, 0, 0, 0))
        parts[access.source + 1] = SecondPart(*(one + more for one, more in zip(before, found, strict=True)))
    return SecondOperand(owner.shape[0], owner.shape[2], parts)


def owners_of_second(graph: NetworkGraph, op: Operation) -> NDArray[np.int16] | None:
    """Return which access has each value of a second operand, shape (matrices, depth, columns).

    Of matrices that heads share there is one. None if the operand is not loaded in blocks.
    """
    spec = op.spec
    if not isinstance(spec, MatMul) or spec.transposed is None or len(op.operands) != 2:
        return None
    shapes = [graph.operand_shape(operand) for operand in op.operands]
    copies = {access.copies or (1, 1, 1) for access in op.operands[1]}
    values = spec.groups * spec.depth * spec.columns
    if not reads_place(op, shapes)[0] or len(copies) > 1 or values > MOST_VALUES:
        return None
    ((share, *others),) = copies
    channels, height, width = shapes[1]
    if others != [1, 1] or (share > 1 and channels != spec.groups) or channels * height * width != values:
        return None
    owner = np.zeros((channels // share, height, width), dtype=np.int16)
    for number, access in enumerate(op.operands[1]):
        (row, column), (_, tall, wide) = access.at or (0, 0), graph.shape(access)
        owner[:, row : row + tall, column : column + wide] = number
    return by_columns(spec, owner, spec.groups // share)


def elements_of_second(graph: NetworkGraph, op: Operation) -> NDArray[np.int64]:
    """Return where the values of a second operand lie: tensors, and elements of these, pixel by pixel.

    Returns
    -------
    Shape (2, matrices, depth, columns): see `owners_of_second`.
    """
    spec, owner = op.spec, owners_of_second(graph, op)
    assert isinstance(spec, MatMul) and owner is not None
    channels, height, width = graph.operand_shape(op.operands[1])
    share = (op.operands[1][0].copies or (1, 1, 1))[0]
    stored = np.zeros((2, channels // share, height, width), dtype=np.int64)
    for access in op.operands[1]:
        (row, column), (deep, tall, wide) = access.at or (0, 0), graph.shape(access)
        every, *plane = graph.shape(access._replace(channels=None, shape=None))
        # Where values follow one another, columns first, and so in any shape.
        begin = (access.channels or (0, 0))[0] * tall * wide
        place = begin + np.arange(deep * tall * wide).reshape(deep, tall, wide)
        channels_there, pixels = np.divmod(place, prod(plane))
        own = stored[:, :, row : row + tall, column : column + wide]
        own[0], own[1] = access.source + 1, pixels * every + channels_there
    matrices = spec.groups // share
    return np.stack([by_columns(spec, each, matrices) for each in stored])


def by_columns(spec: MatMul, stored: NDArray[IntT], matrices: int) -> NDArray[IntT]:
    """Return what there is of each value of a second operand, shape (matrices, depth, columns)."""
    if spec.transposed:
        return stored.reshape(matrices, spec.columns, spec.depth).transpose(0, 2, 1)
    return stored.reshape(matrices, spec.depth, spec.columns)


@dataclass(frozen=True, eq=False)
class Attention:
    """Scores, functions of single values, softmax and context: their keys can pass by in blocks.

    A running maximum and sum of each row stand for the scores that have passed.

    Attributes
    ----------
    operations
        Numbers, from the product that gives scores to the one that gives the context.
    required
        Bit mask of those that a step must have, so that keys can pass by in it.
    groups, keys, values
        Pairs of matrices, keys of each, and columns of the context for each.
    beside
        Tensors that functions of scores read beside these, and how many groups have keys of their own in
        each: others have the same ones again, as of a mask of all heads.
    seen
        Of a causal softmax, how many keys each row sees: others are neither loaded nor computed where keys
        pass by. None where each row sees all.
    loads
        Then, for scores and context, by number: of each tensor in the second operand, its elements for the
        first keys, from none on.
    share
        Heads that share a matrix of values.
    source
        Of the end of an attention, without the product that gives scores: the tensor that it reads.
    """

    operations: tuple[int, ...]
    required: int
    groups: int
    keys: int
    values: int
    beside: Mapping[int, int]
    seen: NDArray[np.int64] | None = None
    loads: Mapping[int, Mapping[int, NDArray[np.int64]]] = field(default_factory=dict)
    share: int = 1
    source: int | None = None

    @property
    def scores(self) -> int:
        """The product that gives scores."""
        return self.operations[0]

    @property
    def softmax(self) -> int:
        """The softmax."""
        return self.operations[-2]

    @property
    def context(self) -> int:
        """The product that gives the context."""
        return self.operations[-1]

    @property
    def rows(self) -> tuple[int, ...]:
        """Tensors of which a step has a block of keys of some rows: scores, and what comes of them."""
        return tuple(number + 1 for number in self.operations[:-1])

    @property
    def sums(self) -> int:
        """What a row of queries has on chip, in partial sums: of each group a context, a maximum, a sum."""
        return self.groups * (self.values + 2)

    @property
    def rescaled(self) -> int:
        """What a block of keys, but the first, brings to a new maximum in a row: contexts and sums."""
        return self.groups * (self.values + 1)

    def end_from(self, mask: int, reads: Sequence[int]) -> Attention | None:
        """Return what is left of it behind the last operation that a group lacks, if softmax and context are.

        Its keys pass by for all rows alike.

        Parameters
        ----------
        mask
            Operations of the group.
        reads
            For each operation, a bit mask of the tensors that it reads.
        """
        lacking = (place for place, each in enumerate(self.operations) if self.required & ~mask & 1 << each)
        begin = max(lacking, default=-1) + 1
        if not 0 < begin <= len(self.operations) - 2:
            return None
        own = self.operations[begin:]
        read = reduce(or_, (reads[number] for number in own))
        return replace(
            self,
            operations=own,
            required=self.required & sum(1 << number for number in own),
            beside={tensor: groups for tensor, groups in self.beside.items() if read >> tensor & 1},
            seen=None,
            loads={},
            source=self.operations[begin - 1] + 1,
        )

    def count_blocks(self, keys: int, rows: int) -> int:
        """Return the blocks of some keys each, but the first, that all rows together see."""
        if self.seen is None:
            return rows * (-(-self.keys // keys) - 1)
        return int((-(-self.seen // keys) - 1).sum())

    def count_pairs(self, rows: int) -> int:
        """Return the pairs of a row and a key that it sees, of all heads."""
        return self.groups * (rows * self.keys if self.seen is None else int(self.seen.sum()))


def attentions(
    graph: NetworkGraph, seconds: Sequence[SecondOperand | None], free: Collection[str] = ()
) -> tuple[Attention, ...]:
    """Return the attention of a graph whose keys can pass by in blocks.

    Parameters
    ----------
    free
        Operations that may be executed again: who reads them is open then, and so is when they are executed.
    """
    found: list[Attention] = []
    for op in graph.ops:
        new, taken = _attention(graph, seconds, op, free), {n for each in found for n in each.operations}
        if new is not None and (free or not taken & {*new.operations}):
            found.append(new)
    return tuple(found)


def _attention(
    graph: NetworkGraph, seconds: Sequence[SecondOperand | None], context: Operation, free: Collection[str]
) -> Attention | None:
    """Return the attention whose context a product gives, or None."""
    spec = context.spec
    if seconds[context.number] is None or not isinstance(spec, MatMul):
        return None
    softmax = _before(graph, context.operands[0], free)
    if softmax is None or not isinstance(softmax.spec, Function) or softmax.spec.op != "softmax":
        return None
    shape, beside = softmax.spec.output, dict[int, int]()
    at_place = reads_place(softmax, [graph.operand_shape(operand) for operand in softmax.operands])
    if parameters_of(softmax.spec) or softmax.together != spec.depth or at_place != (True,):
        return None
    if any(access.source == softmax.number for access in context.operands[1]):
        return None
    numbers, op = [softmax.number, context.number], _before(graph, softmax.operands[0], free)
    while op is not None and not isinstance(op.spec, MatMul):
        row = _function_of_scores(graph, op, shape, spec.depth, free)
        if row is None:
            return None
        numbers.insert(0, op.number)
        op, others = row
        beside |= others
    if op is None or seconds[op.number] is None:
        return None
    scores = op.spec
    assert isinstance(scores, MatMul)
    if (scores.groups, scores.columns, scores.output) != (spec.groups, spec.depth, shape):
        return None
    numbers.insert(0, op.number)
    required = sum(1 << number for number in numbers if graph.ops[number].name not in free)
    values = seconds[context.number]
    assert values is not None
    share = spec.groups // values.matrices
    found = Attention(tuple(numbers), required, spec.groups, spec.depth, spec.columns, beside, share=share)
    if softmax.causal is None or beside:  # what is beside scores is loaded for all keys
        return found
    seen = np.minimum(spec.depth, np.arange(1, prod(spec.output[1:]) + 1) + softmax.causal)
    if seen[-1] < spec.depth:
        return found
    loads = {
        op.number: elements_by_key(graph, op, seconds[op.number], of_rows=False),
        context.number: elements_by_key(graph, context, seconds[context.number], of_rows=True),
    }
    return replace(found, seen=seen, loads=loads)


def elements_by_key(
    graph: NetworkGraph, op: Operation, second: SecondOperand | None, *, of_rows: bool
) -> dict[int, NDArray[np.int64]]:
    """Return the elements of each tensor that a second operand has for the first keys, from none on.

    Parameters
    ----------
    of_rows
        Whether keys are its rows, or else its columns.
    """
    owner, found = owners_of_second(graph, op), dict[int, NDArray[np.int64]]()
    assert owner is not None and second is not None
    for number, access in enumerate(op.operands[1]):
        counts = (owner == number).sum(axis=(0, 2) if of_rows else (0, 1))
        ends = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        tensor = access.source + 1
        if not second.parts[tensor].size:  # it takes no room and is moved for nothing
            ends = np.zeros_like(ends)
        found[tensor] = found.get(tensor, np.zeros_like(ends)) + ends
    return found


def _function_of_scores(
    graph: NetworkGraph, op: Operation, shape: Shape, keys: int, free: Collection[str]
) -> tuple[Operation | None, dict[int, int]] | None:
    """Return who gives what a function of single values reads first, and its other operands; or None.

    Of these it is told how many groups of keys they have.
    """
    if not isinstance(op.spec, Map | Add | Mul) or parameters_of(op.spec) or op.spec.output != shape:
        return None
    if isinstance(op.spec, Map) and op.spec.op in ("softmax", "lrn"):
        return None
    shapes = [graph.operand_shape(operand) for operand in op.operands]
    if shapes[0] != shape or any(each[1:] != shape[1:] or each[0] % keys for each in shapes):
        return None
    (first, *others) = op.operands
    if op.has_views or any(access != Access(access.source) for (access,) in op.operands):
        return None
    sources = [access.source for (access,) in others]
    if first[0].source in sources:
        return None
    groups = [channels // keys for channels, *_ in shapes[1:]]
    return _before(graph, first, free), {source + 1: n for source, n in zip(sources, groups, strict=True)}


def _before(graph: NetworkGraph, operand: Sequence[Access], free: Collection[str]) -> Operation | None:
    """Return the operation that an operand is of, if nobody else reads what it computes."""
    if len(operand) != 1 or operand[0] != Access(operand[0].source) or operand[0].source == OWN:
        return None
    op = graph.ops[operand[0].source]
    alone = len(graph.consumers[op.number]) == 1 and not op.leaves
    return op if op.producers and (alone or op.name in free) else None
