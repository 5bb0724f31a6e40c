"""ONNX's own test models: what imports computes what onnxruntime computes, and the page tells of the rest."""

from __future__ import annotations

import re
from collections import Counter

import onnx
import pytest
from conftest import ROOT

pytest.importorskip("onnxruntime")

from onnx_table import outcomes

WRONG = {"wrong numbers", "wrong shape"}
REFUSED = {"StringNormalizer": 6, "Gradient": 2, "depend on no value of an input": 1, "can be of any size": 1}
"""Why some of the models `simple` are refused: text, training, lengths of sequences."""


def test_small_models_compute_what_onnxruntime_does() -> None:
    found = list(outcomes(["simple"]))
    assert Counter(each.what for each in found) == {"as onnxruntime": 13, "refused": 10}
    refused = [each.why for each in found if each.what == "refused"]
    assert {said: sum(said in why for why in refused) for said in REFUSED} == REFUSED


@pytest.mark.nightly
@pytest.mark.filterwarnings("ignore")
def test_what_imports_computes_what_onnxruntime_does() -> None:
    """Shapes and numbers of what imports are right, and the page has the counts."""
    found = list(outcomes())
    wrong = [each for each in found if each.what in WRONG]
    assert not wrong, wrong
    page = (ROOT / "docs" / "import.md").read_text(encoding="utf-8")
    told = re.search(r"Of the ([\d,]+) models of onnx ([\d.]+).*?\n\n(\|.*?)\n\n", page, re.DOTALL)
    assert told is not None
    if told[2] == onnx.__version__:
        rows = re.findall(r"^\| ([^|`]+) \| ([\d,]+) \| ([\d,]+) \|$", told[3], re.MULTILINE)
        counts = Counter((each.what, each.kind == "node") for each in found)
        assert {
            (name, is_node): int(count.replace(",", ""))
            for name, *both in rows
            for is_node, count in zip((True, False), both, strict=True)
            if count != "0"
        } == dict(counts)
        assert int(told[1].replace(",", "")) == len(found)
