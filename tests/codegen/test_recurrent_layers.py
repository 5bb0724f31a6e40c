"""Residency plans of recurrent layers as C in floating point, beside onnxruntime."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import nightly, refused
from onnx import helper
from residency_in_c import SANITIZED
from test_addressed_blocks import assert_as_onnxruntime, emitted
from test_addressed_floats import of_file, project, values
from tests.importing.blocks import Block
from tests.residency.test_residency_recurrent import recurrent

import tilewright as tw
from tilewright.codegen.addressed import numbers_of
from tilewright.importing.training import read_floats
from tilewright.residency import Problem, violation

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


def states(
    b: Block, x: str, kind: str, hidden: int, *, every: bool = True, biases: bool = True, **attributes: Any
) -> str:
    """Add a recurrent layer that gives all states, or the last one."""
    steps, images, features = b.shapes[x]
    directions, rows = 1 + (attributes.get("direction") == "bidirectional"), GATES[kind] * hidden
    weights = [b.matrix(directions, rows, features), b.matrix(directions, rows, hidden)]
    weights += [b.matrix(directions, 2 * rows)] if biases else []
    name = f"t{len(b.nodes)}"
    outputs = [name] if every else ["", name]
    b.nodes.append(helper.make_node(kind, [x, *weights], outputs, hidden_size=hidden, **attributes))
    b.shapes[name] = (steps, directions, images, hidden) if every else (directions, images, hidden)
    return name


def alone(kind: str, **told: Any) -> Callable[..., Sequence[str]]:
    """Return what writes one recurrent layer."""
    return lambda b: [states(b, b.input(4, 1, 3), kind, 3, **told)]


def stacked(b: Block) -> list[str]:
    """Frames of a convolution, states of both directions, a GRU of these, and classes of its last state."""
    x = b.unary("Relu", b.node("Conv", [b.input(1, 3, 6), b.matrix(4, 3, 3)], (1, 4, 4), kernel_shape=[3]))
    x = states(b, b.transpose(x, 2, 0, 1), "LSTM", 3, direction="bidirectional")
    x = b.reshape(b.transpose(x, 0, 2, 1, 3), 4, 1, 6)
    x = states(b, x, "GRU", 5, every=False, linear_before_reset=1)
    return [b.unary("Softmax", b.linear(b.reshape(x, 1, 5), 3), axis=-1)]


def batch_first(b: Block) -> list[str]:
    """As exporters write it whose batches come first."""
    x = states(b, b.transpose(b.input(1, 5, 4), 1, 0, 2), "RNN", 3, direction="reverse")
    x = b.transpose(b.reshape(x, 5, 1, 3), 1, 0, 2)
    return [b.unary("Tanh", b.linear(x, 2))]


@pytest.mark.parametrize(
    ("write", "memory"),
    [(stacked, 700), *(pytest.param(w, 20_000, marks=nightly) for w in (stacked, batch_first))],
)
def test_states_are_those_of_onnxruntime(
    tmp_path: Path, write: Callable[..., Sequence[str]], memory: int
) -> None:
    emitted(tmp_path, write, memory)


@nightly
@pytest.mark.parametrize("kind", GATES)
@pytest.mark.parametrize("direction", ["reverse", "bidirectional"])
@pytest.mark.parametrize("kernels", [1, 2, 3])
@pytest.mark.parametrize("more", [{}, {"linear_before_reset": 1}])
def test_weights_are_loaded_in_blocks(
    tmp_path: Path, kind: str, direction: str, kernels: int, more: dict[str, Any]
) -> None:
    """Those of some values of a state at a time, for each point in time, or of a direction."""
    if more and kind != "GRU":
        pytest.skip("is of a GRU")
    problem = of_file(tmp_path, alone(kind, direction=direction, **more), 20_000).problem
    plan = tw.solve(problem, "states").plan
    (step,) = plan.steps
    plan = replace(plan, steps=(replace(step, kept=(), kernels=kernels),))
    assert violation(problem, plan) is None
    project(tmp_path / "c", problem, plan, read_floats(tmp_path / "net.onnx"))
    assert_as_onnxruntime(tmp_path / "net.onnx", tmp_path / "c", problem)


@nightly
@pytest.mark.parametrize("kind", GATES)
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("every", [False, True])
@pytest.mark.parametrize("more", [{}, {"biases": False}, {"linear_before_reset": 1}])
def test_each_kind_is_what_onnxruntime_computes(
    tmp_path: Path, kind: str, direction: str, every: bool, more: dict[str, Any]
) -> None:
    if "linear_before_reset" in more and kind != "GRU":
        pytest.skip("is of a GRU")
    emitted(tmp_path, alone(kind, direction=direction, every=every, **more), 20_000)


@nightly
@pytest.mark.parametrize("direction", ["forward", "reverse"])
def test_all_states_and_the_last_one_leave_the_network(tmp_path: Path, direction: str) -> None:
    def both(b: Block) -> list[str]:
        every = states(b, b.input(4, 1, 3), "LSTM", 3, direction=direction)
        b.nodes[-1].output.append("last")
        b.shapes["last"] = b.shapes[every][1:]
        return [every, "last"]

    emitted(tmp_path, both, 20_000)


@nightly
def test_states_are_where_the_plan_says(tmp_path: Path) -> None:
    """A state that another one overwrites gives other numbers."""
    built = emitted(tmp_path, alone("LSTM"), 20_000)
    told = built.changed(
        "engine.c", r"return o->state \+ o->hidden \+ j;", "return o->state + j;", *SANITIZED
    )
    assert "values of outputs that are wrong\t0" not in told


@nightly
def test_numbers_are_made_where_no_file_tells_them(tmp_path: Path) -> None:
    layer = recurrent("gru", 3, 5, 4, directions=2)
    table = {"network": {"layers": [layer]}, "machine": {"memory_bytes": 4_000, "element_bytes": 4}}
    problem = Problem.model_validate(table)
    plan = tw.solve(problem, "states").plan
    project(tmp_path, problem, plan)
    assert np.isfinite(values(tmp_path, "output.bin")).all()


@pytest.mark.parametrize(
    ("write", "words"),
    [
        (alone("LSTM", clip=3.0), "no C for the attribute clip"),
        (alone("RNN", activations=["Relu"]), "no C for its activations, Relu"),
        (lambda b: [states(b, b.input(4, 2, 3), "GRU", 3)], "sequences of several lengths or side by side"),
    ],
)
def test_other_layers_are_refused_by_name(
    tmp_path: Path, write: Callable[..., Sequence[str]], words: str
) -> None:
    problem = of_file(tmp_path, write, 20_000).problem
    with refused("network.layers[0]", problem.network.layers[0].op, words):  # type: ignore[union-attr]
        numbers_of(problem, given=read_floats(tmp_path / "net.onnx"), floats=True)
