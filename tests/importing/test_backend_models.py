"""ONNX's own test models: what imports computes what onnxruntime computes, and the page tells of the rest."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import onnx
import pytest
from conftest import ROOT
from onnx.backend.test.loader import load_model_tests

from tilewright.importing import network
from tilewright.importing.training import read_trained
from tilewright.spec.errors import InputError

pytest.importorskip("onnxruntime")

KINDS = ("node", "simple", "pytorch-converted", "pytorch-operator")

REASONS = {
    "no layer does": "an operator, or a use of one, that no layer does",
    "can be of any size": "sizes that the file leaves open",
    "have subgraphs": "control flow",
    "is no tensor": "sequences and optional values",
    "must be a list of at least 1": "outputs that depend on no input, or on its shape only",
}
"""Why models do not import, as messages have it and as the page has it; all others are "other reasons"."""


def reason(error: InputError) -> str:
    """Return why a model does not import, as the page has it."""
    return next((told for said, told in REASONS.items() if said in error.limit), "other reasons")


@pytest.mark.nightly
@pytest.mark.filterwarnings("ignore")
def test_what_imports_computes_what_onnxruntime_does(tmp_path: Path) -> None:
    """A model imports or is refused with a reason; outputs that we compute are those of onnxruntime."""
    found: Counter[str] = Counter()
    for kind in KINDS:
        for case in load_model_tests(kind=kind):
            path = Path(case.model_dir or "") / "model.onnx"
            if case.model is not None:
                path = tmp_path / "model.onnx"
                onnx.save(case.model, path)
            try:
                network(path)
            except InputError as error:
                found[reason(error)] += 1
                continue
            found["import"] += 1
            try:
                read_trained(path)
            except InputError:  # a layer that is not executed with data
                continue
            found["computed"] += 1
    assert found["import"] > 800 and found["computed"] > 70
    page = (ROOT / "docs" / "import.md").read_text(encoding="utf-8")
    told = re.search(r"Of the ([\d,]+) models of onnx ([\d.]+).*?\n\n(\|.*?)\n\n", page, re.DOTALL)
    assert told is not None
    if told[2] == onnx.__version__:
        rows = re.findall(r"^\| ([^|]+) \| ([\d,]+) \|$", told[3], re.MULTILINE)
        assert {name: int(count.replace(",", "")) for name, count in rows} == dict(found)
        assert int(told[1].replace(",", "")) == sum(found.values()) - found["computed"]
