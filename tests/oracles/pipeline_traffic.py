"""What a frame of a pipeline moves, PE by PE and word by word, and its energy (docs/allocation.md)."""

from __future__ import annotations

from collections import Counter
from typing import Any

from tests.oracles.allocation import Layer, Pipeline, Split

Json = dict[str, Any]


def counted(pipeline: Pipeline, splits: tuple[Split, ...]) -> Counter[str]:
    """Return what is counted of a frame: operations, accesses, hops, words and bytes."""
    found: Counter[str] = Counter()
    for layer, split in zip(pipeline.layers, splits, strict=True):
        found.update(of_layer(pipeline, layer, split))
    return found


def of_layer(pipeline: Pipeline, layer: Layer, split: Split) -> Counter[str]:
    """Return what is counted of a layer and a frame; the first layer brings the network's input."""
    found: Counter[str] = Counter()
    beats: dict[int, list[tuple[int, int]]] = {}
    for pixel, beat in pipeline.order(layer.number, split.rows).items():
        beats.setdefault(beat, []).append(pixel)
    for pixels in beats.values():
        found.update(_beat(pipeline, layer, split, pixels))
    words = layer.channels * layer.rows * layer.columns
    kept = bool(pipeline.readers[layer.number]) or not pipeline.parallel
    leaves = layer.number in pipeline.leaving
    found["writes"] += words * kept
    found["reads"] += words * (kept and leaves)
    crossing = [words * leaves]
    if not layer.number:
        given = layer.shape[0] * layer.shape[1] * layer.shape[2]
        found["writes"] += given
        crossing.append(given)
    if not pipeline.parallel:
        found["writes"] += layer.weights
        crossing.append(layer.weights)
    bits = pipeline.machine["word_bits"]
    found["bytes"] += sum(-(-each * bits // 8) for each in crossing)
    return found


def _beat(pipeline: Pipeline, layer: Layer, split: Split, pixels: list[tuple[int, int]]) -> Counter[str]:
    """Return what PEs work on in a beat, and which words come to which of them."""
    found: Counter[str] = Counter()
    block, share = -(-layer.filters // split.filters), -(-layer.maps // split.maps)
    # PEs by the block of filters, the share of maps, and the row, that need a word.
    needed: dict[tuple[Any, ...], set[tuple[int, int, int]]] = {}
    for pixel in pixels:
        for filter_ in range(layer.filters):
            summing = set()
            for n in range(layer.maps):
                pe = (filter_ // block, n // share, pixel[0])
                summing.add(pe)
                for slot, name, channel in _read_by(pipeline, layer, filter_, n):
                    for under in layer.under(pixel):
                        needed.setdefault((slot, name, channel, under), set()).add(pe)
                if layer.weights:
                    for tap in range(layer.window):
                        needed.setdefault(("weight", filter_, n, tap), set()).add(pe)
                found["macs"] += layer.window
                found["registers"] += (3 + (layer.weights > 0)) * layer.window
            if layer.weights:  # of other layers each map is an output
                found["hops"] += len(summing) - 1
                found["registers"] += 3 * (len(summing) - 1)
        found["hops"] += layer.channels
    found["hops"] += sum(len(pes) for pes in needed.values())
    # A map that two slots of a layer read is one word in the buffers.
    found["reads"] += len({word if word[0] == "weight" else word[1:] for word in needed})
    return found


def _read_by(pipeline: Pipeline, layer: Layer, filter_: int, n: int) -> list[tuple[int, int, int]]:
    """Return the maps behind one of a filter's maps: place among the inputs, layer, channel of it."""
    given = pipeline.layers[0].shape[0]
    sizes = [
        (slot, read, given if read < 0 else pipeline.layers[read].channels)
        for slot, read in enumerate(layer.reads)
    ]
    if layer.kind == "add":
        return [(slot, read, n) for slot, read, _ in sizes]
    channel = n
    if layer.kind == "conv":
        groups = sum(size for *_, size in sizes) // layer.maps
        channel += layer.maps * (filter_ // (layer.filters // groups))
    for slot, read, size in sizes:
        if channel < size:
            return [(slot, read, channel)]
        channel -= size
    raise AssertionError


def energy(pipeline: Pipeline, counts: Counter[str], interval: int, used: int) -> int:
    """Return the energy of a frame with these counts."""
    prices = pipeline.machine["energy"]
    names = {
        "macs": "mac_fj",
        "registers": "register_fj",
        "hops": "hop_fj",
        "reads": "buffer_read_fj",
        "writes": "buffer_write_fj",
        "bytes": "off_chip_fj_per_byte",
    }
    total = sum(counts[what] * prices[name] for what, name in names.items())
    busy, idle = prices["pe_fj_per_cycle"] or 0, prices["idle_pe_fj_per_cycle"] or 0
    return int(total + interval * (used * busy + (pipeline.pes - used) * idle))
