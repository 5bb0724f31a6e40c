"""Random small networks, as chains and branching graphs, for the tests of the room."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from hypothesis import strategies as st


@st.composite
def networks(draw: st.DrawFn, most_layers: int = 5, side: int = 7) -> dict[str, Any]:
    """Draw the table of a network: convolutions (some depthwise, strided or dilated), pools and additions."""
    sides = st.sampled_from([1, *range(3, side + 1)])
    shapes = {"input": (draw(st.integers(1, 3)), draw(sides), draw(sides))}
    layers: list[dict[str, Any]] = []
    for number in range(draw(st.integers(1, most_layers))):
        source = draw(st.sampled_from([*shapes])) if layers else "input"
        inputs = [source]
        channels, height, width = shapes[source]
        alike = [name for name, shape in shapes.items() if shape == shapes[source]]
        flat = [name for name, shape in shapes.items() if shape[1:] == (height, width) and name != source]
        kinds = ["conv", "conv", "pool"] + (["add"] if len(alike) > 1 else []) + ["depthwise"]
        kind = draw(st.sampled_from(kinds))
        layer: dict[str, Any] = {"name": f"l{number}"}
        if kind == "add":
            inputs = draw(st.permutations(alike))[:2]
            layer |= {"kind": "add", "input": [channels, height, width]}
            shapes[layer["name"]] = (channels, height, width)
        else:
            if kind != "depthwise" and flat and draw(st.booleans()):
                inputs.append(draw(st.sampled_from(flat)))
                channels += shapes[inputs[1]][0]
            kernel = [draw(st.integers(1, min(3, height))), draw(st.integers(1, min(3, width)))]
            padding = [draw(st.integers(0, size - 1)) for size in kernel for _ in range(2)]
            stride = [draw(st.integers(1, 3)), draw(st.integers(1, 3))]
            layer |= {
                "input": [channels, height, width],
                "kernel": kernel,
                "stride": stride,
                "padding": padding,
            }
            out = channels
            if kind == "pool":
                layer |= {"kind": "pool", "op": draw(st.sampled_from(["max", "average"]))}
            elif kind == "depthwise":
                layer |= {"kernels": channels, "groups": channels}
            else:
                out = layer["kernels"] = draw(st.integers(1, 6))
                if kernel[0] > 1 and 2 * kernel[0] - 1 <= height + sum(padding[:2]) and draw(st.booleans()):
                    layer["dilation"] = [2, 1]
            extent = [(k - 1) * d + 1 for k, d in zip(kernel, layer.get("dilation", [1, 1]), strict=True)]
            shapes[layer["name"]] = (
                out,
                (height + sum(padding[:2]) - extent[0]) // stride[0] + 1,
                (width + sum(padding[2:]) - extent[1]) // stride[1] + 1,
            )
        layer["inputs"] = inputs
        layers.append(layer)
    outputs = [layer["name"] for layer in layers if draw(st.integers(0, 5)) == 0]
    return {"layers": layers} | ({"outputs": leaving(layers, outputs)} if outputs else {})


def leaving(layers: list[dict[str, Any]], chosen: Collection[str]) -> list[str]:
    """Return the names of the layers that no other reads, and of the chosen ones."""
    read = {name for layer in layers for name in layer["inputs"]}
    return [layer["name"] for layer in layers if layer["name"] not in read or layer["name"] in chosen]
