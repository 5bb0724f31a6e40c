"""What the DNNVM paper measured, and on what: its numbers, networks, machines and templates."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from tilewright.core import catalogue
from tilewright.fusion import Problem
from tilewright.fusion.machine import EngineMachine
from tilewright.fusion.templates import Template
from tilewright.spec.base import unchecked_copy
from tilewright.spec.coarsening import stages
from tilewright.spec.network import AnyLayer, Map, Network, Pool
from tilewright.spec.validation import validated

NAMES = {
    "vgg16-caffe": "VGG16",
    "resnet50-caffe": "ResNet50",
    "resnet152": "ResNet152",
    "googlenet": "GoogLeNet",
}
"""The networks in the order of table 2."""

READINGS = {
    "in a row": ("conv-pool", "pool-conv", "conv-add"),
    "+ side by side": ("siblings-2", "siblings-3"),
    "+ all on chip": ("block",),
    "+ conv-conv": ("conv-conv",),
    "+ pools beside": ("siblings-2-pool", "siblings-3-pool", "siblings-4-pool"),
}
"""What the paper may mean by its templates: names in templates/paper.toml, each with those before it."""

USED = "+ all on chip"
"""The reading that both conditions of section 4.3 make; table 2 is printed with it."""


@cache
def published() -> dict[str, Any]:
    """Return the paper's results."""
    return catalogue.shared("published", "dnnvm")


def table_2() -> dict[str, dict[str, Any]]:
    """Return the rows of table 2."""
    return {row["network"]: row for row in published()["table_2"]}


def machine(name: str = "dnnvm-zu2") -> EngineMachine:
    """Return one of the paper's machines."""
    return validated(EngineMachine, catalogue.shared("machines", name))


def machine_of(column: str) -> EngineMachine:
    """Return the machine of a column of table 4.

    On the ZU9 with one image one of its three arrays works, and pools and sums take a third of the operands.
    The XC7Z020 is the ZU2 with the table's clock rate and memory.
    """
    if column == "table_4_z7020":
        buffer = 500_000 // 3
        less = {"input_bytes": buffer, "output_bytes": buffer, "parameter_bytes": buffer}
        return machine().with_(clock_mhz=200, **less)
    three = machine("dnnvm-zu9")
    if column == "table_4":
        return three
    one = {"arrays": 1, "clock_mhz": 500, "operands_per_cycle": three.operands_per_cycle // three.arrays}
    return three.with_(**one)


def bundled(name: str) -> Network:
    """Return a bundled network."""
    return validated(Network, catalogue.shared("networks", name))


def benchmark(name: str, *, normalised: bool = False) -> Network:
    """Return the part of a network that the paper's accelerator does.

    It ends before the first average pool or fully connected layer. The 137 nodes of GoogLeNet have no place
    for its two normalisations over channels.

    Parameters
    ----------
    normalised
        Keep them all the same.
    """
    network = bundled(name)
    layers: list[AnyLayer] = []
    instead: dict[str, str] = {}
    for layer in network.layers:
        if layer.kind == "fc" or (isinstance(layer, Pool) and layer.op == "average"):
            break
        if isinstance(layer, Map) and layer.op == "lrn" and not normalised:
            instead[layer.name] = layers[-1].name
            continue
        inputs = layer.inputs and tuple(instead.get(each, each) for each in layer.inputs)
        layers.append(layer.model_copy(update={"inputs": inputs}))
    return Network(name=network.name, source=network.source, layers=tuple(layers))


def nodes(network: Network) -> int:
    """Return the nodes of the graph with the input, before activations are fused."""
    return len(stages(network)[1].graph.reads)


@cache
def templates(reading: str = USED) -> tuple[Template, ...]:
    """Return the templates of a reading."""
    names = list(READINGS)
    wanted = {template for name in names[: names.index(reading) + 1] for template in READINGS[name]}
    templates = (
        Template.model_validate(template) for template in catalogue.shared("templates", "paper")["templates"]
    )
    return tuple(template for template in templates if template.name in wanted)


def problem(network: Network, zu: EngineMachine | None = None, reading: str | None = USED) -> Problem:
    """Return the problem of a network on a machine, with the paper's templates or with all bundled ones."""
    unrestricted = Problem(network=network, machine=zu or machine())
    return unrestricted if reading is None else with_templates(unrestricted, templates(reading))


def with_templates(problem: Problem, templates: Sequence[Template]) -> Problem:
    """Return a problem with other templates; some may match nothing."""
    # A template of the user's must match something.
    return unchecked_copy(problem, templates=tuple(templates))
