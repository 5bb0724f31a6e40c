"""The files of a C project: what projects of all rooms have in common."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from importlib import resources

from tilewright.codegen.c_text import block_comment, origin_lines, safe_text
from tilewright.core.version import __version__
from tilewright.spec.graph import Operation
from tilewright.spec.layer import Window
from tilewright.spec.network import NamedLayer

Files = dict[str, bytes]
"""What a project is made of, by paths."""

RUNTIME = resources.files("tilewright.codegen")


def project_files(
    runtime: Mapping[str, Sequence[str]],
    texts: Mapping[str, str],
    readme: Mapping[str, object],
    data: Mapping[str, bytes],
) -> Files:
    """Return all files of a project.

    Parameters
    ----------
    runtime
        Names of the sources that are the same for every network, by the kind of project whose folder has
        them; the README is of the first one, and so is the Makefile, unless it has none.
    texts
        Sources that are written for this network, by their names.
    readme
        What the README says of it.
    data
        Weights, inputs and outputs, by their names.
    """
    kind = next(iter(runtime))
    found = {
        f"src/{name}": (RUNTIME / folder / "runtime" / name).read_bytes()
        for folder, names in runtime.items()
        for name in names
    }
    own = (RUNTIME / kind / "runtime" / "Makefile").is_file()
    found["Makefile"] = (RUNTIME / (kind if own else "stream") / "runtime" / "Makefile").read_bytes()
    text = (RUNTIME / kind / "runtime" / "README.md").read_text(encoding="utf-8")
    found["README.md"] = text.format(version=__version__, **readme).encode("ascii")
    found |= {f"src/{name}": each.encode("ascii") for name, each in texts.items()}
    found |= {f"data/{name}": each for name, each in data.items()}
    return dict(sorted(found.items()))


def join_sources(*paths: tuple[str, str]) -> str:
    """Return one source that is made of pieces of the runtime, each given by the kind of project and name."""
    return "".join((RUNTIME / kind / "runtime" / name).read_text(encoding="ascii") for kind, name in paths)


def title_of(name: str) -> str:
    """Return what a network is called in a text."""
    return safe_text(name) or "A network"


def file_head(name: str, source: str, *told: str) -> list[str]:
    """Return what the file of a network tells at its head."""
    return [f"{title_of(name)}, written by tilewright {__version__}.", *origin_lines(source), *told]


def comment(lines: Sequence[str]) -> str:
    """Return lines of text as a comment."""
    return "\n".join(block_comment(lines))


def header_file(name: str, told: Sequence[str], lines: Sequence[str]) -> str:
    """Return a header file, which is included once."""
    guard = f"{name.upper()}_H"
    return "\n".join([comment(told), f"#ifndef {guard}", f"#define {guard}", "", *lines, "", "#endif", ""])


def machine_header(told: Sequence[str], lines: Sequence[str], on_chip: str) -> str:
    """Return `machine.h`.

    Parameters
    ----------
    on_chip
        The macro that says in which section the memory on chip is, with what it stands for.
    """
    memory = ["", "/* Where the memory on chip is. */", "#ifndef ON_CHIP", f"#define {on_chip}", "#endif"]
    return header_file("machine", told, ["#include <stdint.h>", "", *lines, *memory])


def window_fields(op: Operation) -> tuple[tuple[tuple[int, int], ...], int, int]:
    """Return the window of an operation (kernel, stride, padding, dilation), its groups, and its biases."""
    spec = op.spec
    window = ((1, 1), (1, 1), (0, 0), (1, 1))
    if isinstance(spec, Window):
        window = (spec.kernel, spec.stride, (spec.padding[0], spec.padding[2]), spec.dilation)
    groups = spec.groups if isinstance(spec, NamedLayer) else 1
    return window, groups, int(isinstance(spec, NamedLayer) and spec.bias)


def array_literal(values: Iterable[object]) -> str:
    """Return values as C writes arrays."""
    return "{" + ", ".join(map(str, values)) + "}"
