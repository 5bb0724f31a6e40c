"""Networks as Caffe's prototxt, written down from the papers that describe them."""

from __future__ import annotations

from typing import Any


class Text:
    """A prototxt that is written layer by layer; each reads the one before it if nothing else is said."""

    def __init__(self, *shape: int) -> None:
        sizes = " ".join(f"dim: {size}" for size in shape)
        self.lines = [
            f'layer {{ name: "data" type: "Input" top: "data" input_param {{ shape {{ {sizes} }} }} }}'
        ]
        self.last = "data"

    def add(
        self, name: str, type_: str, *reads: str, param: str = "", in_place: bool = False, **told: Any
    ) -> str:
        bottoms = reads or (self.last,)
        self.last = bottoms[0] if in_place else name
        ends = " ".join(f'bottom: "{each}"' for each in bottoms) + f' top: "{self.last}"'
        own = f"{param} {{ {' '.join(f'{key}: {value}' for key, value in told.items())} }}" if told else ""
        self.lines.append(f'layer {{ name: "{name}" type: "{type_}" {ends} {own} }}')
        return self.last

    def conv(self, name: str, outputs: int, kernel: int, *reads: str, **told: Any) -> str:
        self.add(
            name,
            "Convolution",
            *reads,
            param="convolution_param",
            num_output=outputs,
            kernel_size=kernel,
            **told,
        )
        return self.add(f"relu_{name}", "ReLU", in_place=True)

    def pool(self, name: str, method: str, kernel: int, stride: int, *reads: str, **told: Any) -> str:
        return self.add(
            name,
            "Pooling",
            *reads,
            param="pooling_param",
            pool=method,
            kernel_size=kernel,
            stride=stride,
            **told,
        )

    def lrn(self, name: str) -> str:
        return self.add(name, "LRN", param="lrn_param", local_size=5, alpha=0.0001, beta=0.75)

    def fc(self, name: str, outputs: int, dropped: bool = True) -> str:
        self.add(name, "InnerProduct", param="inner_product_param", num_output=outputs)
        if dropped:
            self.add(f"relu_{name}", "ReLU", in_place=True)
            self.add(f"drop_{name}", "Dropout", in_place=True, param="dropout_param", dropout_ratio=0.5)
        return self.last

    def __str__(self) -> str:
        return "\n".join([*self.lines, ""])


def alexnet() -> str:
    """Krizhevsky et al. 2012, as in Caffe: normalisation behind the pools, 227 x 227 pixels."""
    net = Text(10, 3, 227, 227)
    net.conv("conv1", 96, 11, stride=4)
    net.pool("pool1", "MAX", 3, 2)
    net.lrn("norm1")
    net.conv("conv2", 256, 5, pad=2, group=2)
    net.pool("pool2", "MAX", 3, 2)
    net.lrn("norm2")
    net.conv("conv3", 384, 3, pad=1)
    net.conv("conv4", 384, 3, pad=1, group=2)
    net.conv("conv5", 256, 3, pad=1, group=2)
    net.pool("pool5", "MAX", 3, 2)
    net.fc("fc6", 4096)
    net.fc("fc7", 4096)
    net.fc("fc8", 1000, dropped=False)
    net.add("prob", "Softmax")
    return str(net)


def vgg(convolutions: tuple[int, ...]) -> str:
    """Simonyan and Zisserman 2015, of 16 or 19 layers."""
    net = Text(10, 3, 224, 224)
    for block, (count, channels) in enumerate(
        zip(convolutions, (64, 128, 256, 512, 512), strict=True), start=1
    ):
        for number in range(1, count + 1):
            net.conv(f"conv{block}_{number}", channels, 3, pad=1)
        net.pool(f"pool{block}", "MAX", 2, 2)
    net.fc("fc6", 4096)
    net.fc("fc7", 4096)
    net.fc("fc8", 1000, dropped=False)
    net.add("prob", "Softmax")
    return str(net)


def squeezenet(newer: bool) -> str:
    """Iandola et al. 2016, version 1.0, or 1.1 with its smaller first convolution and earlier pools."""
    net = Text(10, 3, 227, 227)
    net.conv("conv1", *((64, 3) if newer else (96, 7)), stride=2)
    net.pool("pool1", "MAX", 3, 2)
    pools = (3, 5) if newer else (4, 8)
    widths = {2: 16, 3: 16, 4: 32, 5: 32, 6: 48, 7: 48, 8: 64, 9: 64}
    for fire, width in widths.items():
        before = net.conv(f"fire{fire}/squeeze1x1", width, 1)
        ones = net.conv(f"fire{fire}/expand1x1", 4 * width, 1, before)
        threes = net.conv(f"fire{fire}/expand3x3", 4 * width, 3, before, pad=1)
        net.add(f"fire{fire}/concat", "Concat", ones, threes)
        if fire in pools:
            net.pool(f"pool{fire}", "MAX", 3, 2)
    net.add("drop9", "Dropout", in_place=True, param="dropout_param", dropout_ratio=0.5)
    net.conv("conv10", 1000, 1)
    net.add("pool10", "Pooling", param="pooling_param", pool="AVE", global_pooling="true")
    net.add("prob", "Softmax")
    return str(net)


INCEPTIONS = """
3a 64 96 128 16 32 32
3b 128 128 192 32 96 64
4a 192 96 208 16 48 64
4b 160 112 224 24 64 64
4c 128 128 256 24 64 64
4d 112 144 288 32 64 64
4e 256 160 320 32 128 128
5a 256 160 320 32 128 128
5b 384 192 384 48 128 128
"""
"""Channels of 1x1, 3x3 reduce, 3x3, 5x5 reduce, 5x5, pool proj: table 1 of the paper."""


def googlenet() -> str:
    """Szegedy et al. 2015, without the outputs at the sides."""
    net = Text(10, 3, 224, 224)
    net.conv("conv1/7x7_s2", 64, 7, pad=3, stride=2)
    net.pool("pool1/3x3_s2", "MAX", 3, 2)
    net.lrn("pool1/norm1")
    net.conv("conv2/3x3_reduce", 64, 1)
    net.conv("conv2/3x3", 192, 3, pad=1)
    net.lrn("conv2/norm2")
    before = net.pool("pool2/3x3_s2", "MAX", 3, 2)
    for line in INCEPTIONS.split("\n")[1:-1]:
        unit, *rest = line.split()
        ones, reduce3, three, reduce5, five, proj = map(int, rest)
        block = f"inception_{unit}"
        parts = [net.conv(f"{block}/1x1", ones, 1, before)]
        net.conv(f"{block}/3x3_reduce", reduce3, 1, before)
        parts.append(net.conv(f"{block}/3x3", three, 3, pad=1))
        net.conv(f"{block}/5x5_reduce", reduce5, 1, before)
        parts.append(net.conv(f"{block}/5x5", five, 5, pad=2))
        net.pool(f"{block}/pool", "MAX", 3, 1, before, pad=1)
        parts.append(net.conv(f"{block}/pool_proj", proj, 1))
        before = net.add(f"{block}/output", "Concat", *parts)
        if unit in ("3b", "4e"):
            before = net.pool(f"pool{unit[0]}/3x3_s2", "MAX", 3, 2)
    net.pool("pool5/7x7_s1", "AVE", 7, 1)
    net.add("pool5/drop", "Dropout", in_place=True, param="dropout_param", dropout_ratio=0.4)
    net.fc("loss3/classifier", 1000, dropped=False)
    net.add("prob", "Softmax")
    return str(net)


def resnet50() -> str:
    """He et al. 2016: a normalisation and a scale behind each convolution, the stride on the first 1x1."""
    net = Text(1, 3, 224, 224)

    def normalised(name: str, outputs: int, kernel: int, *reads: str, relu: bool = True, **told: Any) -> str:
        own = {"num_output": outputs, "kernel_size": kernel, "bias_term": "false", **told}
        net.add(name, "Convolution", *reads, param="convolution_param", **own)
        net.add(f"bn_{name}", "BatchNorm", in_place=True, param="batch_norm_param", use_global_stats="true")
        net.add(f"scale_{name}", "Scale", in_place=True, param="scale_param", bias_term="true")
        return net.add(f"relu_{name}", "ReLU", in_place=True) if relu else net.last

    normalised("conv1", 64, 7, pad=3, stride=2)
    before = net.pool("pool1", "MAX", 3, 2)
    for stage, units in enumerate((3, 4, 6, 3), start=2):
        width = 64 * 2 ** (stage - 2)
        for unit in range(units):
            block, stride = f"res{stage}{'abcdef'[unit]}", 2 if unit == 0 and stage > 2 else 1
            short = before
            if unit == 0:
                short = normalised(f"{block}_branch1", 4 * width, 1, before, relu=False, stride=stride)
            normalised(f"{block}_branch2a", width, 1, before, stride=stride)
            normalised(f"{block}_branch2b", width, 3, pad=1)
            last = normalised(f"{block}_branch2c", 4 * width, 1, relu=False)
            net.add(block, "Eltwise", short, last)
            before = net.add(f"{block}_relu", "ReLU", in_place=True)
    net.pool("pool5", "AVE", 7, 1)
    net.fc("fc1000", 1000, dropped=False)
    net.add("prob", "Softmax")
    return str(net)
