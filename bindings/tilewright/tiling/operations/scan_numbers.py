"""What recurrent layers compute, in integers: tile by tile from what is on chip, and whole as the reference.

Sigmoids and hyperbolic tangents have no form in integers and are left out; products and sums of gates and
states are those of the layer, modulo 2^64. A gate's numbers beside its weights, as biases, are added to it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tilewright.simulator.program import Values
from tilewright.tiling.operations.arithmetic import whole as without_tiles
from tilewright.tiling.operations.operation import Operation
from tilewright.tiling.operations.scan import CELL, GATED, INPUT, Moment, ScanShape, ScanWalk
from tilewright.tiling.operations.walk import Span

BESIDE = 0
"""The gate of a pass that numbers beside the weights are added to."""


def gate(weights: Values, number: int, gates: int, given: Values, state: Values) -> Values:
    """Return one gate of some values of the state, shape ``(images, values)``.

    Parameters
    ----------
    weights : shape (values, numbers)
        Of each value, for each gate what the input and then the state are multiplied by, and further numbers.
    number, gates
        Which gate, and how many there are.
    given : shape (images, features)
    state : shape (images, hidden)
    """
    width = given.shape[1] + state.shape[1]
    own = weights[:, number * width : (number + 1) * width]
    found: Values = given @ own[:, : given.shape[1]].T + state @ own[:, given.shape[1] :].T
    return found + weights[:, gates * width :].sum(axis=1) if number == BESIDE else found


@dataclass(frozen=True)
class ScanArithmetic:
    """Compute values of a state, cells or gates from what the chip holds."""

    walk: ScanWalk
    name: str
    moment: Moment
    before: Moment | None
    each: int
    piece: Span

    def __call__(self, chip: dict[str, Values]) -> Values:
        """Return the values of the box."""
        walk, scan, moment = self.walk, self.walk.scan, self.moment
        images, piece = slice(*moment.images), slice(*self.piece)
        given = chip[INPUT][images, moment.time]
        weights = chip[scan.weights(self.each)][moment.direction, piece]
        state = np.zeros((len(given), scan.hidden), dtype=np.int64)
        if self.before is not None:
            held = walk.state_of(self.before)
            state = self._of(chip, held, self.before)
        gates = scan.passes[self.each]
        if self.each:
            reset, update = (chip[GATED][moment.direction, images, moment.time, which] for which in (0, 1))
            fresh = gate(weights, 0, gates, given, reset)
            return blended(update[:, piece], fresh, state[:, piece])
        found = [gate(weights, number, gates, given, state) for number in range(gates)]
        if scan.op == "rnn":
            return found[0]
        if scan.op == "lstm":
            if self.name != CELL:
                return found[1] * self._of(chip, CELL, moment)[:, piece]
            old = 0 if self.before is None else self._of(chip, CELL, self.before)[:, piece]
            return found[2] * old + found[0] * found[3]
        if self.name == GATED:
            return np.stack([found[1] * state[:, piece], found[0]], axis=1)
        own = weights[:, 2 * (given.shape[1] + scan.hidden) :]
        fresh = given @ own[:, : given.shape[1]].T
        fresh = fresh + found[1] * (state @ own[:, given.shape[1] : given.shape[1] + scan.hidden].T)
        return blended(found[0], fresh, state[:, piece])

    def _of(self, chip: dict[str, Values], name: str, moment: Moment) -> Values:
        """Return all states of a point in time."""
        direction, images, time = (
            span for span in self.walk.box(name, moment).ranges[:3] if span is not None
        )
        return chip[name][direction[0], slice(*images), time[0]]


def blended(update: Values, fresh: Values, state: Values) -> Values:
    """Return what a GRU's update gate makes of a fresh state and the one before."""
    return (1 - update) * fresh + update * state


def whole(operation: Operation, given: dict[str, Values]) -> Values:
    """Return what an operation gives, computed without tiles."""
    return _scanned(operation, given) if operation.recurrence is not None else without_tiles(operation, given)


def _scanned(operation: Operation, given: dict[str, Values]) -> Values:
    """Return what a recurrent layer gives, shape ``(directions, images, steps or 1, hidden)``."""
    scan = ScanShape.of(operation)
    found = np.zeros((scan.directions, scan.images, scan.steps, scan.hidden), dtype=np.int64)
    for direction in range(scan.directions):
        weights = [given[scan.weights(number)][direction] for number in range(len(scan.passes))]
        state = cell = np.zeros((scan.images, scan.hidden), dtype=np.int64)
        for time in range(scan.steps)[:: -1 if direction else 1]:
            state, cell = _next(scan, weights, given[INPUT][:, time], state, cell)
            found[direction, :, time] = state
    if scan.every:
        return found
    last = [found[direction, :, 0 if direction else -1] for direction in range(scan.directions)]
    return np.stack(last)[:, :, None]


def _next(
    scan: ScanShape, weights: list[Values], given: Values, state: Values, cell: Values
) -> tuple[Values, Values]:
    """Return the state and the cells after a point in time."""
    gates = [
        gate(own, number, many, given, state)
        for own, many in zip(weights, scan.passes, strict=True)
        for number in range(many)
    ]
    if scan.op == "rnn":
        return gates[0], cell
    if scan.op == "lstm":
        cell = gates[2] * cell + gates[0] * gates[3]
        return gates[1] * cell, cell
    if len(scan.passes) == 2:
        fresh = gate(weights[1], 0, 1, given, gates[1] * state)
    else:
        own = weights[0][:, 2 * (given.shape[1] + scan.hidden) :]
        own, features = own[:, : given.shape[1] + scan.hidden], given.shape[1]
        fresh = given @ own[:, :features].T + gates[1] * (state @ own[:, features:].T)
    return blended(gates[0], fresh, state), cell
