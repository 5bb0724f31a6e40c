"""Every command in README and docs runs; every example of a file works where the page says to put it."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tilewright.run.instance import parse

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
COMMAND = re.compile(r"^ {4}\$ (tilewright.+)$", re.MULTILINE)
BLOCK = re.compile(r"```(\w+)\n(.*?)```", re.DOTALL)
PLACE = re.compile(r"[#%] (\S+/\S+\.(?:py|mzn))(, in DRIVERS)?\n")


def sources_with_examples(text: str, folder: Path) -> Path:
    """Return the sources; if the page has example files, a copy with these where their first lines say."""
    examples = [(block, place) for _, block in BLOCK.findall(text) if (place := PLACE.match(block))]
    if not examples:
        return ROOT
    for name in ("bindings", "models", "heuristics", "instances"):
        # With the times of the files and what is compiled of them, so that nothing is compiled again.
        shutil.copytree(ROOT / name, folder / name)
    for block, place in examples:
        path = folder / place[1]
        if place[2]:
            entry = block[place.end() :]
            path.write_text(path.read_text().replace("DRIVERS = [\n", f"DRIVERS = [\n{entry}"))
        else:
            assert not path.exists(), f"{path} exists already"
            path.write_text(block)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_run(page: Path, tmp_path: Path) -> None:
    text = page.read_text(encoding="utf-8")
    sources = sources_with_examples(text, tmp_path / "copy")
    (tmp_path / "work").mkdir()
    for line in COMMAND.findall(text):
        done = subprocess.run(
            [sys.executable, "-m", *shlex.split(line, comments=True)],
            cwd=tmp_path / "work",
            capture_output=True,
            text=True,
            timeout=600,
            env={**os.environ, "PYTHONPATH": str(sources / "bindings")},
        )
        assert done.returncode == 0, f"{page.name}: {line}\n{done.stdout}{done.stderr}"
        assert " WRONG " not in done.stdout
        assert "Traceback" not in done.stderr


def test_python_of_the_readme_runs(tmp_path: Path) -> None:
    blocks = [block for kind, block in BLOCK.findall((ROOT / "README.md").read_text()) if kind == "python"]
    assert blocks
    for block in blocks:
        subprocess.run([sys.executable, "-c", block], cwd=tmp_path, check=True, timeout=600)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name}: {target}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_toml_blocks_are_instances(page: Path) -> None:
    for kind, block in BLOCK.findall(page.read_text(encoding="utf-8")):
        if kind == "toml" and "room" in tomllib.loads(block):
            parse(tomllib.loads(block))
