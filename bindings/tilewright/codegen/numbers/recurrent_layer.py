"""Recurrent layers in floating point: their numbers as a program has them, and what they compute.

Weights lie direction by direction and, of each, value of the state by value: of each gate, in ONNX's order,
those of what is read, the biases, and those of the state.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod, sqrt
from typing import Any

import numpy as np

from tilewright.simulator.arithmetic.fixed_point import Floats
from tilewright.spec.network import GATES, Function, Recurrence

ACTIVATIONS = {"lstm": ("sigmoid", "tanh", "tanh"), "gru": ("sigmoid", "tanh"), "rnn": ("tanh",)}
"""Functions of the gates, of the candidate, and of an LSTM's cells."""

KINDS = {"lstm": "LSTM", "gru": "GRU", "rnn": "RNN"}
"""What C calls them."""


@dataclass(frozen=True)
class RecurrentLayer:
    """A recurrent layer.

    Attributes
    ----------
    op
        lstm, gru or rnn.
    told
        Its sizes, and in which order values are read and given.
    features
        Values that are read at a point in time.
    every
        Whether the states of all points in time are given, or that of the last one.
    backwards
        Whether the first direction goes through time backwards.
    by_input, by_state : shape (directions, gates, hidden, values)
        Weights of what is read, and of the state.
    biases : shape (directions, 2, gates, hidden)
        Of both; None without.
    """

    op: str
    told: Recurrence
    features: int
    every: bool
    backwards: bool
    by_input: Floats
    by_state: Floats
    biases: Floats | None

    @property
    def parameters(self) -> Floats:
        """All numbers, as they lie in DRAM."""
        parts = [self.by_input.transpose(0, 2, 1, 3)]
        parts += [] if self.biases is None else [self.biases.transpose(0, 3, 2, 1)]
        return np.concatenate([*parts, self.by_state.transpose(0, 2, 1, 3)], axis=3).ravel()

    @property
    def gates(self) -> int:
        """Products for each value of a state."""
        return GATES[self.op]

    def in_c(self) -> list[str]:
        """Return the fields of an operation in C that say what it is."""
        told = self.told
        sizes = f".steps = {told.steps}, .hidden = {told.hidden}, .features = {self.features}"
        orders = (
            f".reads_time_last = {int(told.reads_time_last)}, .gives_time_last = {int(told.gives_time_last)}"
        )
        flags = f".every = {int(self.every)}, .backwards = {int(self.backwards)}"
        reset = f".reset_after = {int(told.reset_after)}, .has_biases = {int(self.biases is not None)}"
        return [
            f".gates = {self.gates}, .directions = {told.directions}, {sizes},",
            f"{orders}, {flags}, {reset},",
        ]

    def __call__(self, given: Floats) -> Floats:
        """Return what it gives of images, shape (images, values in the order in which they are stored)."""
        told, images = self.told, len(given)
        order = (
            (images, self.features, told.steps)
            if told.reads_time_last
            else (images, told.steps, self.features)
        )
        values = given.reshape(order)
        values = values.transpose(0, 2, 1) if told.reads_time_last else values
        states = np.zeros((told.directions, told.steps, images, told.hidden))
        for direction in range(told.directions):
            reverse = self.backwards or direction == 1
            times = range(told.steps)[:: -1 if reverse else 1]
            states[direction, list(times)] = self._states(values[:, list(times)], direction)
            if not self.every:
                states[direction, 0] = states[direction, times[-1]]
        found = states if self.every else states[:, :1]
        axes = (2, 0, 3, 1) if told.gives_time_last else (2, 1, 0, 3)
        return found.transpose(axes).reshape(images, -1)

    def _states(self, values: Floats, direction: int) -> Floats:
        """Return the state of each point in time in order, shape (steps, images, hidden)."""
        rows, hidden = self.gates * self.told.hidden, self.told.hidden
        of_input = self.by_input[direction].reshape(rows, self.features)
        of_state = self.by_state[direction]
        none = np.zeros((2, self.gates, hidden))
        of_values, back = none if self.biases is None else self.biases[direction]
        state = cells = np.zeros((len(values), hidden))
        found = []
        for time in range(values.shape[1]):
            read = (values[:, time] @ of_input.T).reshape(len(values), self.gates, hidden) + of_values
            kept = np.stack([state @ of_state[gate].T + back[gate] for gate in range(self.gates)], axis=1)
            if self.op == "rnn":
                state = np.tanh(read[:, 0] + kept[:, 0])
            elif self.op == "lstm":
                into, out, forget = (_sigmoid(read[:, gate] + kept[:, gate]) for gate in range(3))
                cells = forget * cells + into * np.tanh(read[:, 3] + kept[:, 3])
                state = out * np.tanh(cells)
            else:
                update, reset = (_sigmoid(read[:, gate] + kept[:, gate]) for gate in range(2))
                if self.told.reset_after:
                    candidate = np.tanh(read[:, 2] + reset * kept[:, 2])
                else:
                    candidate = np.tanh(read[:, 2] + (reset * state) @ of_state[2].T + back[2])
                state = (1 - update) * candidate + update * state
            found.append(state)
        return np.stack(found)


def _sigmoid(values: Floats) -> Floats:
    found: Floats = 1 / (1 + np.exp(-values))
    return found


def why_not(spec: Function, attributes: Mapping[str, Any], numbers: Sequence[int]) -> str | None:
    """Say why there is no C for a recurrent layer, or None.

    Parameters
    ----------
    attributes
        Those of its file, by ONNX's names.
    numbers
        Places of the inputs that have numbers of the file.
    """
    if spec.recurrence is None:
        return "there is no C for given states, or sequences of several lengths or side by side"
    if 7 in numbers:
        return "there is no C for peepholes (input P)"
    for name in ("clip", "input_forget"):
        if attributes.get(name):
            return f"there is no C for the attribute {name}"
    given = attributes.get("activations")
    if given is not None:
        names = [str(each) for each in given]
        if tuple(each.lower() for each in names) != ACTIVATIONS[spec.op] * spec.recurrence.directions:
            return f"there is no C for its activations, {', '.join(names)}"
    return None


def recurrent_layer(
    spec: Function, attributes: Mapping[str, Any], numbers: Mapping[int, Floats]
) -> RecurrentLayer:
    """Return a recurrent layer with the numbers of a file, by ONNX's places of inputs."""
    told = spec.recurrence
    assert told is not None
    directions, gates = told.directions, GATES[spec.op]
    rows = directions, gates, told.hidden
    return RecurrentLayer(
        spec.op,
        told,
        prod(spec.input) // told.steps,
        prod(spec.output) > directions * told.hidden or told.steps == 1,
        attributes.get("direction") == "reverse",
        numbers[1].reshape(*rows, -1),
        numbers[2].reshape(*rows, -1),
        numbers[3].reshape(directions, 2, gates, told.hidden) if 3 in numbers else None,
    )


def made_numbers(spec: Function, rng: np.random.Generator) -> dict[int, Floats]:
    """Return numbers for a recurrent layer, by ONNX's places of inputs."""
    told = spec.recurrence
    assert told is not None
    features, units = prod(spec.input) // told.steps, told.directions * told.hidden * GATES[spec.op]
    spread = sqrt(features + told.hidden)
    found = {
        place: rng.standard_normal((told.directions, units // told.directions * width)) / spread
        for place, width in ((1, features), (2, told.hidden))
    }
    if spec.parameters == units * (features + told.hidden + 2):
        found[3] = rng.standard_normal((told.directions, units // told.directions * 2)) / 2
    return found
