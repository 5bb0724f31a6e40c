"""Outputs of a quantised ONNX file beside those of onnxruntime."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from tilewright.simulator.arithmetic.onnx_executor import version
from tilewright.simulator.arithmetic.quantised import Inside
from tilewright.simulator.arithmetic.quantised.operation import Array


def compared(path: Path, network: Inside, images: Sequence[Sequence[Array]]) -> str:
    """Say how many outputs of a file are those of onnxruntime.

    Parameters
    ----------
    images
        Integers that the network inside reads, of each run.
    """
    if version() is None:
        return "outputs: our own arithmetic's; with onnxruntime installed they are compared"
    import onnxruntime  # start-up time

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3  # errors
    try:
        session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # of any kind, as of operators that it does not know
        why = str(error).splitlines()[0][:200]
        return f"outputs: our own arithmetic's; onnxruntime {version()} does not run the file: {why}"
    count = wrong = 0
    for image in images:
        ours = network.results([*network.network.run(image).values()])
        names = [border.name for border in network.inputs]
        given = dict(zip(names, network.of_file(image), strict=True))
        theirs = session.run([border.name for border in network.outputs], given)
        for one, other in zip(ours, theirs, strict=True):
            count += one.size
            wrong += int(np.count_nonzero(one != other))
    if not wrong:
        return f"outputs: all {count} equal to onnxruntime's {version()}"
    told = "which computes operators in floats that the file does not quantise as integers"
    return f"warning: {wrong} of {count} outputs differ from those of onnxruntime {version()}, {told}"
