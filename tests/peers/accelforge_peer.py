"""Map a layer with AccelForge, in its own environment: a specification comes in, its best mapping goes out.

Standard input is a JSON object with ``specification``, the text of a YAML file, and ``minimise``, one of
``energy``, ``cycles`` and ``edp``. Standard output is one with ``value``, ``seconds`` of the processor for
the mapping alone, ``version``, and ``nodes``: the mapping from the outside, of memories that ``store`` a
tensor, of what they ``reserve`` for it, and of loops with the block that is left inside of them.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import accelforge
from accelforge.frontend import mapping
from accelforge.mapper.FFM.main import join_pmappings, make_pmappings
from accelforge.util.parallel import set_n_parallel_jobs

METRICS = {"energy": "ENERGY", "cycles": "LATENCY", "edp": "ENERGY_DELAY_PRODUCT"}


def described(node: Any) -> list[dict[str, Any]]:
    """Return what a node of a mapping says, as JSON."""
    if isinstance(node, mapping.Loop):
        axis = node.name if isinstance(node, mapping.Spatial) else None
        return [{"loop": str(node.rank_variable), "step": int(node.tile_shape), "axis": axis}]
    if isinstance(node, mapping.Reservation):
        return [{"reserve": str(node.resource), "tensor": str(tensor)} for tensor in node.purposes]
    if isinstance(node, mapping.TensorHolder):
        return [{"store": str(node.component), "tensor": str(tensor)} for tensor in node.tensors]
    return []


def mapped(text: str, minimise: str) -> dict[str, Any]:
    """Return the best mapping of a specification, and what it costs."""
    set_n_parallel_jobs(1)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "specification.yaml")
        file.write_text(text, "utf-8")
        specification = accelforge.Spec.from_yaml(str(file))
    metrics = accelforge.Metrics[METRICS[minimise]]
    specification.mapper.metrics = metrics
    began = time.process_time()
    parts = make_pmappings(specification, print_progress=False)
    found = join_pmappings(parts, metrics=metrics, require_all_einsums=False, print_progress=False)
    seconds = time.process_time() - began
    objectives = [name for name in found.data if name.startswith("Total<SEP>") and "mapping" not in name]
    best = found.data.sort_values(objectives[0]).iloc[0]
    nodes = best["Total<SEP>mapping"](_for_model=True).nodes
    return {
        "value": float(best[objectives[0]]),
        "seconds": seconds,
        "version": version("accelforge"),
        "nodes": [each for node in nodes for each in described(node)],
    }


if __name__ == "__main__":
    asked = json.load(sys.stdin)
    output, sys.stdout = sys.stdout, sys.stderr  # where the peer prints what it does
    print(json.dumps(mapped(asked["specification"], asked["minimise"])), file=output)
