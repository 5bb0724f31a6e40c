"""Random ONNX files through import, plan, C and a compiler: outputs are those of onnxruntime on the file."""

from __future__ import annotations

import random
import shutil
import subprocess
from pathlib import Path

from tests.codegen.onnx_in_c import any_network, emitted, instance_of
from tests.fuzz.trials import Skip, Wrong

from tilewright.spec.errors import InputError, TilewrightError

NIGHTLY = 2

METHODS = {
    "residency": ("layer_by_layer", "keep_if_it_fits", "fused_layers", "auto"),
    "tiling": ("greedy", "auto"),
    "fusion": ("greedy", "layerwise"),
}


def trial(rng: random.Random, scratch: Path) -> None:
    """Emit, compile and run a network."""
    if not shutil.which("gcc"):
        raise Skip
    room = rng.choice(list(METHODS))
    path, method = scratch / "net.onnx", rng.choice(METHODS[room])
    any_network(rng, path, single=room == "tiling")
    try:
        emitted(instance_of(path, room, rng.choice([1, 2, 4, 16, 64])), method, path, rng.randrange(2**16))
    except InputError as refused:
        raise Skip from refused
    except (AssertionError, TilewrightError, subprocess.SubprocessError) as error:
        raise Wrong(f"{room} {method}: {error}") from error
