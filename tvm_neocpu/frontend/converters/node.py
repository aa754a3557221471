"""One ONNX node as a converter sees it: Relax inputs, checked attributes, and a builder."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import tvm
from tvm import relax

from tvm_neocpu.core.errors import UnsupportedOperatorError
from tvm_neocpu.frontend.converters.known import Extents
from tvm_neocpu.relay_passes.ir.tensor_types import dimensions

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Node:
    """An ONNX node whose inputs are Relax expressions.

    ``inputs`` has ``None`` for an input that the node omits. ``attributes`` has every attribute of
    the node; one that the node omits has the default of the operator's schema, or is absent where
    the schema has none. Texts are ``str``, lists are tuples.
    """

    op_type: str
    opset: int
    inputs: tuple[relax.Expr | None, ...]
    attributes: Mapping[str, Any]
    outputs: int
    builder: relax.BlockBuilder
    # Weights that stay parameters of the function (``freeze_params=False``): by name, the variable
    # and its value.
    weights: Mapping[str, tuple[relax.Var, tvm.runtime.Tensor]]
    # TVM's own conversion of the node, with these inputs.
    tvm_conversion: Callable[[list[relax.Expr | None]], relax.Expr] = lambda _: _no_conversion()
    # What is known of the extents that only a run knows.
    extents: Extents = field(default_factory=Extents)
    # The node's own name, or its first output's.
    name: str = ""

    @property
    def label(self) -> str:
        """``Add 'sum'``, as an error names it."""
        return f"{self.op_type} {self.name!r}" if self.name else self.op_type

    @property
    def data(self) -> relax.Expr:
        """The first input."""
        return self.required(0)

    @property
    def dtype(self) -> str:
        """The element type of the first input."""
        return str(self.data.ty.dtype)

    def input(self, place: int) -> relax.Expr | None:
        """The input at this place; ``None`` where the node omits it."""
        return self.inputs[place] if place < len(self.inputs) else None

    def required(self, place: int) -> relax.Expr:
        """The input at this place. Raises UnsupportedOperatorError where the node omits it."""
        expr = self.input(place)
        if expr is None:
            raise UnsupportedOperatorError(f"input {place} is missing")
        return expr

    def extent(self, axis: int) -> int:
        """A dimension of the first input. Raises UnsupportedOperatorError if it is not known."""
        dims = dimensions(self.data.ty)
        extent = None if dims is None else dims[axis]
        if extent is None:
            raise UnsupportedOperatorError(f"dimension {axis} of its input is not known at import")
        return extent

    @property
    def rank(self) -> int:
        """The rank of the first input. Raises UnsupportedOperatorError if it is not known."""
        rank = int(self.data.ty.ndim)
        if rank < 0:
            raise UnsupportedOperatorError("the rank of its input is not known at import")
        return rank

    def from_front(self, axis: int) -> int:
        """An axis of the first input. Raises UnsupportedOperatorError for one that it has not."""
        if not -self.rank <= axis < self.rank:
            raise UnsupportedOperatorError(f"axis {axis} is outside data of rank {self.rank}")
        return axis % self.rank

    def constant(self, place: int) -> Array | None:
        """The values of an input; ``None`` where it is omitted or has no element.

        ONNX below opset 13 omits an input by an empty tensor too.
        Raises UnsupportedOperatorError if the values are not known at import.
        """
        expr = self.input(place)
        if expr is None:
            return None
        values = self._values(expr)
        if values is None:
            raise UnsupportedOperatorError(f"input {place} must be a constant")
        return values if values.size else None

    def known(self, place: int) -> Array | None:
        """The values of an input; ``None`` where it is omitted or not known at import."""
        expr = self.input(place)
        return None if expr is None else self._values(expr)

    def ints(self, name: str, count: int, default: int) -> tuple[int, ...]:
        """A list attribute of ``count`` whole numbers; ``default`` throughout where it is absent.

        Raises UnsupportedOperatorError if its length is another one.
        """
        given = self.attributes.get(name)
        if given is None:
            return (default,) * count
        if len(given) != count:
            raise UnsupportedOperatorError(f"{name} has {len(given)} values in place of {count}")
        return tuple(int(value) for value in given)

    def by_tvm(self) -> relax.Expr:
        """TVM's own conversion, for a converter that takes some cases only."""
        return self.tvm_conversion(list(self.inputs))

    def emit(self, expr: relax.Expr) -> relax.Var:
        """Bind the expression to a variable, whose type is then known."""
        return self.builder.emit(expr)

    def _values(self, expr: relax.Expr) -> Array | None:
        if isinstance(expr, relax.Var) and expr.name in self.weights:
            return np.asarray(self.weights[expr.name][1].numpy())
        if isinstance(expr, tvm.ir.GenericConst):
            return np.asarray(expr.value.numpy())
        if isinstance(expr, relax.ShapeExpr):
            extents = dimensions(relax.TensorType(expr, "float32"))
            if extents is not None and None not in extents:
                return np.array(extents, "int64")
        return None


def _no_conversion() -> relax.Expr:
    raise UnsupportedOperatorError("TVM's importer has no such operator")


Converter = Callable[[Node], relax.Expr]


_POOL = {"auto_pad": "NOTSET", "ceil_mode": 0, "channels_last": 0, "count_include_pad": 0}
_REQUIRED = object()
# Operators of ONNX Runtime's own (domain com.microsoft), which onnx has no schemas of: their
# attributes, with defaults; ``None`` for one that has none and may be absent.
_OF_ONNX_RUNTIME: Mapping[str, Mapping[str, Any]] = {
    "DynamicQuantizeLSTM": {
        **dict.fromkeys(("activation_alpha", "activation_beta", "activations", "clip")),
        "direction": "forward",
        "hidden_size": None,
        "input_forget": 0,
    },
    "QGemm": {"alpha": 1.0, "transA": 0, "transB": 0},
    "QLinearAdd": {},
    "QLinearAveragePool": {**_POOL, "kernel_shape": _REQUIRED, "pads": None, "strides": None},
    "QLinearConcat": {"axis": _REQUIRED},
    "QLinearGlobalAveragePool": {"channels_last": 0},
    "QLinearLeakyRelu": {"alpha": 0.01},
    "QLinearMul": {},
    "QLinearSigmoid": {},
    "QLinearSoftmax": {"axis": -1, "opset": _REQUIRED},
    "SimplifiedLayerNormalization": {"axis": -1, "epsilon": 1e-5, "stash_type": 1},
}


def read_attributes(op_type: str, opset: int, given: Mapping[str, Any]) -> dict[str, Any]:
    """The attributes of a node, completed by the defaults of the operator's schema.

    Raises UnsupportedOperatorError for an attribute that this opset does not have, and for one
    that is missing.
    """
    if op_type in _OF_ONNX_RUNTIME:
        known = _OF_ONNX_RUNTIME[op_type]
        _refuse_unknown(set(given) - set(known), "ONNX Runtime")
        required = [name for name, value in known.items() if value is _REQUIRED]
        defaults = {n: v for n, v in known.items() if v is not None and v is not _REQUIRED}
    else:
        schema = _schema(op_type, opset)
        _refuse_unknown(set(given) - set(schema.attributes), f"opset {opset}")
        required = [name for name, attribute in schema.attributes.items() if attribute.required]
        defaults = {
            name: onnx.helper.get_attribute_value(attribute.default_value)
            for name, attribute in schema.attributes.items()
            if attribute.default_value.name
        }
    values = {name: _plain(value) for name, value in {**defaults, **given}.items()}
    missing = [name for name in required if name not in values]
    if missing:
        raise UnsupportedOperatorError(f"attribute {', '.join(missing)} is missing")
    return values


def _refuse_unknown(names: set[str], owner: str) -> None:
    if names:
        listed = ", ".join(sorted(names))
        raise UnsupportedOperatorError(f"{owner} has no attribute {listed}")


# Files of older opsets have these, too. ONNX Runtime's optimiser writes some of them into any file;
# of the others ONNX Runtime has its own, with all attributes of these opsets.
_FIRST_OPSET: Mapping[str, int] = {
    "DequantizeLinear": 13,
    "DynamicQuantizeLinear": 11,
    "Gelu": 20,
    "GridSample": 16,
    "LayerNormalization": 17,
    "QuantizeLinear": 13,
}


def _schema(op_type: str, opset: int) -> onnx.defs.OpSchema:
    try:
        return onnx.defs.get_schema(op_type, max(opset, _FIRST_OPSET.get(op_type, 0)), "")
    except onnx.defs.SchemaError as error:
        raise UnsupportedOperatorError(f"opset {opset} has no such operator") from error


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, Sequence) and not isinstance(value, str):
        return tuple(_plain(item) for item in value)
    return value
