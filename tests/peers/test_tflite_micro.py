"""The arena of TensorFlow Lite for Microcontrollers on MLPerf Tiny's networks is what the page says."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

NETWORKS = os.environ.get("TILEWRIGHT_MLPERF_TINY", "")

PAGE = (Path(__file__).parents[2] / "docs" / "microcontrollers.md").read_text("utf-8")

FILES = {
    "keyword spotter": "kws_ref_model.tflite",
    "ResNet-8": "pretrainedResnet_quant.tflite",
    "visual wake words": "vww_96_int8.tflite",
    "autoencoder": "ad01_int8.tflite",
}


@pytest.mark.nightly
@pytest.mark.skipif(not NETWORKS, reason="TILEWRIGHT_MLPERF_TINY names no folder of the networks")
@pytest.mark.parametrize("name", FILES)
def test_the_page_tells_its_arena(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    runtime = pytest.importorskip("tflite_micro.python.tflite_micro.runtime")
    interpreter = runtime.Interpreter.from_file(
        str(Path(NETWORKS, FILES[name])),
        arena_size=2**20,
        intrepreter_config=runtime.InterpreterConfig.kAllocationRecording,  # as the package spells it
    )
    interpreter.print_allocations()
    told = "".join(capfd.readouterr())
    total, maps = (int(re.findall(rf"{what} (\d+) bytes", told)[0]) for what in ("total", "head"))
    assert f"| {name} | {maps:,} | {total:,} |" in PAGE
