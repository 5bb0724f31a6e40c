"""The accelerator of the fusion room: engines that work at the same time, buffers, and what work costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Annotated, Any, ClassVar

from pydantic import Field

from tilewright.core.machines import Axis, MachineReading, OnChip, clock_of, megabytes_per_second
from tilewright.fusion.layouts import Layouts
from tilewright.spec.base import Spec
from tilewright.spec.host import Host

LOAD, SAVE, CONV, POOL, MISC = ENGINES = ("LOAD", "SAVE", "CONV", "POOL", "MISC")
"""The engines of the accelerator, which work at the same time (DNNVM paper, section 3.1)."""

BUFFERS = ("input", "output", "parameter")
"""The on-chip buffers: for maps that are loaded, for those that are computed, and for parameters."""

HOST = "HOST"
"""What computes operations that no engine of the accelerator does."""

OPERAND_OF = {"input": "input", "output": "output", "parameter": "weights"}
"""What a hierarchy of memories calls what each buffer holds."""

LANE_OF = {"input_maps": 0, "output_maps": 1, "rows": 2, "columns": 2}
"""The places in `EngineMachine.conv_array` of the loops that are unrolled over an array of a hierarchy."""

Bytes = Annotated[int, Field(ge=1, le=2**32)]
Rate = Annotated[int, Field(ge=1, le=10_000_000)]
Cost = Annotated[int, Field(ge=0, le=10_000_000)]


class Energy(Spec):
    """What work costs; what has no price is not counted. To minimise energy, something must have one.

    Attributes
    ----------
    pj_per_dram_byte, pj_per_mac
        Picojoules of each byte moved from or to DRAM, and of each MAC.
    milliwatts
        What the accelerator takes at all times.
    """

    pj_per_dram_byte: Cost = 0
    pj_per_mac: Cost = 0
    milliwatts: Cost = 0

    @property
    def unpriced(self) -> tuple[str, ...]:
        """What has no price."""
        parts = {"DRAM": self.pj_per_dram_byte, "MACs": self.pj_per_mac, "power": self.milliwatts}
        return tuple(name for name, price in parts.items() if not price)


class EngineMachine(Spec):
    """An accelerator with an engine for each kind of coarse instructions (DNNVM paper, section 3.1).

    Attributes
    ----------
    conv_array : (input channels, output channels, rows)
        MACs that the convolution engine does in a cycle, and over what they are spread.
    arrays
        Convolution arrays, each of which works on an image of its own with the same parameters.
    clock_mhz
    input_bytes, output_bytes, parameter_bytes
        On-chip buffers: for feature maps that are loaded, for those that are computed, for parameters.
    element_bytes
        Bytes of a value of a feature map and of a parameter.
    load_mb_per_s, save_mb_per_s
        10^6 bytes per second from DRAM, and to it.
    operands_per_cycle
        Values that the engines for pooling and for what else is done take in a cycle.
    issue_cycles
        What it takes to issue a group of operations before any engine works on it.
    host
        What operations take that no engine does, one after the other between the groups; without it they are
        not counted.
    layouts
        What layouts of maps in DRAM cost; without it all are NHWC, and bursts and copies cost nothing.
    """

    table_name: ClassVar[str] = "machine"
    later: ClassVar[tuple[str, ...]] = ("host", "layouts")

    conv_array: tuple[
        Annotated[int, Field(ge=1, le=1024)],
        Annotated[int, Field(ge=1, le=1024)],
        Annotated[int, Field(ge=1, le=1024)],
    ]
    arrays: Annotated[int, Field(ge=1, le=64)] = 1
    clock_mhz: Annotated[int, Field(ge=1, le=100_000)]
    input_bytes: Bytes
    output_bytes: Bytes
    parameter_bytes: Bytes
    element_bytes: Annotated[int, Field(ge=1, le=8)] = 1
    load_mb_per_s: Rate
    save_mb_per_s: Rate
    operands_per_cycle: Rate
    issue_cycles: Cost = 0
    energy: Energy = Energy()
    host: Host | None = None
    layouts: Layouts | None = None

    @property
    def macs_per_cycle(self) -> int:
        """Most MACs of all arrays in a cycle."""
        return self.arrays * prod(self.conv_array)

    @property
    def buffer_bytes(self) -> int:
        """Bytes of all buffers."""
        return self.input_bytes + self.output_bytes + self.parameter_bytes

    def capacity(self, buffer: str) -> int:
        """Return the bytes of one of `BUFFERS`."""
        size: int = getattr(self, f"{buffer}_bytes")
        return size

    def milliseconds(self, cycles: int) -> float:
        """Return how long a number of cycles takes."""
        return cycles / (self.clock_mhz * 1e3)

    def transfer_cycles(self, engine: str, elements: int) -> int:
        """Return the cycles in which `LOAD` or `SAVE` moves a number of elements."""
        rate = self.load_mb_per_s if engine == LOAD else self.save_mb_per_s
        return -(-elements * self.element_bytes * self.clock_mhz // rate)

    @property
    def burst_cycles(self) -> int:
        """Cycles of each burst of LOAD and SAVE, beside those of its bytes."""
        return 0 if self.layouts is None else self.layouts.burst_cycles

    def nanojoules(self, traffic: Any, macs: Any, cycles: Any) -> Any:
        """Return the energy of bytes moved from and to DRAM, MACs and cycles: integers, or arrays of them."""
        rates = self.energy
        moved = (traffic * rates.pj_per_dram_byte + macs * rates.pj_per_mac) // 1000
        return moved + cycles * rates.milliwatts // self.clock_mhz


def machine_from(table: dict[str, Any]) -> MachineReading:
    """Read a hierarchy or a DSP: one convolution engine, and the buffers next to external memory."""
    chip = OnChip.of(table)
    if chip is None:
        return MachineReading(clock_of(table), {"conv_array": "or levels of a hierarchy"})
    loops = _unrolled(chip.axes)
    found: dict[str, Any] = {"clock_mhz": chip.clock_mhz, "element_bytes": -(-chip.bits // 8)}
    lacking = {}
    if len(loops) < len(set(chip.axes)):
        alone = next(axis for axis in chip.axes if axis not in loops)
        lacking["conv_array"] = f"nothing there is like an array over {', '.join(alone.over)} alone"
    else:
        # MACs that are not spread over any loop: each convolution has output channels, depthwise ones, too.
        lanes, arrays = [1, chip.macs_per_cycle, 1], 1
        for axis in chip.axes:
            if loops[axis] == "batch":
                arrays *= axis.size
            else:
                lanes[LANE_OF[loops[axis]]] *= axis.size
        found |= {"conv_array": tuple(lanes), "arrays": arrays}
    for buffer, operand in OPERAND_OF.items():
        if operand in chip.homes:
            found[f"{buffer}_bytes"] = chip.buffer(operand, loops)
        else:
            lacking[f"{buffer}_bytes"] = f"or a memory on chip that holds {operand}"
    for key, rate in zip(("load_mb_per_s", "save_mb_per_s"), chip.rates, strict=True):
        if rate is not None:
            found[key] = megabytes_per_second(rate, chip.clock_mhz)
        else:
            lacking[key] = f"or bytes_per_cycle of {chip.outermost}"
    found["operands_per_cycle"] = _operands(chip, loops, found["element_bytes"])
    if table.get("host") is not None:
        found["host"] = table["host"]
    return MachineReading(found, lacking)


def _unrolled(axes: Sequence[Axis]) -> dict[Axis, str]:
    """Return the first loop of each axis that an engine has, too; images only where there is no other one."""
    loops = {}
    for axis in axes:
        known = [loop for loop in axis.over if loop in LANE_OF] + ["batch"] * ("batch" in axis.over)
        if known:
            loops[axis] = known[0]
    return loops


def _operands(chip: OnChip, loops: Mapping[Axis, str], width: int) -> int:
    """Return the values that pools and sums take in a cycle: one for each MAC, if the input has the port."""
    most = chip.macs_per_cycle * prod(axis.size for axis in chip.axes)
    home = chip.homes.get("input")
    if home is None or home.read_rate is None:
        return most
    return max(1, min(most, int(home.read_rate * chip.instances("input", loops)) // width))
