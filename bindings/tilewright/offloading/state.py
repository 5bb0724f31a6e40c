"""What each memory holds while the steps of a plan are gone through."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

import numpy as np

from tilewright.offloading.plan import Moves, Plan, Step, numbers
from tilewright.offloading.problem import Problem


class State:
    """What is on chip.

    Attributes
    ----------
    inputs, kernels, outputs : bool, shape (memories, elements)
    """

    def __init__(self, problem: Problem) -> None:
        self.problem, sizes, memories = problem, problem.elements, problem.n_memories
        self.inputs = np.zeros((memories, sizes.n_inputs), dtype=np.bool_)
        self.kernels = np.full((memories, sizes.n_kernel_elements), problem.machine.kernels == "preloaded")
        self.outputs = np.zeros((memories, sizes.n_outputs), dtype=np.bool_)

    def leave(self, memory: int, moves: Moves) -> None:
        """Forget what a step frees or writes."""
        self.inputs[memory, numbers(moves.free_inputs)] = False
        self.kernels[memory, numbers(moves.free_kernels)] = False
        self.outputs[memory, numbers(moves.write)] = False

    def arrive(self, memory: int, moves: Moves) -> None:
        """Take what a step loads."""
        self.inputs[memory, numbers(moves.load_inputs)] = True
        self.kernels[memory, numbers(moves.load_kernels)] = True
        self.outputs[memory, numbers(moves.load_sums)] = True

    def compute(self, step: Step) -> None:
        """Take the outputs that a step adds to."""
        for part, block in enumerate(step.blocks):
            if block is not None:
                added = self.problem.elements.outputs_of(numbers(block.patches), numbers(block.kernels))
                self.outputs[self.problem.memory_of(part), added] = True


def states(problem: Problem, plan: Plan) -> Iterator[State]:
    """Yield what is on chip at the end of each step: one object, which changes."""
    state = State(problem)
    for step in plan.steps:
        for memory, moves in enumerate(step.moves):
            state.leave(memory, moves)
        for memory, moves in enumerate(step.moves):
            state.arrive(memory, moves)
        state.compute(step)
        yield state


def last_state(problem: Problem, plan: Plan) -> State:
    """Return what is on chip at the end of the last step."""
    return deque(states(problem, plan), maxlen=1).pop()
