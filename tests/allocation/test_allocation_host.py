"""Configuration of the array, and fully connected layers on the host, beside pipelines and layers in turn."""

from __future__ import annotations

from typing import Any

import tilewright as tw

NETWORK: dict[str, Any] = {
    "layers": [
        {"name": "a", "input": [1, 3, 3], "kernels": 2, "kernel": [2, 2]},
        {"name": "b", "kind": "pool", "kernel": [2, 2]},
        {"name": "f", "kind": "fc", "inputs": 2, "outputs": 5, "bias": False},
        {"name": "g", "kind": "fc", "inputs": 5, "outputs": 3, "bias": False},
    ]
}
HOST = {"cycles_per_byte": 0.5, "cycles_per_call": 100}
HOST_CYCLES = (100 + 9) + (100 + 12)
"""Layer f reads 2 words, 10 weights, and writes 5, g reads 5 and 15 and writes 3: 17 and 23 bytes, halved."""


def solved(execution: str = "layer-parallel", **more: Any) -> tw.Result:
    table = {"array": [1, 4], "clock_mhz": 1} | more
    limits = {"execution": execution, "pes": {"a": 1, "b": 1}}
    return tw.solve(
        tw.AllocationProblem.model_validate({"network": NETWORK, "machine": table, "limits": limits})
    )


def test_the_rate_of_a_network_is_that_of_the_slower_of_array_and_host() -> None:
    found = solved(host=HOST)
    whole, array = found.measures.network, found.measures
    assert whole.host_cycles == HOST_CYCLES
    assert whole.hosted == ["f", "g"]
    assert whole.interval_cycles == max(array.interval_cycles, HOST_CYCLES) == HOST_CYCLES
    assert whole.latency_cycles == array.latency_cycles + HOST_CYCLES
    assert whole.frames_per_second == 1e6 / HOST_CYCLES
    assert found.objective == array.interval_cycles == 32  # the plan is one of the array
    idle = solved(host={"cycles_per_byte": 0.0}).measures
    assert idle.network.interval_cycles == idle.interval_cycles


def test_a_pipeline_is_configured_once_and_layers_in_turn_in_each_frame() -> None:
    once = solved(configuration_cycles=70).measures
    assert once.network.configuration_cycles == 70
    assert once.network.interval_cycles == once.interval_cycles
    turns = solved("layer-by-layer", configuration_cycles=70, host=HOST).measures
    assert turns.network.configuration_cycles == 2 * 70
    assert turns.network.interval_cycles == max(turns.interval_cycles + 140, HOST_CYCLES)
    assert turns.network.latency_cycles == turns.latency_cycles + 140 + HOST_CYCLES


def test_what_the_machine_does_not_say_is_not_counted() -> None:
    told = solved().summary()
    assert "not counted" in told and "configuration" in told and "host: f, g" in told
    assert solved().measures.network is None
    priced = solved(configuration_cycles=1, host=HOST, off_chip={"mb_per_s": 1}).summary()
    assert "not counted" not in priced
