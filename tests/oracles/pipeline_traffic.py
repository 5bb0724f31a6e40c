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
    """Return what is counted of a layer and a frame; the first to read a map from outside brings it."""
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
    for outside in {read for read in layer.reads if read < 0}:
        if not any(outside in other.reads for other in pipeline.layers[: layer.number]):
            found["writes"] += pipeline.outside[outside]
            crossing.append(pipeline.outside[outside])
    if not pipeline.parallel:
        found["writes"] += layer.weights
        crossing.append(layer.weights)
    bits = pipeline.machine["word_bits"]
    found["bytes"] += sum(-(-each * bits // 8) for each in crossing)
    return found


def _beat(
    pipeline: Pipeline, layer: Layer, split: Split, pixels: list[tuple[int, int]], streams: bool = False
) -> Counter[str]:
    """Return what PEs work on in a beat, and which words come to which of them.

    Weights that are streamed come from outside.
    """
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
    held = (word for word in needed if not (streams and word[0] == "weight"))
    found["reads"] += len({word if word[0] == "weight" else word[1:] for word in held})
    return found


def _read_by(pipeline: Pipeline, layer: Layer, filter_: int, n: int) -> list[tuple[int, int, int]]:
    """Return the maps behind one of a filter's maps: place among the inputs, layer, channel of it."""
    plane = layer.shape[1] * layer.shape[2]
    sizes = [
        (slot, read, pipeline.outside[read] // plane if read < 0 else pipeline.layers[read].channels)
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


# What stays on chip ----------------------------------------------------------------------------------------


class Border:
    """A pipeline whose plans stream weights and spill maps; -1 is the network's input."""

    def __init__(self, pipeline: Pipeline) -> None:
        self.pipeline, self.layers = pipeline, pipeline.layers
        self.readers = {-1: [layer for layer in self.layers if -1 in layer.reads]}
        self.readers |= {layer.number: pipeline.readers[layer.number] for layer in self.layers}
        self.names = {-1: "input"} | {layer.number: layer.name for layer in self.layers}

    def channels(self, number: int) -> int:
        """Return the channels of a map."""
        return int(self.layers[0].shape[0]) if number < 0 else self.layers[number].channels

    def pixels(self, number: int) -> int:
        """Return the pixels of a map."""
        first = self.layers[0].shape
        return (
            int(first[1] * first[2]) if number < 0 else self.layers[number].rows * self.layers[number].columns
        )

    def bytes(self, words: int) -> int:
        """Return whole bytes."""
        return -(-words * self.pipeline.machine["word_bits"] // 8)

    def cycles(self, moved: int) -> int:
        """Return how long bytes take to cross the border."""
        rate = self.pipeline.machine["off_chip"]["mb_per_s"]
        return -(-moved * self.pipeline.machine["clock_mhz"] // rate)

    def read_in(self, number: int, readers: list[Layer]) -> dict[tuple[int, int], list[tuple[int, int]]]:
        """Return of each pixel that some readers need, which of them reads it in which beat."""
        found: dict[tuple[int, int], list[tuple[int, int]]] = {}
        for reader in readers:
            for pixel, beat in self.pipeline.order(reader.number, 1).items():
                for under in reader.under(pixel):
                    found.setdefault(under, []).append((reader.number, beat))
        return found

    def counted(
        self, splits: tuple[Split, ...], moved: int, streamed: set[str], spilled: set[str]
    ) -> Counter[str]:
        """Return what is counted of a frame, of which so many bytes cross the border."""
        parallel, found = self.pipeline.parallel, Counter({"bytes": moved})
        for layer, split in zip(self.layers, splits, strict=True):
            for pixel in layer.pixels():
                streams = parallel and layer.name in streamed
                found.update(_beat(self.pipeline, layer, split, [pixel], streams))
            if not parallel and layer.name in streamed:
                found["writes"] += layer.weights
        for number, name in self.names.items():
            readers, pixels = self.readers[number], self.pixels(number)
            if number >= 0 and (readers or not parallel):
                found["writes"] += self.channels(number) * pixels
                leaves = number in self.pipeline.leaving or name in spilled
                found["reads"] += self.channels(number) * pixels * leaves
            if name in spilled or (number < 0 and parallel):
                for some in [readers] if parallel else [[reader] for reader in readers]:
                    found["writes"] += self.channels(number) * len(self.read_in(number, some))
            elif number < 0:
                found["writes"] += self.channels(number) * pixels
        return found

    def measured(self, loads: list[int], streamed: set[str], spilled: set[str]) -> tuple[int, int, int]:
        """Return the interval, the bytes of a frame, and the words on chip."""
        return (self._parallel if self.pipeline.parallel else self._in_turn)(loads, streamed, spilled)

    def _parallel(self, loads: list[int], streamed: set[str], spilled: set[str]) -> tuple[int, int, int]:
        moved, words = 0, 0
        uses = {number: self.read_in(number, self.readers[number]) for number in self.readers}
        for number, name in self.names.items():
            if number < 0 or name in spilled:
                moved += self.bytes(self.channels(number) * len(uses[number]))
            if number in self.pipeline.leaving or name in spilled:
                moved += self.bytes(self.channels(number) * self.pixels(number))
        for layer in self.layers:
            if layer.name in streamed:
                moved += sum(self.bytes(layer.weights) for _ in layer.pixels())
            else:
                words += layer.weights
        interval = max(*loads, self.cycles(moved))
        pace = [interval // (layer.rows * layer.columns) for layer in self.layers]
        start: list[int] = []
        for layer in self.layers:
            begin = 0
            for read in set(layer.reads) - {-1}:
                theirs = self.pipeline.order(read, 1)
                for pixel, beat in self.pipeline.order(layer.number, 1).items():
                    for under in layer.under(pixel):
                        ready = start[read] + (theirs[under] + 1) * pace[read]
                        begin = max(begin, ready - beat * pace[layer.number])
                begin = max(begin, start[read])
            start.append(begin)
        for number, name in self.names.items():
            if number >= 0 and not self.readers[number]:
                continue
            lives: list[tuple[int, int]] = []
            made = {} if number < 0 else self.pipeline.order(number, 1)
            for pixel in made or uses[number]:
                needed = [
                    (start[who] + beat * pace[who], start[who] + (beat + 1) * pace[who])
                    for who, beat in uses[number].get(pixel, [])
                ]
                if made:
                    born = start[number] + made[pixel] * pace[number]
                    lives.append((born, born + pace[number]))
                if needed:
                    span = min(a for a, _ in needed), max(b for _, b in needed)
                    if made and name not in spilled:
                        lives[-1] = lives[-1][0], max(lives[-1][1], span[1])
                    else:
                        lives.append(span)
            words += self.channels(number) * self._most(lives, interval)
        return interval, moved, words

    def _most(self, lives: list[tuple[int, int]], interval: int) -> int:
        """Return the most that live at a time while frames follow each other, looked at one by one."""
        if not lives:
            return 0
        frames = max(b for _, b in lives) // interval + 2
        all_lives = [(a + f * interval, b + f * interval) for f in range(2 * frames) for a, b in lives]
        moments = {a for a, _ in all_lives if frames * interval <= a < (frames + 1) * interval}
        return max(sum(a <= moment < b for a, b in all_lives) for moment in moments)

    def _in_turn(self, loads: list[int], streamed: set[str], spilled: set[str]) -> tuple[int, int, int]:
        total = all_moved = most = 0
        given = self.channels(-1) * self.pixels(-1)
        for layer in self.layers:
            moved = 0
            words = sum(one.weights for one in self.layers if one.name not in streamed or one is layer)
            if layer.name in streamed:
                moved += self.bytes(layer.weights)
            if layer.number in self.pipeline.leaving or layer.name in spilled:
                moved += self.bytes(layer.channels * self.pixels(layer.number))
            for number in range(-1, layer.number + 1):
                name, readers = self.names[number], self.readers[number]
                reads = any(reader is layer for reader in readers)
                if name not in spilled:
                    last = max([number, *(reader.number for reader in readers)])
                    words += self.channels(number) * self.pixels(number) if last >= layer.number else 0
                    if number < 0 and reads and readers[0] is layer:
                        moved += self.bytes(given)
                    continue
                if number == layer.number:
                    words += layer.channels
                if reads:
                    uses = self.read_in(number, [layer])
                    spans = [(min(b for _, b in each), max(b for _, b in each) + 1) for each in uses.values()]
                    held = [sum(a <= beat < b for a, b in spans) for beat in range(self.pixels(layer.number))]
                    words += self.channels(number) * max(held)
                    moved += self.bytes(self.channels(number) * len(uses))
            total += max(loads[layer.number], self.cycles(moved))
            all_moved += moved
            most = max(most, words)
        return total, all_moved, most
