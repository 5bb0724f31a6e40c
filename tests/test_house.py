"""The structure of the package: imports go one way, in no circle, and into functions only for start-up time.

The layers stand in ``pyproject.toml``, for import-linter. It cannot see the files of ``models/`` and
``heuristics/``, which a clone has beside the package, so that all is checked here, too, by reading the files.
"""

from __future__ import annotations

import ast
import graphlib
import os
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

ROOT = next(folder for folder in Path(__file__).parents if (folder / "pyproject.toml").is_file())

FOLDERS = {
    "bindings/tilewright": "tilewright",
    "models": "tilewright.models",
    "heuristics": "tilewright.heuristics",
}
"""Folders of Python files, and the packages that they are."""

HEAVY = frozenset(
    {
        "PIL",
        "distributed",
        "highspy",
        "matplotlib",
        "minizinc",
        "networkx",
        "numba",
        "onnx",
        "ortools",
        "pandas",
        "pyomo",
        "rich",
    }
)
"""Modules that take long to import, and may be imported where they are first needed."""

LAZY = ("tilewright", "tilewright.api", "tilewright.cli")
"""Modules that import what they need when they need it, so that ``tilewright --help`` is quick."""

REASON = "start-up time"
"""What a comment on or above the import of another module inside a function must give as its reason."""


@dataclass(frozen=True)
class Import:
    """An import statement's one name: who imports what, where."""

    importer: str
    imported: str
    line: int
    in_function: bool
    explained: bool

    def __str__(self) -> str:
        return f"{self.importer}:{self.line} imports {self.imported}"


def modules() -> dict[str, Path]:
    """Return all modules of the package, by their names in it."""
    return {
        ".".join([package, *path.relative_to(ROOT / folder).with_suffix("").parts]).removesuffix(
            ".__init__"
        ): path
        for folder, package in FOLDERS.items()
        for path in sorted((ROOT / folder).rglob("*.py"))
    }


def imports(name: str, path: Path, known: dict[str, Path]) -> Iterator[Import]:
    """Yield each import of a file: at its top, inside functions, and for type checkers alone."""
    text = path.read_text("utf-8")
    lines = ["", *text.splitlines()]

    def visit(node: ast.AST, in_function: bool) -> Iterator[Import]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Import | ast.ImportFrom):
                explained = any(
                    REASON in line.partition("#")[2]
                    for line in lines[max(1, child.lineno - 1) : (child.end_lineno or child.lineno) + 1]
                )
                for imported in targets(child):
                    yield Import(name, imported, child.lineno, in_function, explained)
            elif not isinstance(child, ast.expr):  # an expression has none
                inside = in_function or isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef)
                yield from visit(child, inside)

    def targets(node: ast.Import | ast.ImportFrom) -> Iterator[str]:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
            return
        source = node.module or ""
        if node.level:
            parts = name.split(".")
            package = parts[: len(parts) - node.level + (path.name == "__init__.py")]
            source = ".".join([*package, *filter(None, [node.module])])
        for alias in node.names:
            yield full if (full := f"{source}.{alias.name}") in known else source

    yield from visit(ast.parse(text), False)


@cache
def all_imports() -> tuple[Import, ...]:
    known = modules()
    return tuple(one for name, path in known.items() for one in imports(name, path, known))


def layers() -> list[list[list[str]]]:
    """Return the layers of ``pyproject.toml``, lowest first, each in groups that do not import each other."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]
    [contract] = settings["contracts"]
    return [
        [[module.strip() for module in group.split(":")] for group in layer.split("|")]
        for layer in reversed(contract["layers"])
    ]


def ranks() -> dict[str, tuple[int, int]]:
    """Return the layer and the group of every module that stands directly in the package."""
    return {
        module: (height, number)
        for height, layer in enumerate(layers())
        for number, group in enumerate(layer)
        for module in group
    }


def against_the_layers(arrows: Iterable[Import]) -> list[str]:
    """Return the imports that go up, or across, or to the package itself, which loads the highest layers."""
    rank = ranks()
    wrong = []
    for arrow in arrows:
        importer, imported = (name.split(".") for name in (arrow.importer, arrow.imported))
        if imported[0] != "tilewright" or importer == ["tilewright"] or importer[:2] == imported[:2]:
            continue
        if len(imported) == 1:
            wrong.append(str(arrow))
            continue
        (height, group), (other_height, other_group) = rank[importer[1]], rank[imported[1]]
        if height < other_height or (height == other_height and group != other_group):
            wrong.append(str(arrow))
    return wrong


def circle(arrows: Iterable[Import], known: dict[str, Path]) -> list[str]:
    """Return the modules of one circle of imports, or nothing."""
    graph: dict[str, set[str]] = {name: set() for name in known}
    for arrow in arrows:
        if arrow.imported in known and arrow.imported != arrow.importer:
            graph[arrow.importer].add(arrow.imported)
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        modules_of_it: list[str] = error.args[1]
        return modules_of_it
    return []


def is_lazy(name: str) -> bool:
    return name in LAZY or name.startswith("tilewright.cli.")


# The files -------------------------------------------------------------------------------------------------


def test_every_file_is_seen():
    known = modules()
    assert {"tilewright", "tilewright.spec.layer", "tilewright.models.grouping.s1"} <= known.keys()
    assert {name.split(".")[1] for name in known if "." in name} == ranks().keys()
    arrows = {(arrow.importer, arrow.imported) for arrow in all_imports()}
    assert (
        "tilewright.models.grouping.s1",
        "tilewright.models.grouping._shared",
    ) in arrows  # a relative import
    assert ("tilewright", "tilewright.api") in arrows  # of type checkers and inside a function


def test_imports_go_one_way():
    assert not (wrong := against_the_layers(all_imports())), "\n".join(wrong)


def test_no_circle():
    assert not (wrong := circle(all_imports(), modules())), "\n".join(wrong)


def test_imports_inside_functions_are_for_start_up_time():
    wrong = {
        str(arrow)
        for arrow in all_imports()
        if arrow.in_function
        and not arrow.explained
        and not is_lazy(arrow.importer)
        and arrow.imported.partition(".")[0] not in HEAVY
    }
    assert not wrong, "\n".join(sorted(wrong))


# What the tests above find ---------------------------------------------------------------------------------


def add(path: Path, line: str) -> None:
    path.write_text(path.read_text("utf-8") + f"\n\n{line}\n", "utf-8")


def all_imports_with(folder: Path, file: str, line: str) -> list[Import]:
    """Return all imports as they are when a line is added to a file, a copy of which is put into a folder."""
    known = modules()
    [name] = [name for name, path in known.items() if path == ROOT / file]
    copy = folder / Path(file).name
    shutil.copy(ROOT / file, copy)
    add(copy, line)
    others = [arrow for arrow in all_imports() if arrow.importer != name]
    return others + list(imports(name, copy, known))


@pytest.mark.by_day(8)
@pytest.mark.parametrize(
    ("file", "line"),
    [
        ("bindings/tilewright/spec/layer.py", "from tilewright.run.solve import solve"),
        ("bindings/tilewright/spec/layer.py", "def late():\n    from tilewright.run import solve"),
        ("bindings/tilewright/spec/layer.py", "if TYPE_CHECKING:\n    import tilewright.core.context"),
        ("bindings/tilewright/tiling/plan.py", "import tilewright.grouping.plan"),
        ("bindings/tilewright/core/room.py", "from ..run import solve"),
        ("bindings/tilewright/core/room.py", "from tilewright import solve"),
        ("bindings/tilewright/run/solve.py", "from tilewright.importing import files"),
        ("bindings/tilewright/drivers/highs.py", "import tilewright.search"),
        ("heuristics/grouping/zigzag.py", "from tilewright.models.grouping import s1"),
        ("models/grouping/s1.py", "import tilewright.drivers"),
    ],
)
def test_an_arrow_against_the_layers_is_found(tmp_path, file, line):
    before = against_the_layers(all_imports())
    assert len(against_the_layers(all_imports_with(tmp_path, file, line))) == len(before) + 1


@pytest.mark.parametrize("inside", ["if TYPE_CHECKING:", "def late():", "class Late:", "try:"])
def test_a_circle_is_found(tmp_path, inside):
    line = f"{inside}\n    import tilewright.spec.network\n" + "finally:\n    pass\n" * (inside == "try:")
    arrows = all_imports_with(tmp_path, "bindings/tilewright/spec/errors.py", line)
    spec = [arrow for arrow in arrows if arrow.importer.startswith("tilewright.spec")]
    assert {"tilewright.spec.errors", "tilewright.spec.network"} <= set(circle(spec, modules()))


# import-linter ---------------------------------------------------------------------------------------------


def lint_imports(folder: Path) -> subprocess.CompletedProcess[str]:
    """Run import-linter on the package that lies in a folder."""
    command = Path(sysconfig.get_path("scripts")) / "lint-imports"
    done = subprocess.run(
        [sys.executable, str(command), "--no-cache", "--no-logo", str(ROOT / "pyproject.toml")],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """Return a folder with the package as it is installed: formulations and heuristics are part of it."""
    for folder, name in FOLDERS.items():
        shutil.copytree(
            ROOT / folder,
            tmp_path / name.replace(".", "/"),
            ignore=shutil.ignore_patterns("__pycache__"),
            dirs_exist_ok=True,
        )
    for folder in (tmp_path / "tilewright").glob("*/*/"):
        if folder.parent.name in ("models", "heuristics"):
            (folder / "__init__.py").touch()
    return tmp_path


def test_import_linter_passes(package):
    done = lint_imports(package)
    assert done.returncode == 0, done.stdout


def test_import_linter_finds_arrows_against_the_layers(package):
    late = "def late():\n    import tilewright.models.grouping.s1"
    for file, line in (
        ("spec/layer.py", "from tilewright.run.solve import solve"),
        ("spec/network.py", "from tilewright import solve"),
        ("tiling/plan.py", "from tilewright.fusion import plan"),
        ("heuristics/grouping/zigzag.py", late),
    ):
        add(package / "tilewright" / file, line)
    done = lint_imports(package)
    assert done.returncode == 1
    for arrow in (
        "spec.layer -> tilewright.run.solve",
        "spec.network -> tilewright (",
        "tiling.plan -> tilewright.fusion.plan",
        "heuristics.grouping.zigzag -> tilewright.models.grouping.s1",
    ):
        assert f"tilewright.{arrow}" in done.stdout, arrow


# Judges --------------------------------------------------------------------------------------------------


def imported(path: Path) -> set[str]:
    """Return the names of the modules that a file imports."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            found.add(node.module or "")
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return found


@pytest.mark.by_day(3)
@pytest.mark.parametrize("folder", ["tests/oracles", "tests/fuzz/oracles"])
def test_oracles_share_nothing_with_what_they_judge(folder):
    for path in sorted((ROOT / folder).glob("*.py")):
        for name in imported(path):
            outside = name.split(".")[0] not in {*sys.stdlib_module_names, "numpy"}
            assert not outside or name.startswith(("tests.oracles", "tests.fuzz.oracles")), (path.name, name)
