"""Attention as one step on a hierarchy (docs/hierarchy.md): elements come to a level one by one."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

from tests.oracles import Refused

Json = dict[str, Any]
Element = tuple[Any, ...]

OPERANDS = {"input", "weights", "output"}


def smallest(size: int) -> Iterator[int]:
    """Go through blocks that are the smallest for their number."""
    for number in range(1, size + 1):
        block = min(b for b in range(1, size + 1) if -(-size // b) <= number)
        if -(-size // block) == number:
            yield block


def levels(machine: Json) -> Iterator[int]:
    """Go through the memories at which scores can stay."""
    if machine.get("vector_ops_per_cycle") is None and machine.get("host") is not None:
        return
    for number, level in enumerate(machine["levels"]):
        outside_of_arrays = not any(each["fanout"] for each in machine["levels"][: number + 1])
        ends = number in (0, len(machine["levels"]) - 1)
        one_capacity = isinstance(level["capacity_bytes"], int)
        held = set(level["holds"]) | set(level["may_hold"])
        reached = machine.get("vector_ops_per_cycle") is None or number <= unit(machine)
        between = machine["levels"][1:number]
        passed = not any("weights" in (*each["holds"], *each["may_hold"]) for each in between)
        kept = held == OPERANDS or (held == OPERANDS - {"weights"} and passed)
        if outside_of_arrays and not ends and one_capacity and kept and reached:
            yield number


def passes(machine: Json, name: str) -> bool:
    """Whether keys and values pass a memory by."""
    (level,) = (each for each in machine["levels"] if each["name"] == name)
    return "weights" not in (*level["holds"], *level["may_hold"])


def unit(machine: Json) -> int:
    """Return the memory that the vector unit works on."""
    able = []
    for number, level in enumerate(machine["levels"]):
        if level["fanout"]:
            break
        if {"input", "output"} <= set(level["holds"]):
            able.append(number)
    named = [number for number in able if machine["levels"][number]["name"] == machine.get("vector_level")]
    return (named or able)[-1]


def space(table: Json) -> Iterator[Json]:
    """Go through all blocks, whether they fit or not."""
    attention, machine = table["attention"], table["machine"]
    for number in levels(machine):
        sizes = [list(smallest(attention[name])) for name in ("queries", "heads", "keys")]
        for queries, heads, keys in product(*sizes):
            for order, some in product(["online", "rows"], product([False, True], repeat=2)):
                if any(some) and passes(machine, machine["levels"][number]["name"]):
                    continue
                stay = [name for name, stays in zip(["keys", "values"], some, strict=True) if stays]
                blocks = {"queries": queries, "heads": heads, "keys": keys, "order": order, "stay": stay}
                yield {"level": machine["levels"][number]["name"], **blocks}


class Level:
    """The memory with the scores: what is there, and what the outermost memory reads and writes for it."""

    def __init__(self, table: Json, blocks: Json) -> None:
        self.attention, self.machine, self.blocks = table["attention"], table["machine"], blocks
        self.there: dict[str, set[Element]] = {}
        self.most: dict[str, int] = {}
        self.accesses = 0
        self.divided = False
        self.longest = 0

    def put(self, name: str, elements: set[Element], *, anew: bool, moved: bool = True) -> None:
        """Bring elements that are not there; others of the name go where they come anew."""
        before = set() if anew else self.there.get(name, set())
        if moved:
            self.accesses += len(elements - before)
        self.there[name] = before | elements
        self.most[name] = max(self.most.get(name, 0), len(self.there[name]))

    def bits(self) -> int:
        """Return the bits that are reserved: for a whole block of queries, whose rows are as long as any."""
        bits, rows = self.machine["bits"], self.blocks["heads"] * self.blocks["queries"]
        most = self.most | {"scores": rows * self.longest}
        if self.divided:
            most["block"] = rows * self.attention["values"]
            if self.blocks["order"] == "online":
                most["statistics"] = 2 * rows
        (level,) = (each for each in self.machine["levels"] if each["name"] == self.blocks["level"])
        copies = 2 if level["double_buffering"] else 1
        widths = {
            "queries": copies * bits["input"], "context": copies * bits["partial"],
            "keys": copies * bits["weights"], "values": copies * bits["weights"],
            "scores": max(bits["input"], bits["output"], bits["partial"]),
            "block": bits["partial"], "statistics": bits["partial"],
        }  # fmt: skip
        return sum(widths[name] * each for name, each in most.items())


def walk(table: Json, blocks: Json) -> Level:
    """Execute a step.

    Raises
    ------
    Refused
        Where it is not in the space, or does not fit.
    """
    if blocks not in list(space(table)):
        raise Refused
    return _walked(table, blocks)


def _walked(table: Json, blocks: Json) -> Level:
    attention, machine = table["attention"], table["machine"]
    level, order, stay = Level(table, blocks), blocks["order"], blocks["stay"]
    depth, values = range(attention["depth"]), range(attention["values"])
    passed = passes(machine, blocks["level"])
    for matrix in range(attention["matrices"]):
        # What stays does so for the queries of a matrix.
        level.there.pop("keys", None), level.there.pop("values", None)
        for head, query in product(
            range(0, attention["heads"], blocks["heads"]),
            range(0, attention["queries"], blocks["queries"]),
        ):
            heads = range(head, min(head + blocks["heads"], attention["heads"]))
            queries = range(query, min(query + blocks["queries"], attention["queries"]))
            rows = set(product(heads, queries))
            level.put("queries", {(matrix, *row, e) for row in rows for e in depth}, anew=True)
            level.put("context", {(matrix, *row, e) for row in rows for e in values}, anew=True, moved=False)
            seen = []
            for first in range(0, attention["keys"], blocks["keys"]):
                keys = range(first, min(first + blocks["keys"], attention["keys"]))
                causal = attention["causal"]
                if causal is None or any(key <= i + causal for key in keys for i in queries):
                    seen.append(keys)
            level.divided |= len(seen) > 1
            scores: set[Element] = set()
            for name in {"keys", "values"} - set(stay):
                level.there.pop(name, None)
            for keys in seen:
                scores = set() if order == "online" else scores
                scores |= {(*row, key) for row in rows for key in keys}
                level.longest = max(level.longest, len(scores) // len(rows))
                if not passed:
                    level.put("keys", {(matrix, k, e) for k in keys for e in depth}, anew="keys" not in stay)
            for keys in seen if not passed else ():
                level.put("values", {(matrix, k, e) for k in keys for e in values}, anew="values" not in stay)
            level.accesses += len(rows) * len(values)  # the context leaves
    if not level.divided and (order != "rows" or stay != ([] if passed else ["keys", "values"])):
        raise Refused
    (own,) = (each for each in machine["levels"] if each["name"] == blocks["level"])
    if level.bits() > 8 * own["capacity_bytes"] or not _row_fits(machine, blocks["level"], level.longest):
        raise Refused
    return level


def _row_fits(machine: Json, level: str, row: int) -> bool:
    """Whether a row of scores and its weights fit where the vector unit works, if that is further in."""
    if machine.get("vector_ops_per_cycle") is None:
        return True
    at = machine["levels"][unit(machine)]
    if at["name"] == level:
        return True
    copies, bits, room = 2 if at["double_buffering"] else 1, machine["bits"], at["capacity_bytes"]
    each = {name: copies * row * bits[name] for name in ("input", "output")}
    if isinstance(room, int):
        return sum(each.values()) <= 8 * room
    return all(needed <= 8 * room[name] for name, needed in each.items())


def best(table: Json) -> int | None:
    """Return the least that the outermost memory reads and writes in any step, None if none fits.

    Of memories that keys and values do not pass by, where products read nothing of the outermost one.
    """
    found = []
    for blocks in space(table):
        try:
            found.append(_walked(table, blocks).accesses)
        except Refused:
            continue
    return min(found, default=None)
