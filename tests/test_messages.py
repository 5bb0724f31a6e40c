"""How tests look at errors: a field, a value or a limit that is missing does not pass."""

from __future__ import annotations

import pytest
from conftest import refused, tells

from tilewright.spec.errors import InputError

MESSAGE = "net.toml: layer.kernel = [3, 9]: layer a: its width is 9, at most 8"


def test_names_and_numbers_are_found_whole_and_in_order() -> None:
    assert tells(MESSAGE, "net.toml", "layer.kernel = [3, 9]", "layer a", 8)
    assert tells(MESSAGE, "layer.kernel .. 9 .. 8")
    for parts in (("layer.kern",), ("kernels",), (8, 9), ("layer b",), (7,), ("net.toml .. layer.stride",)):
        assert not tells(MESSAGE, *parts)
    for number in ("80", "1,8", "8.5", "8,000"):
        assert not tells(f"at most {number}", 8)
    assert not tells(None, "a")


@pytest.mark.parametrize(
    ("field", "value", "limit", "file"),
    [
        ("layer.kern", [3, 9], "8", "net.toml"),
        ("layer.kernel", [3, 8], "8", "net.toml"),
        ("layer.kernel", None, "8", "net.toml"),
        ("layer.kernel", [3, 9], "7", "net.toml"),
        ("layer.kernel", [3, 9], "8", "other.toml"),
    ],
)
def test_an_error_of_another_field_value_limit_or_file_is_another(
    field: str, value: object, limit: str, file: str
) -> None:
    error = InputError("layer.kernel", [3, 9], "layer a: its width is 9, at most 8", "net.toml")
    with refused("layer.kernel", [3, 9], "layer a", 8, file="net.toml"):
        raise error
    with pytest.raises(AssertionError), refused(field, value, limit, file=file):
        raise error
