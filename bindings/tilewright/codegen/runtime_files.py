"""Sources of emitted projects that are the same for every network."""

from __future__ import annotations

from importlib import resources


def runtime_files(**folders: tuple[str, ...]) -> dict[str, bytes]:
    """Return sources by their paths in a project, of which some are shared.

    Parameters
    ----------
    folders
        Names of files of the runtime of each kind of project.
    """
    root = resources.files("tilewright.codegen")
    return {
        f"src/{name}": (root / folder / "runtime" / name).read_bytes()
        for folder, names in folders.items()
        for name in names
    }
