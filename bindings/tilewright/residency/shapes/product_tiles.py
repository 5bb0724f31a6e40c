"""A product in tiles of rows and columns, by itself or with the softmax that it reads; see docs/residency.md.

For each pass of some rows, for each matrix of the second operand, for each block of its columns, for each
block of terms, products are added up. Heads that share a matrix are computed together. What a tile reads is
loaded anew. Where the terms are keys of a softmax, that is executed with them: a running maximum and sum of
each row stand for the keys that have passed, once more for each block of columns.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from tilewright.residency.attention import Attention
from tilewright.residency.graph import Operation
from tilewright.residency.shapes.groups import Group, pass_sizes
from tilewright.residency.shapes.in_blocks import InBlocks, in_blocks, may_have_blocks, pixels_in_blocks
from tilewright.simulator.program import Counts
from tilewright.spec.graph import Access
from tilewright.spec.network import MatMul


class Cut(NamedTuple):
    """How a product is cut up: numbers, or arrays of them for many ways.

    Attributes
    ----------
    pixels
        Rows of a pass.
    kernels
        Columns of a matrix at a time.
    terms
        What is added up at a time.
    """

    pixels: Any
    kernels: Any
    terms: Any


@dataclass(frozen=True, eq=False)
class ProductTiles:
    """A group of which tiles can be computed: a product, or the end of an attention.

    Attributes
    ----------
    area
        The group with its second operand in blocks.
    product
        The operation that multiplies.
    attention
        The end of the attention that the group is; None for a product by itself.
    left
        The tensor that the first operand is, or that scores are.
    matrices, share, columns, depth
        Matrices of the second operand, heads that share one, columns of each, and terms of a product.
    beside
        Tensors that functions of scores read beside these, and how many heads of a matrix have their own.
    """

    area: InBlocks
    product: Operation
    attention: Attention | None
    left: int
    matrices: int
    share: int
    columns: int
    depth: int
    beside: Mapping[int, int]

    @property
    def rows(self) -> int:
        """Rows of the first operand, for each head."""
        return self.area.pixels

    @property
    def inner(self) -> tuple[int, ...]:
        """Tensors that are computed on the way, of which a tile has its terms."""
        return self.area.computed[:-1]

    def count_blocks(self, cut: Cut) -> Any:
        """Return the blocks of columns of a matrix."""
        return -(-self.columns // cut.kernels)

    def count_passes(self, cut: Cut) -> Any:
        """Return the passes over the rows."""
        return -(-self.rows // cut.pixels)

    def count_tiles(self, cut: Cut) -> int:
        """Return how many blocks of terms a pass adds up, of all matrices and blocks of columns."""
        return int(self.matrices * self.count_blocks(cut) * -(-self.depth // cut.terms))

    def buffers(self, cut: Cut, whole: Collection[int]) -> dict[tuple[str, int], Any]:
        """Return the elements of all that a step places for itself.

        Parameters
        ----------
        whole
            Tensors of the step that are on chip as a whole.
        """
        found = {
            ("lines", each): self.line(each, cut) for each in (self.left, *self.beside) if each not in whole
        }
        found |= {("lines", each): self.line(each, cut) for each in self.inner}
        loaded = [tensor for tensor in self.parts if tensor not in whole]
        if loaded:
            found["operand", self.product.number] = sum(self.operand(tensor, cut) for tensor in loaded)
        sums, output = self.area.graph.sum_elements, self.area.output
        values = cut.pixels * self.share * cut.kernels
        if self.attention is not None:
            found["partial sums", output - 1] = values * sums + cut.pixels * self.share * 2 * sums
            return found
        whole_sums = 0 if output in whole else values
        block = np.where(np.less(cut.terms, self.depth), values * sums, whole_sums)
        if block.any():
            found["block", output] = block
        return found

    def line(self, tensor: int, cut: Cut) -> Any:
        """Return the elements of a tensor of the left that a tile has."""
        return cut.pixels * self._heads(tensor) * cut.terms

    def _heads(self, tensor: int) -> int:
        """Return how many heads of a matrix have their own rows of a tensor; 0 if it takes no room."""
        there = self.area.graph.tensors[tensor].channels > 0
        return self.beside.get(tensor, self.share) if there else 0

    @property
    def parts(self) -> Collection[int]:
        """Tensors that are loaded as parts of the second operand."""
        return self.area.loaded[self.product.number]

    def operand(self, tensor: int, cut: Cut) -> Any:
        """Return the elements of a tensor that a block of the second operand has, at most."""
        part = self.area.loaded[self.product.number][tensor]
        return np.minimum(part.size, cut.kernels * np.minimum(part.unit, cut.terms))

    def loaded(self, tensor: int, cut: Cut) -> Any:
        """Return the elements of a source in DRAM that all passes read."""
        found, blocks = 0 * cut.pixels, self.count_blocks(cut)
        if tensor == self.left:
            again = blocks
            if self.attention is None:  # with all terms at a time it stays for all columns
                again = np.where(np.less(cut.terms, self.depth), blocks, 1)
            found = found + self.rows * self.matrices * self._heads(tensor) * self.depth * again
        elif tensor in self.beside:
            found = found + self.rows * self.matrices * self._heads(tensor) * self.depth * blocks
        if tensor in self.parts:
            found = found + self.area.loaded[self.product.number][tensor].size * self.count_passes(cut)
        return found

    def reloaded(self, tensor: int, cut: Cut) -> Any:
        """Return the elements of a source in DRAM that passes read again."""
        return self.loaded(tensor, cut) - self.area.whole_planes.elements_read(1 << tensor)

    def every(self, terms: int) -> Cut:
        """Return the ways to cut it up that are good for something, as arrays.

        Parameters
        ----------
        terms
            Keys that pass by at a time. A product by itself adds up one term at a time, or all.
        """
        pixels, kernels = np.meshgrid(pixels_in_blocks(self.area.whole_planes), pass_sizes(self.columns))
        found = Cut(pixels.reshape(-1), kernels.reshape(-1), np.full(pixels.size, terms, dtype=np.int64))
        if self.attention is not None:
            return found
        own = pixels[0]  # all terms: a column at a time is enough
        more = Cut(own, np.ones_like(own), np.full_like(own, self.depth))
        if self.depth == 1:
            return more
        return Cut(*map(np.concatenate, zip(found, more, strict=True)))

    def table(self, cut: Cut, whole: Collection[int]) -> tuple[Counts, Counts]:
        """Return what buffers take, and what is moved again, for many ways."""
        memory = sum(self.buffers(cut, whole).values(), np.zeros_like(cut.pixels))
        sources = [tensor for tensor in self.area.sources if tensor not in whole]
        again = sum((self.reloaded(tensor, cut) for tensor in sources), np.zeros_like(cut.pixels))
        return memory, again


def product_tiles(group: Group) -> ProductTiles | None:
    """Return how tiles of a group are computed, always the same; None if they cannot be."""
    if not may_have_blocks(group):
        return None
    area = in_blocks(group)
    if area.in_tiles is None:
        area.in_tiles = (_product_tiles(area),)
    found: ProductTiles | None = area.in_tiles[0]
    return found


def _product_tiles(area: InBlocks) -> ProductTiles | None:
    graph, product = area.graph, area.last
    second, spec = product.second, product.op.spec
    if not graph.tiles or second is None or not isinstance(spec, MatMul):
        return None
    share = spec.groups // second.matrices
    sizes = second.matrices, share, second.columns, spec.depth
    if len(area.operations) == 1:
        (first, *others), (_, height, width) = product.op.operands[0], spec.output
        plain = first == Access(first.source, channels=first.channels)
        if others or not plain or graph.tensors[first.source + 1].shape[1:] != (height, width):
            return None
        return ProductTiles(area, product, None, first.source + 1, *sizes, {})
    tail = area.end_of_attention
    if tail is None or not area.is_end:
        return None
    assert tail.source is not None
    beside = {tensor: min(share, groups) for tensor, groups in tail.beside.items()}
    return ProductTiles(area, product, tail, tail.source, *sizes, beside)


def column_parts(group: Group) -> list[int]:
    """Return the blocks of columns in which tiles may compute a softmax again; none where there is none."""
    found = product_tiles(group)
    if found is None or found.attention is None:
        return []
    return [-(-found.columns // size) for size in reversed(pass_sizes(found.columns))]
