"""Small Caffe networks at random, with their weights: layers as `oracles.caffe_layers` has them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from tests.oracles.caffe_layers import Layer, pooled_size

Shape = tuple[int, ...]


class Maker:
    """Adds layers that fit what is there."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.shapes: dict[str, Shape] = {}
        self.layers: list[Layer] = []
        self.last = "data"
        shape = (self.pick(1, 2), self.pick(2, 4), self.pick(5, 9), self.pick(5, 9))
        told = {"shape": {"dim": list(shape)}}
        self.layers.append({"name": "data", "type": "Input", "top": ["data"], "input_param": told})
        self.shapes["data"] = shape

    def pick(self, low: int, high: int) -> int:
        return int(self.rng.integers(low, high + 1))

    def one_of(self, *choices: Any) -> Any:
        return choices[self.pick(0, len(choices) - 1)]

    def numbers(self, *shape: int, low: float = -1, high: float = 1) -> np.ndarray[Any, Any]:
        return self.rng.uniform(low, high, shape).astype(np.float32).astype(float)

    def add(
        self,
        type_: str,
        shape: Shape,
        *reads: str,
        param: tuple[str, dict[str, Any]] | None = None,
        blobs: Sequence[Any] = (),
        in_place: bool = False,
    ) -> str:
        """Add a layer that gives a tensor of some shape; return the blob's name."""
        name = f"{type_.lower()}{len(self.layers)}"
        bottoms = list(reads or (self.last,))
        top = bottoms[0] if in_place else name
        layer = {"name": name, "type": type_, "bottom": bottoms, "top": [top], "blobs": list(blobs)}
        self.layers.append(layer | ({param[0]: param[1]} if param else {}))
        self.shapes[top], self.last = shape, top
        return top

    def conv(self, *reads: str, outputs: int | None = None, same: bool = False) -> str:
        images, channels, height, width = self.shapes[(reads or (self.last,))[0]]
        groups = self.one_of(1, channels) if outputs is None else 1
        outputs = outputs or groups * self.pick(1, 3)
        own: dict[str, Any] = {"num_output": outputs, "group": groups, "bias_term": self.one_of(True, False)}
        kernel = 3 if same else self.pick(1, min(3, height, width))
        dilation = self.pick(1, 2) if kernel > 1 and min(height, width) > 4 and not same else 1
        own |= {"kernel_size": kernel, "dilation": dilation}
        sides = [(1, 1), (1, 1)] if same else [(self.pick(0, kernel - 1), self.pick(1, 3)) for _ in range(2)]
        (ph, sh), (pw, sw) = sides
        own |= {"pad_h": ph, "pad_w": pw, "stride_h": sh, "stride_w": sw}
        taps = dilation * (kernel - 1) + 1
        plane = ((height + 2 * ph - taps) // sh + 1, (width + 2 * pw - taps) // sw + 1)
        blobs = [self.numbers(outputs, channels // groups, kernel, kernel)]
        blobs += [self.numbers(outputs)] if own["bias_term"] else []
        return self.add(
            "Convolution", (images, outputs, *plane), *reads, param=("convolution_param", own), blobs=blobs
        )

    def deconv(self) -> str:
        images, channels, height, width = self.shapes[self.last]
        groups, kernel, stride = self.one_of(1, channels), self.pick(2, 3), self.pick(1, 2)
        outputs, pad = groups * self.pick(1, 2), 0
        own = {"num_output": outputs, "group": groups, "kernel_size": kernel, "stride": stride, "pad": pad}
        plane = [(size - 1) * stride + kernel - 2 * pad for size in (height, width)]
        blobs = [self.numbers(channels, outputs // groups, kernel, kernel), self.numbers(outputs)]
        return self.add(
            "Deconvolution", (images, outputs, *plane), param=("convolution_param", own), blobs=blobs
        )

    def pool(self) -> str:
        images, channels, height, width = self.shapes[self.last]
        own: dict[str, Any] = {"pool": self.one_of("MAX", "AVE")}
        if self.pick(0, 4) == 0:
            own["global_pooling"] = True
            return self.add("Pooling", (images, channels, 1, 1), param=("pooling_param", own))
        (kh, kw), (sh, sw) = ([self.pick(1, min(4, side)) for side in (height, width)] for _ in range(2))
        ph, pw = self.pick(0, kh - 1), self.pick(0, kw - 1)
        if own["pool"] == "AVE" or not (ph or pw):  # else a window may begin behind the input, which Caffe
            sh, sw = min(sh, kh), min(sw, kw)  # refuses without padding, and ONNX counts for an average
        own |= {"kernel_h": kh, "kernel_w": kw, "stride_h": sh, "stride_w": sw, "pad_h": ph, "pad_w": pw}
        own["round_mode"] = self.one_of("CEIL", "CEIL", "FLOOR")
        up, padded = own["round_mode"] == "CEIL", bool(ph or pw)
        plane = (pooled_size(height, kh, sh, ph, padded, up), pooled_size(width, kw, sw, pw, padded, up))
        return self.add("Pooling", (images, channels, *plane), param=("pooling_param", own))

    def value_by_value(self) -> str:
        shape, in_place = self.shapes[self.last], bool(self.pick(0, 1))
        type_ = self.one_of("ReLU", "PReLU", "Sigmoid", "TanH", "ELU", "AbsVal", "BNLL", "Power", "Dropout")
        param, blobs = None, []
        if type_ == "ReLU":
            param = ("relu_param", {"negative_slope": self.one_of(0.0, 0.25)})
        elif type_ == "PReLU":
            shared = self.one_of(True, False)
            param, blobs = (
                ("prelu_param", {"channel_shared": shared}),
                [self.numbers(1 if shared else shape[1])],
            )
        elif type_ == "Power":
            param = (
                "power_param",
                {"power": self.one_of(1.0, 2.0), "scale": 0.5, "shift": self.one_of(0.0, 1.5)},
            )
        return self.add(type_, shape, param=param, blobs=blobs, in_place=in_place)

    def normalise(self) -> str:
        shape = self.shapes[self.last]
        type_ = self.one_of("LRN", "BatchNorm", "Scale", "Bias")
        channels = self.numbers(shape[1]), self.numbers(shape[1])
        if type_ == "LRN":
            region = self.one_of("ACROSS_CHANNELS", "WITHIN_CHANNEL")
            own: dict[str, Any] = {
                "local_size": self.one_of(3, 5),
                "alpha": 0.5,
                "beta": 0.75,
                "norm_region": region,
            }
            own |= {"k": 2.0} if region == "ACROSS_CHANNELS" else {}
            return self.add(type_, shape, param=("lrn_param", own))
        if type_ == "BatchNorm":
            blobs = [
                self.numbers(shape[1]),
                self.numbers(shape[1], low=0.5),
                np.array([self.one_of(0.5, 4.0)]),
            ]
            blobs[1] = abs(blobs[1])
            own = {"eps": 0.001}
            self.add(
                type_, shape, param=("batch_norm_param", own), blobs=blobs, in_place=bool(self.pick(0, 1))
            )
            if self.pick(0, 1):
                return self.last
        if type_ == "Bias":
            return self.add("Bias", shape, blobs=channels[:1])
        own = {"bias_term": self.one_of(True, False)}
        blobs = list(channels) if own["bias_term"] else [channels[0]]
        return self.add(
            "Scale", shape, param=("scale_param", own), blobs=blobs, in_place=bool(self.pick(0, 1))
        )

    def branches(self) -> str:
        """Add what two layers give of the same tensor, combined."""
        before, shape = self.last, self.shapes[self.last]
        one = self.conv(before, outputs=shape[1], same=True)
        how = self.one_of("SUM", "PROD", "MAX", "concat", "gate", "crop")
        if how == "concat":
            two = self.conv(before, outputs=self.pick(1, 3), same=True)
            channels = shape[1] + self.shapes[two][1]
            return self.add("Concat", (shape[0], channels, *shape[2:]), one, two)
        if how == "gate":
            pooled = {"pool": "AVE", "global_pooling": True}
            self.add("Pooling", (*shape[:2], 1, 1), before, param=("pooling_param", pooled))
            gate = self.add("Flatten", shape[:2])
            return self.add("Scale", shape, one, gate, param=("scale_param", {"axis": 0}))
        if how == "crop":
            own = {"pool": "MAX", "kernel_size": 2}
            small = (*shape[:2], shape[2] - 1, shape[3] - 1)
            if min(small) < 1:
                return one
            like = self.add("Pooling", small, before, param=("pooling_param", own))
            return self.add("Crop", small, one, like, param=("crop_param", {"offset": 1}))
        own = {"operation": how} | ({"coeff": [1.0, -0.5]} if how == "SUM" and self.pick(0, 1) else {})
        return self.add("Eltwise", shape, one, before, param=("eltwise_param", own))

    def slice(self) -> str:
        shape = self.shapes[self.last]
        if shape[1] < 2:
            return self.last
        point = self.pick(1, shape[1] - 1)
        name = f"slice{len(self.layers)}"
        tops = [f"{name}a", f"{name}b"]
        own = {"slice_point": [point], "axis": 1}
        self.layers.append(
            {"name": name, "type": "Slice", "bottom": [self.last], "top": tops, "slice_param": own}
        )
        self.shapes[tops[0]] = (shape[0], point, *shape[2:])
        self.shapes[tops[1]] = (shape[0], shape[1] - point, *shape[2:])
        self.last = tops[self.pick(0, 1)]
        return self.last

    def order(self) -> str:
        images, channels, height, width = self.shapes[self.last]
        if self.pick(0, 1):
            shape = (images, height, width, channels)
            return self.add("Permute", shape, param=("permute_param", {"order": [0, 2, 3, 1]}))
        if self.pick(0, 1):
            return self.add(
                "Flatten", (images, channels, height * width), param=("flatten_param", {"axis": 2})
            )
        told = {"shape": {"dim": [0, -1, height * width]}}
        return self.add("Reshape", (images, channels, height * width), param=("reshape_param", told))

    def fc(self) -> str:
        shape = self.shapes[self.last]
        axis = self.one_of(1, 1, len(shape) - 1)
        turned, values, outputs = self.one_of(True, False), int(np.prod(shape[axis:])), self.pick(2, 5)
        own = {
            "num_output": outputs,
            "axis": axis,
            "transpose": turned,
            "bias_term": self.one_of(True, False),
        }
        blobs = [self.numbers(*((values, outputs) if turned else (outputs, values)))]
        blobs += [self.numbers(outputs)] if own["bias_term"] else []
        given = (*shape[:axis], outputs)
        return self.add("InnerProduct", given, param=("inner_product_param", own), blobs=blobs)


def network(seed: int) -> list[Layer]:
    """Return a network of some layers of all types."""
    maker = Maker(seed)
    steps = (
        maker.conv,
        maker.pool,
        maker.value_by_value,
        maker.normalise,
        maker.branches,
        maker.slice,
        maker.deconv,
    )
    for _ in range(maker.pick(2, 6)):
        maker.one_of(*steps)()
    if maker.pick(0, 1):
        maker.order()
    maker.fc()
    maker.value_by_value()
    maker.add("Softmax", maker.shapes[maker.last])
    return maker.layers
