"""Heads of attention as networks: queries, keys and values are inputs."""

from __future__ import annotations

from typing import Any

from tests.oracles.attention_pebbles import Head

Json = dict[str, Any]


def given(head: Head, heads: int = 1, shared: int = 1, *, causal: bool = False) -> Json:
    """Return heads whose queries, keys and values are inputs; so many of them share keys and values.

    With a `causal` mask the last query sees all keys, and each other one a key less than the one behind it.
    """
    sizes = {"q": (heads, head.depth, head.queries)}
    sizes |= {"k": (heads // shared, head.depth, head.keys), "v": (heads // shared, head.values, head.keys)}
    layers: list[Json] = [
        {"name": name, "kind": "input", "input": [count * deep, 1, rows]}
        for name, (count, deep, rows) in sizes.items()
    ]
    names = dict(zip(sizes, sizes, strict=True))
    for name, (count, deep, rows) in [*sizes.items()][1:]:
        apart, names[name] = [count, deep, rows], f"{name} by heads"
        by_heads = {"name": names[name], "kind": "reshape", "op": "reshape", "inputs": [name]}
        layers.append(by_heads | {"input": [count * deep, 1, rows], "output": apart})
        if shared > 1:
            copies = {"name": f"{name} of all", "kind": "function", "op": "expand", "inputs": [names[name]]}
            layers.append(copies | {"input": apart, "output": [heads, deep, rows]})
            names[name] = f"{name} of all"
    queries, scores = [heads * head.depth, 1, head.queries], [heads, head.keys, head.queries]
    softmax = {"name": "p", "kind": "function", "op": "softmax", "along": ["rows"]}
    softmax["inputs"] = ["m" if causal else "s"]
    numbers = {"op": "add", "shape": [1, *scores[1:]], "causal": head.keys - head.queries}
    mask = {"name": "m", "kind": "map", "op": "fused", "inputs": ["s"], "input": scores, "numbers": numbers}
    mask["parameters"] = head.keys * head.queries
    layers += [
        {"name": "s", "kind": "matmul", "inputs": ["q", names["k"]], "input": queries}
        | {"output": scores, "groups": heads, "depth": head.depth, "transposed": False},
        *([mask] if causal else []),
        softmax | {"input": scores, "output": scores},
        {"name": "c", "kind": "matmul", "inputs": ["p", names["v"]], "input": scores}
        | {"output": [heads, head.values, head.queries], "groups": heads, "depth": head.keys}
        | {"transposed": True},
        {"name": "o", "kind": "reshape", "op": "reshape", "inputs": ["c"]}
        | {"input": [heads, head.values, head.queries], "output": [heads * head.values, 1, head.queries]},
    ]
    return {"layers": layers, "input": [1, 1, 1]}
