"""recurrence: LSTM, GRU and RNN behind the projection of their inputs, all steps in one call."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np
from tvm import relax, te, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

from tvm_neocpu.core.errors import ShapeError
from tvm_neocpu.core.machine.cpu import SSE, Cpu
from tvm_neocpu.relay_passes.ir.constants import array_of, constant_of
from tvm_neocpu.relay_passes.ir.exprs import static_shape
from tvm_neocpu.relay_passes.operators.call_form import OPAQUE
from tvm_neocpu.relay_passes.operators.new.new_op import NewOp
from tvm_neocpu.topi.recurrence.layer import Activation, RecurrentLayer, Tile
from tvm_neocpu.topi.recurrence.loops import Tensors, write_loops
from tvm_neocpu.topi.recurrence.tiles import course_of

OP = "relax.neocpu.recurrence"
# Attributes of the function: the layer for people, the operations of its products.
LAYER, FLOPS = "neocpu.recurrence", "neocpu.flops"
# Vectors of each unit, which are filled up as R is.
_PER_UNIT = ("peepholes", "bias")
# Where optional arguments have the batch.
_BATCH_AXES = {"h": 1, "c": 1, "lengths": 0}


def recurrence(
    layer: RecurrentLayer,
    projection: relax.Expr,
    weight: relax.Expr,
    optional: Mapping[str, relax.Expr],
) -> relax.Call:
    """Y ``(steps, D, batch, hidden)`` and the last states ``(D, batch, hidden)``, D directions.

    ``projection``: ``(steps, batch, D * gates * hidden)`` with all biases but ``bias``; steps and
    batch are its own, the layer's are not read.
    ``weight``: ONNX's R, ``(D, gates * hidden, hidden)``. ``optional``: states ``h`` and ``c``
    ``(D, batch, hidden)``, int32 ``lengths`` ``(batch,)``, ``peepholes`` ``(D, 3, hidden)``, and
    ``bias`` ``(D, hidden)`` of the product that a GRU resets.
    """
    functions = [function for part in layer.activations for function in part]
    return RECURRENCE(
        projection,
        weight,
        *optional.values(),
        optional=list(optional),
        kind=layer.kind,
        hidden=layer.hidden,
        reverses=[int(reverse) for reverse in layer.reverses],
        activations=[function.name for function in functions],
        alphas=[float(function.alpha) for function in functions],
        betas=[float(function.beta) for function in functions],
        clip=float(layer.clip or 0),
        rules=[int(rule) for rule in (layer.couples, layer.resets_after, layer.rounds)],
    )


def layer_of(call: relax.Call) -> RecurrentLayer:
    """The layer that a call computes. Raises ShapeError where its batch is open."""
    attrs, shape = call.attrs, static_shape(call.args[0])
    if shape is None:
        raise ShapeError(
            f"{attrs['kind']} with an open batch, in a network whose images depend on each other: "
            "give shapes, with Session(..., shapes={..}), from_onnx(model, {..}) or --shape"
        )
    steps, batch, _ = shape
    reverses = tuple(bool(int(reverse)) for reverse in attrs["reverses"])
    functions = [
        Activation(str(name), float(alpha), float(beta))
        for name, alpha, beta in zip(
            attrs["activations"], attrs["alphas"], attrs["betas"], strict=True
        )
    ]
    count = len(functions) // len(reverses)
    return RecurrentLayer(
        str(attrs["kind"]),
        steps,
        batch,
        int(attrs["hidden"]),
        reverses,
        tuple(tuple(functions[at * count :][:count]) for at in range(len(reverses))),
        float(attrs["clip"]) or None,
        *(bool(int(rule)) for rule in attrs["rules"]),
        dtype=str(call.args[0].ty.dtype),
    )


def lower_recurrence(cpu: Cpu, builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
    """The call as one function of loops; R is packed now where it is constant."""
    layer, names = layer_of(call), [str(name) for name in call.attrs["optional"]]
    course = course_of(layer, cpu)
    padded = max(tile.blocks(layer.hidden) * tile.units for tile in course.tiles)
    projection, weight, *others = call.args
    weights = [
        _packed(builder, weight, layer, gates, tile)
        for gates, tile in zip(layer.phases, course.tiles, strict=True)
    ]
    others = [
        _filled(builder, value, padded - layer.hidden) if name in _PER_UNIT else value
        for name, value in zip(names, others, strict=True)
    ]

    def written(ins: list[tirx.Buffer], outs: list[tirx.Buffer]) -> tirx.Stmt:
        first, *rest = ins
        packed, given = rest[: len(weights)], rest[len(weights) :]
        tensors = Tensors(first, packed, dict(zip(names, given, strict=True)), outs)
        with IRBuilder() as lines:
            with T.seq_scope():
                write_loops(layer, course, tensors)
            return lines.get().body

    def compute(*tensors: te.Tensor) -> list[te.Tensor]:
        shapes = list(layer.outputs)
        types = [layer.dtype] * len(shapes)
        return te.extern(shapes, list(tensors), written, name="recurrence", dtype=types)

    return builder.call_te(
        compute,
        projection,
        *weights,
        *others,
        primfunc_name_hint=layer.kind.lower(),
        primfunc_attrs={"op_pattern": OPAQUE, **_attrs_of(layer)},
    )


def batch_axes(call: relax.Call) -> tuple[tuple[int | None, ...], tuple[int, ...]] | None:
    """The axes of its arguments, and of its results, that are the batch; no row reads another.

    ``None`` where the rows are not independent: the range of rounded states is that of all rows.
    """
    rounds = bool(int(call.attrs["rules"][-1]))
    if rounds:
        return None
    optional = [_BATCH_AXES.get(str(name)) for name in call.attrs["optional"]]
    return (1, None, *optional), (2, 1, 1)[: len(call.ty.fields)]


def layer_in(func: tirx.PrimFunc) -> tuple[str, int] | None:
    """(the layer for people, operations) of a layer's function; ``None`` for any other function."""
    if not func.attrs or LAYER not in func.attrs:
        return None
    return str(func.attrs[LAYER]), int(func.attrs[FLOPS])


def _attrs_of(layer: RecurrentLayer) -> dict[str, str | tirx.IntImm]:
    return {LAYER: f"{layer.kind} {layer.sizes}", FLOPS: tirx.IntImm("int64", layer.flops)}


def _packed(
    builder: relax.BlockBuilder,
    weight: relax.Expr,
    layer: RecurrentLayer,
    gates: tuple[int, ...],
    tile: Tile,
) -> relax.Expr:
    """R of some gates as :class:`.loops.Tensors` says, filled up by zeros."""
    hidden, blocks = layer.hidden, tile.blocks(layer.hidden)
    values = array_of(weight)
    if values is not None:
        parts = values.reshape(layer.directions, layer.gates, hidden, hidden)[:, list(gates)]
        fill = [(0, 0), (0, 0), (0, blocks * tile.units - hidden), (0, 0)]
        some = (layer.directions, len(gates) // tile.gates, tile.gates)
        split = np.pad(parts, fill).reshape(*some, blocks, tile.units, hidden)
        return constant_of(np.ascontiguousarray(split.transpose(0, 3, 1, 5, 2, 4)))

    def packed(given: te.Tensor) -> te.Tensor:
        def element(*at: tirx.Var) -> tirx.Expr:
            direction, block, part, k, gate, lane = at
            unit, number = block * tile.units + lane, part * tile.gates + gate + gates[0]
            value = given[direction, number * hidden + tirx.min(unit, hidden - 1), k]
            return tirx.Select(unit < hidden, value, tirx.const(0, layer.dtype))

        part = (len(gates) // tile.gates, hidden, tile.gates, tile.units)
        shape = (layer.directions, blocks, *part)
        return te.compute(shape, element, name="packed_recurrence")

    return builder.emit(builder.call_te(packed, weight, primfunc_name_hint="pack_recurrence"))


def _filled(builder: relax.BlockBuilder, value: relax.Expr, more: int) -> relax.Expr:
    """A vector for each unit with zeros behind the last one."""
    if more == 0:
        return value
    values = array_of(value)
    if values is not None:
        return constant_of(np.pad(values, [*[(0, 0)] * (values.ndim - 1), (0, more)]))

    def filled(given: te.Tensor) -> te.Tensor:
        extents = [int(extent) for extent in given.shape]

        def element(*at: tirx.Var) -> tirx.Expr:
            held = given[(*at[:-1], tirx.min(at[-1], extents[-1] - 1))]
            return tirx.Select(at[-1] < extents[-1], held, tirx.const(0, given.dtype))

        return te.compute((*extents[:-1], extents[-1] + more), element, name="filled_units")

    return builder.emit(builder.call_te(filled, value, primfunc_name_hint="fill_units"))


def _infer(call: relax.Call) -> relax.Type:
    """The batch may be open: shapes are those of :attr:`.RecurrentLayer.outputs`."""
    given, attrs = call.args[0].ty, call.attrs
    dtype, states = str(given.dtype), 2 if attrs["kind"] == "LSTM" else 1
    if given.shape is None:
        return relax.TupleType([relax.TensorType(dtype=dtype, ndim=n) for n in (4, *[3] * states)])
    steps, batch, _ = given.shape.values
    state = (len(attrs["reverses"]), batch, int(attrs["hidden"]))
    shapes = [(steps, *state), *[state] * states]
    return relax.TupleType([relax.TensorType(shape, dtype) for shape in shapes])


# Where no pass knows the CPU: vectors that all have, one core.
_ANY_CPU = Cpu("any", SSE, cores=1)
RECURRENCE = NewOp(OP, infer=_infer, legalize=partial(lower_recurrence, _ANY_CPU))
