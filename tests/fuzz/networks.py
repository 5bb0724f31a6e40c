"""Random networks as tables: layers that read one another, with every odd geometry."""

from __future__ import annotations

import random
from math import prod
from typing import Any

Json = dict[str, Any]
Shape = tuple[int, int, int]


def window(rng: random.Random, shape: Shape, dilated: bool = True) -> tuple[Json, tuple[int, int]]:
    """Return kernel, stride, padding and dilation that suit a plane, and the plane of the output."""
    table: Json = {"kernel": [], "stride": [], "padding": [], "dilation": []}
    plane = []
    for size in shape[1:]:
        kernel, dilation = rng.choice([1, 1, 2, 3]), rng.choice([1, 1, 1, 2]) if dilated else 1
        extent = (kernel - 1) * dilation + 1
        pad = [rng.choice([0, rng.randrange(extent)]) for _ in range(2)]
        if extent > size + sum(pad):
            kernel, dilation, extent, pad = 1, 1, 1, [0, 0]
        stride = rng.choice([1, 1, 1, 2, 3])
        table["kernel"].append(kernel)
        table["stride"].append(stride)
        table["padding"] += pad
        table["dilation"].append(dilation)
        plane.append((size + sum(pad) - extent) // stride + 1)
    if not dilated:
        del table["dilation"]
    return table, (plane[0], plane[1])


def read_inside(rng: random.Random, layers: list[Json], often: float = 0.25) -> Json:
    """Return a network of these layers, some of whose outputs are so often read by layers, too."""
    if rng.random() < 1 - often:
        return {"layers": layers}
    read = {name for layer in layers for name in layer["inputs"]}
    names = [layer["name"] for layer in layers]
    return {"layers": layers, "outputs": [n for n in names if n not in read or rng.random() < 0.4]}


def network(
    rng: random.Random,
    most: int,
    side: int,
    channels: int = 3,
    kinds: str = "cccpda",
    twice: bool = True,
    back: int = 2,
) -> list[Json]:
    """Return up to `most` layers.

    Parameters
    ----------
    side, channels
        Largest plane and number of channels of the input, and kernels of a convolution.
    kinds
        A letter for each kind, as often as it is likely: convolution, pool, depthwise, addition; also
        multiplication, fully connected, softmax, rectification of the network's input, join (a concatenation
        by itself), x for some channels alone.
    twice
        Whether an addition may read the same map twice.
    back
        How many of the latest maps are read first.
    """
    shapes: dict[str, Shape] = {
        "input": (rng.randint(1, channels), rng.choice([1, rng.randint(1, side)]), rng.randint(1, side))
    }
    layers: list[Json] = []
    for number in range(rng.randint(1, most)):
        name, source = f"l{number}", rng.choice([*shapes][-back:])
        shape = shapes[source]
        kind = rng.choice(kinds)
        alike = [
            each
            for each in shapes
            if shapes[each] == shape or (kind, shapes[each]) == ("m", (shape[0], 1, 1))
        ]
        beside = [other for other in shapes if shapes[other][1:] == shape[1:] and other != source]
        table: Json = {"name": name, "inputs": [source]}
        if kind in "am" and len(alike) > 1:
            other = rng.choice([each for each in alike if twice or each != source])
            table |= {"kind": {"a": "add", "m": "mul"}[kind], "inputs": [source, other]}
            shapes[name] = shape
            layers.append(table | {"input": list(shape)})
            continue
        if kind == "f" and (layers or shape[1:] == (1, 1)):  # the first layer's input is the network's
            outputs = rng.randint(1, channels)
            table |= {"kind": "fc", "input": [prod(shape), 1, 1], "kernels": outputs, "kernel": [1, 1]}
            shapes[name] = (outputs, 1, 1)
            layers.append(table | {"bias": rng.random() < 0.3})
            continue
        if kind in "sr":
            read, op = (source, "softmax") if kind == "s" else ("input", "relu")
            shapes[name] = shapes[read]
            layers.append(table | {"kind": "map", "op": op, "inputs": [read], "input": list(shapes[read])})
            continue
        if kind == "x" and shape[0] > 1:
            first = rng.randrange(shape[0])
            shapes[name] = (rng.randint(1, shape[0] - first), *shape[1:])
            table |= {"kind": "slice", "input": list(shape), "output": list(shapes[name])}
            layers.append(table | {"first": [first, 0, 0]})
            continue
        if kind == "j" and beside:
            other = rng.choice(beside)
            shapes[name] = (shape[0] + shapes[other][0], *shape[1:])
            table |= {"kind": "concat", "inputs": [source, other], "input": list(shapes[name])}
            layers.append(table)
            continue
        if beside and kind in "cp" and rng.random() < 0.25:
            other = rng.choice(beside)
            table["inputs"].append(other)
            shape = (shape[0] + shapes[other][0], *shape[1:])
        geometry, plane = window(rng, shape, kind != "p")
        table |= {"input": list(shape), **geometry}
        out = shape[0]
        if kind == "p":
            table |= {"kind": "pool", "op": rng.choice(["max", "average"])}
        elif kind == "d":
            table |= {"kernels": out, "groups": out}
        else:
            out = table["kernels"] = rng.randint(1, 2 * channels)
            if shape[0] % 2 == 0 and out % 2 == 0 and rng.random() < 0.3:
                table["groups"] = 2
            table["bias"] = rng.random() < 0.3
        shapes[name] = (out, *plane)
        layers.append(table)
    return layers


def summed(rng: random.Random, most: int, side: int, channels: int = 3) -> list[Json]:
    """Return up to `most` layers that keep their plane, and sums of what has come through some of them."""
    plane = rng.randint(1, side), rng.randint(1, side)
    shapes: dict[str, Shape] = {"input": (rng.randint(1, channels), *plane)}
    layers: list[Json] = []
    for number in range(rng.randint(2, most)):
        name, source = f"l{number}", rng.choice([*shapes][-3:])
        shape = shapes[source]
        alike = [each for each in shapes if shapes[each] == shape and each != source]
        table: Json = {"name": name, "inputs": [source], "input": list(shape)}
        if alike and rng.random() < 0.5:
            read = rng.sample([source, rng.choice(alike)], 2)
            layers.append(table | {"kind": rng.choice(["add", "add", "mul"]), "inputs": read})
            shapes[name] = shape
            continue
        table |= {"kernel": [], "padding": []}
        for _ in plane:
            kernel = rng.choice([1, 1, 2, 3])
            before = rng.choice([0, kernel - 1, rng.randrange(kernel)])
            table["kernel"].append(kernel)
            table["padding"] += [before, kernel - 1 - before]
        kind, kernels = rng.choice("ccddp"), shape[0]
        if kind == "p":
            table |= {"kind": "pool"}
        elif kind == "d":
            table |= {"kernels": kernels, "groups": kernels}
        else:
            kernels = rng.choice([kernels, kernels, rng.randint(1, 2 * channels)])
            table |= {"kernels": kernels, "bias": rng.random() < 0.3}
        shapes[name] = (kernels, *plane)
        layers.append(table)
    return layers


def reduced(rng: random.Random, most: int, side: int, channels: int = 3) -> list[Json]:
    """Return up to `most` layers: windows, whole planes added up to a pixel, and what follows one pixel.

    Planes are added up by pools, fully connected layers, and convolutions as large as their plane, depthwise
    ones among them. What comes of them may scale the map that they were computed from, as in
    squeeze-and-excitation.
    """
    shapes: dict[str, Shape] = {
        "input": (rng.randint(1, channels), rng.choice([1, rng.randint(1, side)]), rng.randint(2, side))
    }
    layers: list[Json] = []
    for number in range(rng.randint(1, most)):
        name, source = f"l{number}", rng.choice([*shapes][-3:])
        shape = shapes[source]
        table: Json = {"name": name, "inputs": [source], "input": list(shape)}
        kinds = "ccdpr" if shape[1:] == (1, 1) else "ccdprrrrff"
        kind, kernels = rng.choice(kinds), rng.randint(1, 2 * channels)
        maps = [n for n, given in shapes.items() if given[0] == shape[0] and given[1:] != (1, 1)]
        beside = [n for n, given in shapes.items() if given[1:] == shape[1:] and n != source]
        if shape[1:] == (1, 1) and maps and rng.random() < 0.5:
            scaled = rng.choice(maps)
            layers.append(
                {"name": name, "kind": "mul", "inputs": [scaled, source], "input": list(shapes[scaled])}
            )
            shapes[name] = shapes[scaled]
            continue
        if kind in "rf" and beside and rng.random() < 0.15:
            other = rng.choice(beside)
            table["inputs"].append(other)
            shape = (shape[0] + shapes[other][0], *shape[1:])
            table["input"] = list(shape)
        if kind == "r":
            table |= {
                "kind": "pool",
                "op": rng.choice(["max", "average", "average"]),
                "kernel": list(shape[1:]),
            }
            table["stride"] = [1, 1]
            shapes[name] = (shape[0], 1, 1)
        elif kind == "f":
            table |= {"kernels": kernels, "kernel": list(shape[1:]), "bias": rng.random() < 0.4}
            if rng.random() < 0.3:
                kernels = shape[0]
                table |= {"kernels": kernels, "groups": kernels}
            elif rng.random() < 0.5 and "input" not in table["inputs"]:
                table |= {"kind": "fc", "input": [shape[0] * shape[1] * shape[2], 1, 1], "kernel": [1, 1]}
            shapes[name] = (kernels, 1, 1)
        else:
            geometry, plane = window(rng, shape, kind != "p")
            table |= geometry
            kernels = kernels if kind == "c" else shape[0]
            if kind == "p":
                table |= {"kind": "pool"}
            else:
                table |= {"kernels": kernels, "bias": rng.random() < 0.3}
                table |= {"groups": kernels} if kind == "d" else {}
            shapes[name] = (kernels, *plane)
        layers.append(table)
    return layers


class Products:
    """A network at random of products of matrices, and of what stands between those in attention.

    Parameters
    ----------
    most
        Layers, without those that only rearrange values.
    """

    def __init__(self, rng: random.Random, most: int = 5) -> None:
        self.rng = rng
        self.layers: list[Json] = []
        heads, deep = rng.choice([1, 1, 2, 2, 3]), rng.choice([1, 1, 2])
        rows = rng.randint(1, 4)
        self.heads = heads
        plane = (2, 2) if rows == 4 and rng.random() < 0.3 else (1, rows)
        self.shapes: dict[str, Shape] = {"input": (heads * deep, *plane)}
        kinds = [self.project, self.multiply, self.multiply, self.normalise, self.map, self.fold]
        kinds += [self.cut, self.repeat, self.sum, self.pool, self.append]
        left = rng.randint(min(2, most), most)
        for name in ("a", "b")[: rng.choice([1, 2, 2])]:
            self.project(name, "input")
        while left:
            kind = rng.choice(kinds)
            name = f"l{len(self.layers)}"
            kind(name, rng.choice([*self.shapes][-4:]))
            left -= 1

    def network(self) -> Json:
        """Return the network."""
        return read_inside(self.rng, self.layers) | {"input": list(self.shapes["input"])}

    def add(self, name: str, inputs: list[str], shape: Shape, **rest: Any) -> None:
        """Add a layer, which gives a shape."""
        self.layers.append({"name": name, "inputs": inputs, "input": list(self.shapes[inputs[0]]), **rest})
        self.shapes[name] = shape

    def project(self, name: str, source: str) -> None:
        """Add a convolution of 1x1."""
        shape, rng = self.shapes[source], self.rng
        kernels = rng.choice([shape[0], shape[0], shape[0], self.heads, 3 * self.heads])
        kernels = kernels if kernels * shape[1] * shape[2] <= 24 else 1
        self.add(name, [source], (kernels, *shape[1:]), kernels=kernels, kernel=[1, 1])

    def multiply(self, name: str, source: str) -> None:
        """Add a product, in its rows' shape or in one by heads; operands as they are, or by heads."""
        rng = self.rng
        for _ in range(4):
            other = rng.choice([*self.shapes][-4:])
            groups = rng.choice([1, self.heads, self.heads])
            given = self.shapes[source]
            plane = given[1:] if rng.random() < 0.8 else (1, given[2])
            deep, left = divmod(prod(given), groups * prod(plane))
            columns, more = divmod(prod(self.shapes[other]), groups * max(1, deep))
            if left or more or not deep or groups * columns * prod(plane) > 24:
                continue
            tables = [source, other]
            if rng.random() < 0.4:
                tables = [self.by_heads(f"{name}h{n}", each, groups, (deep, 1)[n], plane, columns)
                          for n, each in enumerate(tables)]  # fmt: skip
            flat: Shape = (groups * columns, *plane)
            shape = flat if rng.random() < 0.5 else (groups, columns, prod(plane))
            rest = {"groups": groups, "depth": deep, "transposed": rng.random() < 0.5}
            self.add(name, tables, shape, kind="matmul", output=list(shape), **rest)
            return

    def by_heads(
        self, name: str, source: str, groups: int, deep: int, plane: tuple[int, int], columns: int
    ) -> str:
        """Add a reshape of an operand, so that heads are its channels."""
        size = prod(self.shapes[source])
        rows = columns if deep == 1 and size % (groups * columns) == 0 else prod(plane)
        if size % (groups * rows):
            return source
        shape: Shape = (groups, size // groups // rows, rows)
        self.add(name, [source], shape, kind="reshape", op="reshape", output=list(shape))
        return name

    def normalise(self, name: str, source: str) -> None:
        """Add a softmax or another normalisation."""
        shape, rng = self.shapes[source], self.rng
        axes = ["channels", "channels", "rows", "rows", "columns"]
        along = sorted({rng.choice(axes) for _ in range(rng.choice([1, 1, 1, 2]))})
        rest = {"along": along, "parameters": rng.choice([0, 0, 0, shape[0]])}
        op = "layer_normalization" if rest["parameters"] else "softmax"
        self.add(name, [source], shape, kind="function", op=op, output=list(shape), **rest)

    def map(self, name: str, source: str) -> None:
        """Add a function of single values, or a softmax across channels."""
        shape, rng = self.shapes[source], self.rng
        before = next((layer for layer in self.layers if layer["name"] == source), {})
        if rng.random() < 0.5:
            self.add(name, [source], shape, kind="function", op="sin", along=[], output=list(shape))
        elif before.get("kind") in ("matmul", "function"):
            self.add(name, [source], shape, kind="map", op=rng.choice(["relu", "relu", "softmax"]))

    def fold(self, name: str, source: str) -> None:
        """Add a reshape, seldom a transposition."""
        size, rng = prod(self.shapes[source]), self.rng
        channels = rng.choice([self.heads, self.shapes[source][0], 1, size])
        if size % channels:
            return
        rows = rng.choice([n for n in range(1, size + 1) if size // channels % n == 0])
        shape: Shape = (channels, rows, size // channels // rows)
        self.add(name, [source], shape, kind="reshape", op="reshape", output=list(shape))

    def cut(self, name: str, source: str) -> None:
        """Add some channels alone: queries, keys and values of one projection, or a part at random."""
        shape, rng = self.shapes[source], self.rng
        if shape[0] < 2:
            return
        parts = 3 if shape[0] % 3 == 0 else 2 if shape[0] % 2 == 0 else 1
        many = shape[0] // parts
        for number in range(parts if rng.random() < 0.6 else 1):
            part: Shape = (many, *shape[1:])
            self.add(f"{name}p{number}", [source], part, kind="slice", first=[number * many, 0, 0],
                     output=list(part))  # fmt: skip

    def repeat(self, name: str, source: str) -> None:
        """Add copies, as of keys that heads share."""
        shape, rng = self.shapes[source], self.rng
        output: Shape = (shape[0] * rng.choice([2, 2, 3, 1]), *shape[1:])
        if prod(output) <= 24:
            self.add(name, [source], output, kind="function", op="expand", output=list(output))

    def append(self, name: str, source: str) -> None:
        """Add a concatenation along columns, as of keys of earlier positions."""
        channels, height, width = self.shapes[source]
        alike = [n for n, shape in self.shapes.items() if shape[:2] == (channels, height) and n != source]
        if alike:
            other = self.rng.choice(alike)
            shape: Shape = (channels, height, width + self.shapes[other][2])
            if prod(shape) <= 24:
                rest = {"kind": "function", "op": "concat", "output": list(shape)}
                self.add(name, self.rng.sample([source, other], 2), shape, **rest)

    def sum(self, name: str, source: str) -> None:
        """Add a sum of two tensors."""
        alike = [n for n, shape in self.shapes.items() if shape == self.shapes[source] and n != source]
        if alike:
            self.add(name, [source, self.rng.choice(alike)], self.shapes[source], kind="add")

    def pool(self, name: str, source: str) -> None:
        """Add a pool over two columns or rows, or over one pixel."""
        channels, height, width = self.shapes[source]
        kernel = [min(height, self.rng.choice([1, 2])), min(width, self.rng.choice([1, 2]))]
        shape: Shape = (channels, height - kernel[0] + 1, width - kernel[1] + 1)
        self.add(name, [source], shape, kind="pool", kernel=kernel, stride=[1, 1])


class Attention:
    """Attention at random: heads that may share keys, caches of keys and values, masks, one projection."""

    def __init__(self, rng: random.Random) -> None:
        self.rng, self.layers = rng, list[Json]()
        self.shared = rng.choice([1, 1, 1, 2])
        self.heads = self.shared * rng.choice([1, 1, 1, 2])
        self.deep, self.values, self.rows = rng.randint(1, 2), rng.randint(1, 2), rng.randint(1, 5)
        self.cached = rng.choice([0, 0, 0, 1, 3])
        self.plain = self.heads == 1 and rng.random() < 0.5  # shapes by rows, without reshapes
        width = rng.randint(1, 2)
        self.input = [width, 1, self.rows]
        query = self.project("q", self.heads * self.deep)
        key, value = self.keys_and_values(self.heads // self.shared)
        keys = self.rows + self.cached
        scores = self.multiply("s", query, key, self.deep, keys, transposed=False)
        if rng.random() < 0.4:
            scores = self.mask(scores, keys)
        softmax = self.softmax(scores, keys)
        self.multiply("c", softmax, value, keys, self.values, transposed=True)
        flat = [self.heads * self.values, 1, self.rows]
        if not self.plain:
            self.reshape("joined", "c", [self.heads, self.values, self.rows], flat)
        if rng.random() < 0.5:
            self.layers.append({"name": "o", "input": flat, "kernels": width, "kernel": [1, 1]})
            if rng.random() < 0.5:
                residual = {"name": "r", "kind": "add", "inputs": ["o", "input"], "input": self.input}
                self.layers.append(residual)

    def network(self) -> Json:
        """Return the network."""
        return {"layers": self.layers, "input": self.input}

    def project(self, name: str, kernels: int) -> str:
        """Add a convolution of 1x1 of the input, or read the input where it has as many channels."""
        if kernels == self.input[0] and self.rng.random() < 0.3:
            return "input"
        table = {"name": name, "inputs": ["input"], "input": self.input, "kernels": kernels, "kernel": [1, 1]}
        self.layers.append(table)
        return name

    def keys_and_values(self, heads: int) -> tuple[str, str]:
        """Add keys and values, which may be slices of one projection, or follow those of a cache."""
        own = heads * self.deep, heads * self.values
        if self.rng.random() < 0.3:
            fused = self.project("kv", sum(own))
            for name, channels, begin in (("k", own[0], 0), ("v", own[1], own[0])):
                cut = {"name": name, "kind": "slice", "inputs": [fused], "first": [begin, 0, 0]}
                cut |= {"input": [sum(own), 1, self.rows], "output": [channels, 1, self.rows]}
                self.layers.append(cut)
            key, value = "k", "v"
        else:
            key, value = self.project("k", own[0]), self.project("v", own[1])
        return self.by_heads(key, heads, self.deep), self.by_heads(value, heads, self.values)

    def by_heads(self, name: str, heads: int, deep: int) -> str:
        """Add what stands between keys or values and their product."""
        count = self.rows
        if self.cached:
            old = f"old {name} {len(self.layers)}"
            count += self.cached
            self.layers.append(
                {"name": old, "kind": "input", "inputs": [], "input": [heads * deep, 1, self.cached]}
            )
            joined = {"name": f"all {name} {len(self.layers)}", "kind": "function", "op": "concat"}
            joined |= {"inputs": [old, name], "input": [heads * deep, 1, self.cached]}
            self.layers.append(joined | {"output": [heads * deep, 1, count]})
            name = str(joined["name"])
        if self.shared > 1:
            shape = [heads, deep, count]
            name = self.reshape(f"split {name} {len(self.layers)}", name, [heads * deep, 1, count], shape)
            copies = {"name": f"copies of {name}", "kind": "function", "op": "expand", "inputs": [name]}
            self.layers.append(copies | {"input": shape, "output": [self.heads, deep, count]})
            name = str(copies["name"])
        return name

    def reshape(self, name: str, source: str, given: list[int], output: list[int]) -> str:
        """Add a reshape."""
        table = {"name": name, "kind": "reshape", "op": "reshape", "inputs": [source], "input": given}
        self.layers.append(table | {"output": output})
        return name

    def multiply(
        self, name: str, first: str, second: str, depth: int, columns: int, *, transposed: bool
    ) -> str:
        """Add a product, in the shape of rows, or by heads."""
        flat, own = [self.heads * depth, 1, self.rows], [self.heads, columns, self.rows]
        table = {"name": name, "kind": "matmul", "inputs": [first, second], "groups": self.heads}
        table |= {"input": flat if name == "s" or self.plain else [self.heads, depth, self.rows]}
        table |= {"output": [self.heads * columns, 1, self.rows] if self.plain or name == "s" else own}
        self.layers.append(table | {"depth": depth, "transposed": transposed})
        return name

    def mask(self, scores: str, keys: int) -> str:
        """Add a sum with a mask, which is an input, or a function of single values."""
        shape = [self.heads * keys, 1, self.rows]
        if self.rng.random() < 0.7:
            self.layers.append({"name": "mask", "kind": "input", "inputs": [], "input": shape})
            self.layers.append({"name": "m", "kind": "add", "inputs": [scores, "mask"], "input": shape})
        else:
            self.layers.append({"name": "m", "kind": "map", "op": "relu", "inputs": [scores], "input": shape})
        return "m"

    def softmax(self, scores: str, keys: int) -> str:
        """Add the softmax of each head's scores."""
        shape, along = [self.heads * keys, 1, self.rows], "channels"
        if not self.plain:
            by_heads = [self.heads, keys, self.rows]
            scores, shape, along = self.reshape("by heads", scores, shape, by_heads), by_heads, "rows"
        table = {"name": "p", "kind": "function", "op": "softmax", "inputs": [scores], "input": shape}
        self.layers.append(table | {"output": shape, "along": [along]})
        return "p"


class ByRows:
    """Attention by heads with stored numbers, and the same network row by row, as it is to be executed.

    Queries and keys may be turned by angles, a table of each position; scores may have a mask, for each head
    or for all, or a causal one; keys may follow those of a cache, and leave with them. In `executed` a layer
    of op ``place`` computes a pixel from those at its place, sums and products may read a tensor of fewer
    channels, and ``parts`` tell where inputs lie in what is read.
    """

    def __init__(self, rng: random.Random) -> None:
        self.rng, self.layers, self.executed = rng, list[Json](), list[Json]()
        self.heads, self.deep = rng.choice([1, 2, 2]), 2
        self.rows, self.width = rng.randint(1, 3), rng.randint(1, 2)
        self.tokens = [self.heads * self.deep, 1, self.rows]
        self.input = [self.width, 1, self.rows]
        self.outputs = list[str]()
        self.stored: list[int] | None = None  # the shape of the input when executed, if it is another one
        kinds = ["turned", "turned", "masked", "masked", "masked", "joined", "joined", "norm", "norm", "both"]
        kinds += ["moved", "moved"]
        kind = rng.choice(kinds)
        if kind == "norm":
            self.norm()
        elif kind == "joined":
            self.cache()
        elif kind == "moved":
            self.moved()
        else:
            self.attend(kind)

    def networks(self) -> tuple[Json, Json]:
        """Return the network of the file, and that to be executed."""
        outputs = {"outputs": self.outputs} if self.outputs else {}
        whole = [{"kind": "conv", "inputs": None, **layer} for layer in self.executed]
        file = {"layers": self.layers, "input": self.input, **outputs}
        return file, {"layers": whole, "input": self.stored or self.input, **outputs}

    def both(self, name: str, inputs: list[str], shape: list[int], **rest: Any) -> str:
        """Add a layer to both networks."""
        table = {"name": name, "inputs": inputs, "input": shape, **rest}
        self.layers.append(table)
        self.executed.append(dict(table))
        return name

    def project(self, name: str) -> str:
        return self.both(name, ["input"], self.input, kernels=self.tokens[0], kernel=[1, 1])

    def given(self, name: str, shape: list[int]) -> str:
        return self.both(name, [], shape, kind="input")

    def numbers(
        self, name: str, sources: tuple[str, str], op: str, own: list[int], by_rows: list[int]
    ) -> str:
        """Add an operation with stored numbers, which is a sum or product with an input when executed.

        Parameters
        ----------
        sources
            What is read in the file, and when executed.
        own
            Shape of the numbers by heads.
        by_rows
            Shape of the output when executed.
        """
        shape = [self.heads, by_rows[0] // self.heads, by_rows[2]]
        table = {"name": name, "kind": "map", "op": "fused", "inputs": [sources[0]], "input": shape}
        self.layers.append(table | {"parameters": prod(own), "numbers": {"op": op, "shape": own}})
        flat = [own[0] * own[1], 1, own[2]]
        self.executed.append({"name": f"numbers of {name}", "kind": "input", "inputs": [], "input": flat})
        inputs = [sources[1], f"numbers of {name}"]
        self.executed.append({"name": name, "kind": op, "inputs": inputs, "input": by_rows})
        return name

    def turned(self, name: str, source: str) -> str:
        """Add a rotary embedding: x times cosines, and halves that have changed places times sines."""
        heads, deep, rows = self.heads, self.deep, self.rows
        shape, half = [heads, deep, rows], [heads, deep // 2, rows]
        table = {"kind": "reshape", "op": "reshape", "input": self.tokens, "output": shape}
        self.layers.append({"name": f"{name}r", "inputs": [source], **table})
        cut = {"kind": "slice", "inputs": [f"{name}r"], "input": shape, "output": half}
        self.layers.append({"name": f"{name}a", **cut, "first": [0, deep // 2, 0]})
        self.layers.append(
            {"name": f"{name}n", "kind": "function", "op": "neg", "input": half, "output": half}
        )
        self.layers.append({"name": f"{name}b", **cut})
        joined = {"kind": "function", "op": "concat", "input": half, "output": shape}
        self.layers.append({"name": f"{name}c", "inputs": [f"{name}n", f"{name}b"], **joined})
        place = {"kind": "function", "op": "place", "place": True, "output": self.tokens}
        self.executed.append({"name": f"{name}c", "inputs": [source], "input": self.tokens, **place})
        own = [self.rng.choice([1, 1, heads]), deep, rows]
        left = self.numbers(f"{name}x", (f"{name}r", source), "mul", own, self.tokens)
        right = self.numbers(f"{name}y", (f"{name}c", f"{name}c"), "mul", own, self.tokens)
        self.layers.append({"name": name, "kind": "add", "inputs": [left, right], "input": shape})
        self.executed.append({"name": name, "kind": "add", "inputs": [left, right], "input": self.tokens})
        return name

    def attend(self, kind: str) -> None:
        heads, deep, rows, rng = self.heads, self.deep, self.rows, self.rng
        shape, keys = [heads, deep, rows], rng.randint(2, 4)
        query = self.project("p") if kind != "masked" else "input"
        if kind == "masked":
            by_heads = rng.random() < 0.4
            self.input, self.stored = (shape if by_heads else self.tokens), self.tokens
        else:
            query = self.turned("q", query)
        if kind == "turned":
            if rng.random() < 0.5:
                back = {"kind": "reshape", "op": "reshape", "input": shape, "output": self.tokens}
                self.layers.append({"name": "back", "inputs": ["q"], **back})
                self.layers.append({"name": "o", "input": self.tokens, "kernels": 1, "kernel": [1, 1]})
                last = {"name": "o", "inputs": ["q"], "input": self.tokens, "kernels": 1, "kernel": [1, 1]}
                self.executed.append(last)
            return
        key, value = (self.given(name, [heads * deep, 1, keys]) for name in ("k", "v"))
        product_of = {"kind": "matmul", "groups": heads}
        scores, flat = [heads, keys, rows], [heads * keys, 1, rows]
        own = {"depth": deep, "transposed": False, **product_of}
        first = self.input if kind == "masked" else shape
        self.layers.append({"name": "s", "inputs": [query, key], "input": first, "output": scores, **own})
        own_rows = {"inputs": [query, key], "input": self.tokens, "output": flat}
        self.executed.append({"name": "s", **own_rows, **own})
        mask = [rng.choice([1, 1, heads]), keys, rows]
        source, executed, causal = "s", "s", {}
        if keys >= rows and rng.random() < 0.5:  # zeros for what is seen: part of the softmax
            source, causal = "m", {"causal": keys - rows}
            numbers = {"op": "add", "shape": [1, keys, rows], **causal}
            table = {"name": "m", "kind": "map", "op": "fused", "inputs": ["s"], "input": scores}
            self.layers.append({**table, "parameters": keys * rows, "numbers": numbers})
        elif rng.random() < 0.25:
            self.layers.append({"name": "g", "kind": "input", "inputs": [], "input": scores})
            self.executed.append({"name": "g", "kind": "input", "inputs": [], "input": flat})
            source = executed = "m"
            for layers, own in ((self.layers, scores), (self.executed, flat)):
                layers.append({"name": "m", "kind": "add", "inputs": ["s", "g"], "input": own})
        elif rng.random() < 0.75:
            source = executed = self.numbers("m", ("s", "s"), "add", mask, flat)
        softmax = {"name": "w", "kind": "function", "op": "softmax"}
        by_heads = {"inputs": [source], "input": scores, "output": scores, "along": ["rows"]}
        self.layers.append({**softmax, **by_heads})
        rowed = {**softmax, "inputs": [executed], "input": flat, "output": flat, "along": ["channels"]}
        self.executed.append({**rowed, "told": [[heads, keys, rows], ["rows"]], **causal})
        own = {"depth": keys, "transposed": True, **product_of}
        context = {"name": "c", "inputs": ["w", value], **own}
        self.layers.append({**context, "input": scores, "output": shape})
        self.executed.append({**context, "input": flat, "output": self.tokens})

    def cache(self) -> None:
        """Add values of rows that follow those of a cache, leave with these, and are read by a product."""
        rng, heads, deep, old = self.rng, self.heads, self.deep, self.rng.randint(1, 3)
        self.input = [self.width, 1, 1]
        every = [heads, old + 1, deep]
        self.both("new", ["input"], self.input, kernels=heads * deep, kernel=[1, 1])
        for layers in (self.layers, self.executed):
            table = {"kind": "reshape", "op": "reshape", "input": [heads * deep, 1, 1]}
            layers.append({"name": "one", "inputs": ["new"], **table, "output": [heads, 1, deep]})
        self.given("old", [heads, old, deep])
        joined = {"name": "all", "kind": "function", "op": "concat", "inputs": ["old", "one"]}
        joined |= {"input": [heads, old, deep], "output": every}
        self.layers.append(joined)
        self.executed.append({**joined, "op": "place", "place": True, "parts": [[0, 0], [old, 0]]})
        self.outputs = ["all"]
        if rng.random() < 0.7:
            own = {"kind": "matmul", "groups": heads, "depth": deep, "transposed": True}
            self.given("q", [heads * deep, 1, 1])
            self.both("s", ["q", "all"], [heads * deep, 1, 1], output=[heads * (old + 1), 1, 1], **own)
            self.outputs.append("s")

    def moved(self) -> None:
        """Add rows of heads that leave the network with each head's rows behind one another."""
        heads, deep, rows = self.heads, self.deep, self.rows
        source, shape, given = self.project("p"), [heads, deep, rows], [heads, rows, deep]
        by_heads = {"kind": "reshape", "op": "reshape", "input": self.tokens, "output": shape}
        self.layers.append({"name": "h", "inputs": [source], **by_heads})
        moved = {"kind": "reshape", "op": "transpose", "input": shape, "output": given}
        order = {"sizes": shape, "axes": [0, 2, 1]}
        self.layers.append({"name": "t", "inputs": ["h"], "permutation": order, **moved})
        place = {"kind": "function", "op": "place", "place": True, "spread": deep}
        self.executed.append({"name": "t", "inputs": [source], "input": self.tokens, "output": given} | place)
        # Another reader, or the move is part of how those before it store what they compute.
        less = {"name": "n", "kind": "function"}
        self.layers.append({**less, "op": "neg", "inputs": ["h"], "input": shape, "output": shape})
        less |= {"op": "place", "place": True, "inputs": [source]}
        self.executed.append({**less, "input": self.tokens, "output": self.tokens})
        if self.rng.random() < 0.5:
            self.both("o", [source], self.tokens, kernels=self.width, kernel=[1, 1])

    def norm(self) -> None:
        """Add a normalisation by the root of the mean square, function by function."""
        channels, shape, one = self.width + 1, [self.width + 1, 1, self.rows], [1, 1, self.rows]
        self.both("p", ["input"], self.input, kernels=channels, kernel=[1, 1])
        function = {"kind": "function"}
        self.layers.append({"name": "two", "op": "pow", "input": shape, "output": shape, **function})
        self.layers.append({"name": "mean", "op": "reduce_mean", "input": shape, "output": one, **function})
        self.layers.append({"name": "more", "kind": "map", "op": "bias", "input": one})
        self.layers.append({"name": "root", "op": "sqrt", "input": one, "output": one, **function})
        self.executed.append(
            {"name": "root", "op": "place", "place": True, "inputs": ["p"], "input": shape, "output": one}
            | function
        )
        inputs, product_of = ["p", "root"], {"name": "t", "input": shape}
        self.layers.append({**product_of, "op": "mul", "inputs": inputs, "output": shape, **function})
        self.executed.append({**product_of, "kind": "mul", "inputs": inputs})
        if self.rng.random() < 0.5:
            self.both("o", ["t"], shape, kernels=self.width, kernel=[1, 1])
