"""The networks of the DNNVM paper's table 2, operation by operation as their authors' Caffe files have them.

``python tests/spec/caffe.py`` writes those that are bundled.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tilewright.core.files import write_atomically
from tilewright.importing.files import network_file
from tilewright.spec.network import Network

BUNDLED = Path(__file__).parents[2] / "instances" / "networks"
Shape = tuple[int, int, int]


class Caffe:
    """A network that is written down layer by layer."""

    def __init__(self) -> None:
        self.layers: list[dict[str, Any]] = []
        self.shapes: dict[str, Shape] = {"input": (3, 224, 224)}
        self.last = "input"

    def add(self, name: str, kind: str, output: Shape, *inputs: str, **table: Any) -> str:
        """Add a layer that reads some others, the last one if none is named."""
        reads = inputs or (self.last,)
        table.setdefault("input", self.shapes[reads[0]])
        named = {} if reads == (self.last,) else {"inputs": list(reads)}
        self.layers.append({"name": name, "kind": kind, **named, **table})
        self.shapes[name], self.last = output, name
        return name

    def conv(
        self, name: str, kernels: int, kernel: int, stride: int, pad: int, *inputs: str, bias: bool = True
    ) -> str:
        _, height, width = self.shapes[(inputs or (self.last,))[0]]
        size = [(side + 2 * pad - kernel) // stride + 1 for side in (height, width)]
        return self.add(
            name,
            "conv",
            (kernels, *size),
            *inputs,
            kernels=kernels,
            kernel=(kernel, kernel),
            stride=(stride, stride),
            padding=(pad,) * 4,
            bias=bias,
        )

    def pool(self, name: str, op: str, kernel: int, stride: int, pad: int, *inputs: str) -> str:
        """Add a pool; its last windows may begin inside and end outside, so that nothing is left out."""
        channels, *plane = self.shapes[(inputs or (self.last,))[0]]
        size = [-(-(side + 2 * pad - kernel) // stride) + 1 for side in plane]
        after = [(count - 1) * stride + kernel - side - pad for count, side in zip(size, plane, strict=True)]
        return self.add(
            name,
            "pool",
            (channels, *size),
            *inputs,
            op=op,
            kernel=(kernel, kernel),
            stride=(stride, stride),
            padding=(pad, after[0], pad, after[1]),
        )

    def map(self, name: str, op: str, parameters: int = 0) -> str:
        return self.add(name, "map", self.shapes[self.last], op=op, parameters=parameters)

    def fc(self, name: str, outputs: int) -> str:
        channels, height, width = self.shapes[self.last]
        values = channels * height * width
        table = {"input": (values, 1, 1), "kernels": outputs, "kernel": (1, 1), "bias": True}
        return self.add(name, "fc", (outputs, 1, 1), **table)

    def network(self, name: str, source: str) -> Network:
        return Network.model_validate({"name": name, "source": source, "layers": self.layers})


def vgg16() -> Network:
    net = Caffe()
    for block, (channels, convs) in enumerate([(64, 2), (128, 2), (256, 3), (512, 3), (512, 3)], start=1):
        for number in range(1, convs + 1):
            net.conv(f"conv{block}_{number}", channels, 3, 1, 1)
            net.map(f"relu{block}_{number}", "relu")
        net.pool(f"pool{block}", "max", 2, 2, 0)
    for number, outputs in ((6, 4096), (7, 4096)):
        net.fc(f"fc{number}", outputs)
        net.map(f"relu{number}", "relu")
        net.map(f"drop{number}", "dropout")
    net.fc("fc8", 1000)
    net.map("prob", "softmax")
    return net.network("vgg16-caffe", "Simonyan and Zisserman 2015, their Caffe file of 16 layers")


def resnet(layers: int) -> Network:
    """ResNet-50 or -152: the stride of a block is on its first 1x1, pools take rests of windows."""
    blocks = {50: ("abc", "abcd", "abcdef", "abc"), 152: ("abc", _counted(8), _counted(36), "abc")}[layers]
    net = Caffe()

    def convolution(name: str, *geometry: int, reads: str, relu: str | None) -> str:
        tail = "_conv1" if name == "conv1" else name.removeprefix("res")
        net.conv(name, *geometry, reads, bias=False)
        net.map(f"bn{tail}", "batch_norm")
        net.map(f"scale{tail}", "scale", 2 * net.shapes[name][0])
        return net.map(relu, "relu") if relu else net.last

    before = convolution("conv1", 64, 7, 2, 3, reads="input", relu="conv1_relu")
    before = net.pool("pool1", "max", 3, 2, 0)
    for stage, units in enumerate(blocks, start=2):
        width = 64 * 2 ** (stage - 2)
        for unit in units:
            block = f"res{stage}{unit}"
            first = unit == "a"
            stride = 2 if first and stage > 2 else 1
            short = (
                convolution(f"{block}_branch1", 4 * width, 1, stride, 0, reads=before, relu=None)
                if first
                else before
            )
            for branch, geometry in (("2a", (width, 1, stride, 0)), ("2b", (width, 3, 1, 1))):
                name = f"{block}_branch{branch}"
                before = convolution(name, *geometry, reads=before, relu=f"{name}_relu")
            before = convolution(f"{block}_branch2c", 4 * width, 1, 1, 0, reads=before, relu=None)
            net.add(block, "add", net.shapes[before], short, before)
            before = net.map(f"{block}_relu", "relu")
    net.pool("pool5", "average", 7, 1, 0)
    net.fc("fc1000", 1000)
    net.map("prob", "softmax")
    source = f"He et al. 2016, their Caffe file of {layers} layers: the stride of a block is on its first 1x1"
    return net.network({50: "resnet50-caffe", 152: "resnet152"}[layers], source)


def _counted(units: int) -> list[str]:
    return ["a", *(f"b{number}" for number in range(1, units))]


INCEPTIONS = {  # 1x1, 3x3 reduce, 3x3, 5x5 reduce, 5x5, pool proj (Szegedy et al. 2015, table 1)
    "3a": (64, 96, 128, 16, 32, 32),
    "3b": (128, 128, 192, 32, 96, 64),
    "4a": (192, 96, 208, 16, 48, 64),
    "4b": (160, 112, 224, 24, 64, 64),
    "4c": (128, 128, 256, 24, 64, 64),
    "4d": (112, 144, 288, 32, 64, 64),
    "4e": (256, 160, 320, 32, 128, 128),
    "5a": (256, 160, 320, 32, 128, 128),
    "5b": (384, 192, 384, 48, 128, 128),
}


def googlenet() -> Network:
    net = Caffe()

    def convolution(block: str, name: str, *geometry: int, reads: str) -> str:
        net.conv(f"{block}/{name}", *geometry, reads)
        return net.map(f"{block}/relu_{name.removesuffix('_s2')}", "relu")

    convolution("conv1", "7x7_s2", 64, 7, 2, 3, reads="input")
    net.pool("pool1/3x3_s2", "max", 3, 2, 0)
    net.map("pool1/norm1", "lrn")
    convolution("conv2", "3x3_reduce", 64, 1, 1, 0, reads=net.last)
    convolution("conv2", "3x3", 192, 3, 1, 1, reads=net.last)
    net.map("conv2/norm2", "lrn")
    before = net.pool("pool2/3x3_s2", "max", 3, 2, 0)
    for unit, (ones, reduce3, three, reduce5, five, proj) in INCEPTIONS.items():
        block = f"inception_{unit}"
        parts = [convolution(block, "1x1", ones, 1, 1, 0, reads=before)]
        convolution(block, "3x3_reduce", reduce3, 1, 1, 0, reads=before)
        parts.append(convolution(block, "3x3", three, 3, 1, 1, reads=net.last))
        convolution(block, "5x5_reduce", reduce5, 1, 1, 0, reads=before)
        parts.append(convolution(block, "5x5", five, 5, 1, 2, reads=net.last))
        net.pool(f"{block}/pool", "max", 3, 1, 1, before)
        parts.append(convolution(block, "pool_proj", proj, 1, 1, 0, reads=net.last))
        output = (ones + three + five + proj, *net.shapes[before][1:])
        before = net.add(f"{block}/output", "concat", output, *parts, input=output)
        if unit in ("3b", "4e"):
            before = net.pool(f"pool{unit[0]}/3x3_s2", "max", 3, 2, 0)
    net.pool("pool5/7x7_s1", "average", 7, 1, 0)
    net.map("pool5/drop_7x7_s1", "dropout")
    net.fc("loss3/classifier", 1000)
    net.map("prob", "softmax")
    return net.network(
        "googlenet", "Szegedy et al. 2015, BVLC's Caffe file, without the training's side outputs"
    )


def bundled() -> Iterator[Network]:
    """Return the networks that come with tilewright."""
    yield from (vgg16(), resnet(50), resnet(152), googlenet())


if __name__ == "__main__":
    for each in bundled():
        for file, text in network_file(each).items():
            write_atomically(BUNDLED / file, text)
