"""Put the function body that ONNX's schema gives an operator in place of its node.

    y = Celu<alpha = 2>(x)   ->   y/alpha = Constant<value = 2>()
                                  y/scaled = Div(x, y/alpha)
                                  ...
                                  y = Add(y/positive, y/negative)

About fifty operators have such a body. A body may depend on the types of the node's inputs and on
which of them the node omits; the walk of `fold_shapes`, which knows both, asks node by node.
onnx's own inliner was tried: it raises for a body that depends on types when an input is omitted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import onnx
from onnx import inliner

from tvm_neocpu.frontend.nodes import all_nodes, nested_graphs
from tvm_neocpu.frontend.rewriting.fresh_names import FreshNames
from tvm_neocpu.frontend.rewriting.renamed_node import renamed

_STANDARD = ("", "ai.onnx")


def without_functions(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model, or one with the bodies of its own functions in place of their calls.

    onnx's inliner leaves out an attribute that the call does not give, and the function has a
    default of: such calls get it first.
    """
    if not model.functions:
        return model
    if any(function.attribute_proto for function in model.functions):
        model = _with_defaults(model)
    return inliner.inline_local_functions(model)


def _with_defaults(model: onnx.ModelProto) -> onnx.ModelProto:
    """A copy whose calls give all attributes that the called functions have defaults of."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    defaults = {
        (function.domain, function.name, function.overload): function.attribute_proto
        for function in copy.functions
    }
    for holder in (copy.graph, *copy.functions):
        for node in all_nodes(holder):
            given = {attribute.name for attribute in node.attribute}
            known = defaults.get((node.domain, node.op_type, node.overload), ())
            node.attribute.extend(each for each in known if each.name not in given)
    return copy


def function_nodes(
    node: onnx.NodeProto,
    types: Sequence[onnx.TypeProto | None],
    opset: int,
    fresh: FreshNames,
) -> list[onnx.NodeProto] | None:
    """The nodes that compute what a node of the standard operators does.

    ``types`` has one entry for each input, ``None`` where it is not known. Names inside the body
    get the name of the node's first result as prefix. Gives ``None`` where the schema has no body,
    the body needs a type that is not known, or the body's operators changed before ``opset``.
    """
    if node.domain not in _STANDARD or not any(node.output):
        return None
    try:
        schema = onnx.defs.get_schema(node.op_type, opset, "")
    except onnx.defs.SchemaError:
        return None
    body = _body(schema, node, types, opset)
    if body is None or not all(_is_unchanged(inner, body, opset) for inner in body.node):
        return None
    prefix = next(filter(None, node.output)) + "/"
    results = dict(zip(body.output, node.output, strict=False))
    # The body computes a result that the node omits, or does without an input, all the same.
    names = {name: result for name, result in results.items() if result}
    inside = {name for inner in body.node for name in inner.output if name} - names.keys()
    names |= {name: fresh(prefix + name) for name in sorted(inside)}
    names |= dict.fromkeys(body.input, "")
    names |= dict(zip(body.input, node.input, strict=False))
    given = _attributes(schema, node)
    return [renamed(_with_attributes(inner, given), names) for inner in body.node]


def _body(
    schema: onnx.defs.OpSchema,
    node: onnx.NodeProto,
    types: Sequence[onnx.TypeProto | None],
    opset: int,
) -> onnx.FunctionProto | None:
    """The newest body that is no newer than ``opset``."""
    body = onnx.FunctionProto()
    plain = [version for version in schema.function_opset_versions if version <= opset]
    if plain:
        body.ParseFromString(schema.get_function_with_opset_version(max(plain)))
        return body
    by_types = [
        version for version in schema.context_dependent_function_opset_versions if version <= opset
    ]
    known = [
        type_ if name else onnx.TypeProto() for name, type_ in zip(node.input, types, strict=True)
    ]
    if not by_types or None in known:
        return None
    text = schema.get_context_dependent_function_with_opset_version(
        max(by_types),
        node.SerializeToString(),
        [type_.SerializeToString() for type_ in known if type_ is not None],
    )
    body.ParseFromString(text)
    return body if body.node else None


def _is_unchanged(inner: onnx.NodeProto, body: onnx.FunctionProto, opset: int) -> bool:
    """Whether the body's operator has the same inputs and attributes in the model's opset."""
    if inner.domain not in _STANDARD:
        return True
    versions = [entry.version for entry in body.opset_import if entry.domain in _STANDARD]
    try:
        then, now = (
            onnx.defs.get_schema(inner.op_type, version, "")
            for version in (min([*versions, opset]), opset)
        )
    except onnx.defs.SchemaError:
        return False
    return then.since_version == now.since_version or (
        set(then.attributes) <= set(now.attributes) and then.max_input <= now.max_input
    )


def _attributes(schema: onnx.defs.OpSchema, node: onnx.NodeProto) -> dict[str, onnx.AttributeProto]:
    """The node's attributes, completed by the defaults of the schema."""
    defaults = {
        name: attribute.default_value
        for name, attribute in schema.attributes.items()
        if attribute.default_value.name
    }
    return {**defaults, **{attribute.name: attribute for attribute in node.attribute}}


def _with_attributes(
    inner: onnx.NodeProto, given: Mapping[str, onnx.AttributeProto]
) -> onnx.NodeProto:
    """A copy whose references to the function's attributes are replaced by their values."""
    copy = onnx.NodeProto()
    copy.CopyFrom(inner)
    del copy.attribute[:]
    for attribute in inner.attribute:
        if not attribute.ref_attr_name:
            copy.attribute.append(attribute)
        elif attribute.ref_attr_name in given:
            copy.attribute.append(given[attribute.ref_attr_name])
            copy.attribute[-1].name = attribute.name
    for graph in nested_graphs(copy):
        nodes = [_with_attributes(each, given) for each in graph.node]
        del graph.node[:]
        graph.node.extend(nodes)
    return copy
