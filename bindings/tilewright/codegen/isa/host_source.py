"""The CPU's part of a program in C: the table of what the host computes, beside sources that compute it.

A file's code is never executed where `execute` runs, so that the container has the table as data. These
sources are for the processor beside an accelerator, of which a program says nothing.
"""

from __future__ import annotations

from pathlib import Path

from tilewright.codegen.c_text import block_comment, safe_text
from tilewright.codegen.isa.container import Image
from tilewright.codegen.isa.engines import SUM_BITS
from tilewright.codegen.isa.instructions import NONLINEAR, Instruction
from tilewright.codegen.isa.places import hosted_map
from tilewright.codegen.project_files import array_literal

RUNTIME = Path(__file__).parent / "runtime"


def host_files(image: Image) -> dict[str, bytes]:
    """Return the C of what the host computes, by the names of files; none where it computes nothing."""
    if not image.host:
        return {}
    found = {name: (RUNTIME / name).read_bytes() for name in ("host.c", "host.h")}
    return found | {"host_table.h": "\n".join([*_table(image), ""]).encode("ascii")}


def _table(image: Image) -> list[str]:
    width = image.machine.element_bytes
    maps: list[str] = []
    entries: list[str] = []
    for entry in image.host:
        values = entry.values
        at = len(maps)
        maps += [f"    {array_literal(each)}," for each in _maps(entry, image)]
        own = values["bits"] or 8 * width, values["read_shift"], values["read_bits"]
        sums = values["bias"], values["bias_shift"], values["bias_last"], values["sum_bits"] or SUM_BITS
        relu = int(NONLINEAR[values["nonlinear"]] == "RELU")
        fields = (f"HOST_{entry.name}", values["parts"], relu, values["shift"], *own, *sums)
        entries.append(f"    {array_literal((*fields, values['address'], f'host_maps + {at}'))},")
    return [
        *block_comment([f"What the host computes of {safe_text(image.name)}."]),
        f"typedef int{8 * width}_t element_t;",
        f"enum {{ HOST_IMAGES = {image.machine.arrays}, HOST_ENTRIES = {len(entries)} }};",
        "static const host_map_t host_maps[] = {",
        *maps,
        "};",
        "static const host_entry_t host_entries[] = {",
        *entries,
        "};",
    ]


def _maps(entry: Instruction, image: Image) -> list[tuple[int, ...]]:
    """Return the fields of the maps that an entry reads, and of that which it writes."""
    found: list[tuple[int, ...]] = []
    for values in (*entry.of("read"), *entry.of("write")):
        map_ = hosted_map(values, image.machine.arrays, image.machine.element_bytes)
        by_image, line, pixel, channel = map_.strides
        _, rows, columns, channels = map_.shape
        found.append((map_.address, pixel, line, by_image, channel, channels, rows, columns))
    return found
