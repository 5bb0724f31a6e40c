"""ONNX operators that multiply matrices: by weights, as layers are, or by each other, as in attention."""

from __future__ import annotations

from math import prod

from tilewright.importing.model import OnnxOperation, Value
from tilewright.importing.shapes import Invalid, Shape, Table, Unknown, has_bias, output_shape, shape, sizes


def matrix(operation: OnnxOperation) -> list[Table]:
    """Return the layer of a product of matrices, of which one may be of weights."""
    first, second = operation.inputs[:2]
    if first is None or second is None:
        raise Unknown("it lacks an operand")
    if not first.fixed and not second.fixed:
        return _product(operation, first, second)
    source, weights = (second, first) if first.fixed else (first, second)
    if weights is None or source.fixed:
        raise Unknown("both of its inputs are the same for all images")
    return _by_weights(operation, source, sizes(operation, weights))


def _by_weights(operation: OnnxOperation, source: Value, known: tuple[int, ...]) -> list[Table]:
    if prod(known[:-2]) != 1 or len(known) < 2:
        raise Unknown(f"its weights, {list(known)}, are no matrix")
    first = operation.inputs[0] is not None and operation.inputs[0].fixed
    turned = operation.attributes.get("transA" if first else "transB", 0)
    deep, kernels = (known[-1], known[-2]) if first != bool(turned) else (known[-2], known[-1])
    own, result = shape(operation, source), output_shape(operation)
    if prod(own) % deep or prod(own) // deep * kernels != prod(result):
        raise Invalid(f"its weights are for {deep} values, and it reads {list(own)}")
    rows = prod(own) // deep
    table: Table = {
        "kernels": kernels,
        "kernel": (1, 1),
        "batch": operation.batch,
        "bias": has_bias(operation),
    }
    if rows == 1:
        tables: list[Table] = [{"kind": "fc", "input": (deep, 1, 1), **table}]
        return _between(tables, own, (deep, 1, 1), (kernels, 1, 1), result)
    plane = own[1:] if own[0] == deep and result == (kernels, *own[1:]) else (1, rows)
    tables = [{"kind": "conv", "input": (deep, *plane), **table}]
    return _between(tables, own, (deep, *plane), (kernels, *plane), result)


def _between(tables: list[Table], own: Shape, read: Shape, given: Shape, result: Shape) -> list[Table]:
    """Put reshapes around a layer that takes and gives values in other shapes."""
    if own != read and tables[0]["kind"] != "fc":
        tables = [{"kind": "reshape", "input": own, "output": read}, *tables]
    if given != result:
        tables = [*tables, {"kind": "reshape", "input": given, "output": result}]
    return tables


def _product(operation: OnnxOperation, first: Value, second: Value) -> list[Table]:
    """Return a product of matrices that both depend on the image; rows of the first are last."""
    own, result = shape(operation, first), output_shape(operation)
    shape(operation, second)
    known, given = sizes(operation, first), sizes(operation, second)
    if len(known) != len(given) or known[:-2] != given[:-2]:
        raise Unknown("its matrices are of different numbers")
    if len(known) < 2:
        raise Unknown("it multiplies vectors")
    deep, rows = known[-2:]
    groups = prod(own) // (deep * rows)
    if groups * deep * rows != prod(own) or prod(result) % (groups * rows):
        raise Unknown("its matrices do not fit")
    table: Table = {"kind": "matmul", "input": own, "output": result, "groups": groups, "depth": deep}
    if (transposed := operation.attributes.get("transposed")) is not None:
        table["transposed"] = transposed
    return [{**table, "batch": operation.batch}]
