"""Plan blocks of today's networks on machines of several kinds: ``python -m tests.benchmarks.networks``.

It writes ``docs/results/networks.md``, or to ``-o FILE``. A number of ``--seconds`` ends a search. Blocks are
those of ``tests/importing/blocks.py``.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from tests.importing.blocks import BLOCKS, counts, save_block

import tilewright

PAGE = Path(__file__).parents[2] / "docs" / "results" / "networks.md"


class Machine(NamedTuple):
    """What blocks are planned on, under the name of its column."""

    name: str
    machine: str
    room: str
    minimise: str
    values: Mapping[str, Any]


UNIT = {"machine.vector_ops_per_cycle": 8}
HOST = {"machine.host.cycles_per_byte": 0.5, "machine.host.cycles_per_call": 1000}
MEMORY = "{}"
MACHINES = (
    *(Machine(f"{kb} KB, bytes", MEMORY, "residency", "traffic", {"machine.memory_bytes": 1024 * kb})
      for kb in (16, 64, 256)),
    Machine("idsp, cycles", "idsp", "tiling", "cycles", UNIT),
    Machine("gap8, cycles", "gap8", "tiling", "cycles", {}),
    Machine("nmp, us", "nmp", "tiling", "time", UNIT),
    Machine("zu2, cycles", "dnnvm-zu2", "fusion", "cycles", HOST),
    Machine("array, cycles", "tcpa", "allocation", "interval", {"machine.array": [8, 8], **HOST}),
)  # fmt: skip

HEAD = """# Results: blocks of today's networks

What do blocks of transformers, of diffusion models and of small convolutional networks cost on machines of
each kind?

    python -m tests.benchmarks.networks

This command writes the page. Each block is an ONNX file as PyTorch exports it, made by
`tests/importing/blocks.py`. `tests/importing/test_blocks.py` compares MACs and bytes with a count from the
file alone, numbers with onnxruntime, and the same block as TensorFlow exports it: it is the same network.

## The blocks

*Least bytes* are inputs, weights and outputs, each moved once, in elements of a byte. A causal mask is none
of the weights.

"""

PLANS = """
## Plans

Each search had {seconds} s. A value by itself is proven to be the least. Of others the gap stands beside
them. `>=` is a lower bound that no plan is known to reach: some operation is counted as if each value were
moved once, see [operations between layers](../operations.md#what-is-exact-and-what-is-a-lower-bound).

- `16 KB` to `256 KB`: bytes of DRAM traffic in [one memory](../residency.md) of that size.
- `idsp`, `nmp`: [tiled](../tiling.md) layer by layer, with `vector_ops_per_cycle = 8`. `gap8` as it is.
- `zu2`: the [convolution engine](../dnnvm.md) `dnnvm-zu2`, where the host takes half a cycle a byte and 1,000
  cycles a call.
- `array`: cycles between two frames in a [pipeline](../allocation.md) on `tcpa`, with 8 x 8 processing
  elements and such a host.

"""


NOTES = ("| block | on | why |", "|---|---|---|")


def cell(file: Path, machine: Machine, seconds: float) -> tuple[str, str]:
    """Return what a block costs on a machine, and what is not counted or why there is no plan."""
    path = file.with_name("memory.toml")
    path.write_text("memory_bytes = 1\n", encoding="utf-8")
    try:
        instance = tilewright.read(
            file,
            machine=path if machine.machine == MEMORY else machine.machine,
            room=machine.room,
            minimise=machine.minimise,
            values=machine.values,
        )
        result = tilewright.solve(instance, time_limit=seconds)
    except tilewright.InputError as error:
        return "-", str(error).partition(": ")[2] or str(error)
    if result.objective is None:
        return "-", result.status
    value = result.objective / 1e6 if machine.minimise == "time" else result.objective
    shown = f"{value:,.0f}"
    if result.at_least:
        return f">= {shown}", "at least, by " + ", ".join(result.at_least)
    if result.status != "optimal":
        shown += " (?)" if result.bound is None else f" ({1 - result.bound / result.objective:.1%})"
    return shown, ""


def main() -> None:
    """Write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("blocks", nargs="*", help="only these, in this order")
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("-o", "--output", type=Path, default=PAGE)
    asked = parser.parse_args()
    about = ["| block | | operations | MACs | least bytes |", "|---|---|---|---|---|"]
    plans = [
        "| block | " + " | ".join(each.name for each in MACHINES) + " |",
        "|---" * (1 + len(MACHINES)) + "|",
    ]
    notes: dict[str, list[str]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in asked.blocks or BLOCKS:
            file = save_block(name, Path(folder) / f"{name}.onnx")
            network = tilewright.read(file, machine="idsp", minimise="accesses").problem.network
            macs, values = counts(file)
            what = (BLOCKS[name].__doc__ or "").strip().rstrip(".")
            about.append(f"| {name} | {what} | {len(network.layers)} | {macs:,} | {values:,} |")
            cells = []
            for machine in MACHINES:
                shown, why = cell(file, machine, asked.seconds)
                cells.append(shown)
                if why:
                    notes.setdefault(f"{machine.name.partition(',')[0]} | {why}", []).append(name)
                print(name, machine.name, shown, why, file=sys.stderr, flush=True)
            plans.append(f"| {name} | " + " | ".join(cells) + " |")
    page = (
        HEAD + "\n".join(about) + "\n" + PLANS.format(seconds=f"{asked.seconds:g}") + "\n".join(plans) + "\n"
    )
    told = [f"| {', '.join(names)} | {why} |" for why, names in notes.items()]
    if told:
        page += "\n".join(["\nWhere there is no plan, or a bound alone:", "", *NOTES, *told]) + "\n"
    asked.output.write_text(page, encoding="utf-8")
    print(json.dumps({"written": str(asked.output)}))


if __name__ == "__main__":
    main()
