"""Every command in README and docs runs; every example of a file works where the page says to put it."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import nightly
from tests import command

from tilewright.run.instance import NETWORK_SUFFIXES, parse

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "CHANGELOG.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]
COMMAND = re.compile(r"^ {4}\$ (tilewright.+)$", re.MULTILINE)
CONTINUED = re.compile(r" *\\\n *")  # a backslash at the end of a line of a command
BLOCK = re.compile(r"```(\w+)\n(.*?)```", re.DOTALL)
FILE = re.compile(r"# (\w+\.toml)\n")  # the first line of an instance that commands of the page read
TARGET = re.compile(r"[#%] (\S+/\S+\.(?:py|mzn))\n")
LINK = re.compile(r"\]\(([^)#]*)(?:#([^)]*))?\)")
GROUPS = ["Tutorials", "How-to", "Reference", "Explanation"]
"""The kinds of pages, in the index and in the site's navigation."""

COLUMNS = 110
"""The most columns of a line of prose."""

each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


@pytest.fixture
def examples(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Put the example files of a page where their first lines say, for commands to find."""
    folder = tmp_path / "examples"
    for _, block in BLOCK.findall(page.read_text(encoding="utf-8")):
        if target := TARGET.match(block):
            path = folder / target[1]
            assert not (ROOT / target[1]).exists(), f"{target[1]} exists already"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block)
            monkeypatch.setenv("TILEWRIGHT_PATH", str(folder))
    yield
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", "")).startswith(str(folder)):
            del sys.modules[name]  # other tests have other files of that name


@pytest.mark.usefixtures("examples")
@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=[nightly] * (page.name != "README.md")) for page in PAGES],
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_commands_run(page: Path, tmp_path: Path) -> None:
    text = page.read_text(encoding="utf-8")
    work = tmp_path / "work"
    work.mkdir()
    for suffix in NETWORK_SUFFIXES:
        for file in (ROOT / "docs" / "files").glob(f"*{suffix}"):  # which pages offer
            shutil.copy(file, work)
    for _, block in BLOCK.findall(text):
        if named := FILE.match(block):
            (work / named[1]).write_text(block)
    for line in COMMAND.findall(CONTINUED.sub(" ", text)):
        _program, *arguments = shlex.split(line, comments=True)
        done = command.run(work, *arguments)
        assert done.returncode == 0, f"{page.name}: {line}\n{done.stdout}{done.stderr}"
        assert " WRONG " not in done.stdout
        assert "Traceback" not in done.stderr


@pytest.mark.nightly
@pytest.mark.parametrize("page", ["README.md", "docs/api.md"])
def test_python_blocks_run(page: str, tmp_path: Path) -> None:
    blocks = [block for kind, block in BLOCK.findall((ROOT / page).read_text()) if kind == "python"]
    assert blocks
    for block in blocks:
        subprocess.run([sys.executable, "-c", block], cwd=tmp_path, check=True, timeout=600)


def anchors(page: Path) -> set[str]:
    """Return the anchors that a code host gives to the headings of a page."""
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@each_page
def test_links_lead_somewhere(page: Path) -> None:
    for target, anchor in LINK.findall(page.read_text(encoding="utf-8")):
        if "://" in target:
            continue
        path = page.parent / target if target else page
        assert path.exists(), f"{page.name}: {target}"
        assert path.resolve().is_relative_to(ROOT), f"{page.name}: {target} leaves the repository"
        if anchor:
            assert anchor in anchors(path), f"{page.name}: {target}#{anchor}"


def prose(page: Path) -> Iterator[tuple[int, str]]:
    """Yield the lines of a page outside of code and tables, with their numbers."""
    fenced = False
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif not fenced and not line.startswith(("|", " " * 4)):
            yield number, line


@pytest.mark.parametrize("page", sorted((ROOT / "docs").rglob("*.md")), ids=lambda page: page.name)
def test_prose_is_narrow(page: Path) -> None:
    wide = [f"{page.name}:{number}: {len(line)}" for number, line in prose(page) if len(line) > COLUMNS]
    assert not wide, f"lines of more than {COLUMNS} columns: {wide}"


def test_the_index_and_the_site_have_every_page() -> None:
    folder = ROOT / "docs"
    pages = {str(page.relative_to(folder)) for page in folder.rglob("*.md")} - {"index.md"}
    index = (folder / "index.md").read_text(encoding="utf-8")
    assert pages <= {target for target, _ in LINK.findall(index)}
    assert re.findall(r"^## (.+)$", index, re.MULTILINE) == GROUPS
    site = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    assert pages <= set(re.findall(r": (\S+\.md)$", site, re.MULTILINE))
    assert re.findall(r"^  - ([\w-]+):$", site.split("\nnav:\n")[1].split("\n\n")[0], re.MULTILINE) == GROUPS


def test_the_readme_is_short() -> None:
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 110
    assert max(map(len, lines)) <= COLUMNS


@pytest.mark.parametrize("words", [r"venv\/bin\/tilewright solve", r"venv\/bin\/pytest"])
def test_ci_runs_the_commands_of_the_readme(words: str) -> None:
    """`.ci/run` finds both commands, each as one line that says what a shell reads in the README."""
    function = re.search(r"^readme_command\(\) \{\n.*?^\}\n", (ROOT / ".ci/run").read_text(), re.M | re.S)
    assert function
    found = subprocess.run(
        ["bash", "-c", f"set -euo pipefail\n{function[0]}readme_command '{words}'"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    (block,) = [
        block
        for block in re.findall(r"(?:^ {4}.*\n)+", (ROOT / "README.md").read_text(), re.MULTILINE)
        if words.replace("\\", "") in block
    ]
    assert found.count("\n") == 1
    assert shlex.split(found) == shlex.split(block.replace("\\\n", ""))  # a shell joins lines like this


@pytest.mark.parametrize("page", sorted((ROOT / "docs").rglob("*.md")), ids=lambda page: page.name)
def test_a_page_begins_with_its_question_and_a_command(page: Path) -> None:
    _title, first, rest = page.read_text(encoding="utf-8").split("\n\n", 2)
    assert "?" in first, "a page begins with the question that it answers"
    begin = rest.splitlines()[:4]
    assert any(line.startswith((" " * 4, "```")) for line in begin), "and with a command, or code"


@each_page
def test_toml_blocks_are_instances(page: Path) -> None:
    for kind, block in BLOCK.findall(page.read_text(encoding="utf-8")):
        if kind == "toml" and "room" in tomllib.loads(block):
            parse(tomllib.loads(block))


def test_named_source_files_exist() -> None:
    """A page that names a module by its path in the repository names one that is there."""
    path = re.compile(r"`((?:bindings|models|heuristics|instances|tests|docs)/[\w./-]+\.\w+)`")
    shown = re.compile(r"## Where things moved from.*", re.DOTALL)  # the old tree
    for page in PAGES:
        text = BLOCK.sub("", shown.sub("", page.read_text(encoding="utf-8")))
        for named in path.findall(text):
            assert (ROOT / named).exists(), f"{page.name}: {named}"


@pytest.mark.nightly
@pytest.mark.slow
def test_the_site_builds_strictly(tmp_path: Path) -> None:
    if importlib.util.find_spec("mkdocs") is None:
        if os.environ.get("CI"):
            pytest.fail("mkdocs is not installed: pip install -e '.[docs]'")
        pytest.skip("mkdocs is not installed")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=600,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    page = (tmp_path / "site" / "api" / "index.html").read_text(encoding="utf-8")
    for name in ("tilewright.solve", "tilewright.TilingProblem", "tilewright.Result.plot"):
        assert f'id="{name}"' in page
    index = json.loads((tmp_path / "site" / "search" / "search_index.json").read_text(encoding="utf-8"))
    assert len(index["docs"]) > 100
