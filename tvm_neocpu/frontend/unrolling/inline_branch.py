"""Put the nodes of the branch that an ``If`` takes in place of the ``If``."""

from __future__ import annotations

import onnx
from onnx import helper

from tvm_neocpu.frontend.rewriting.fresh_names import FreshNames
from tvm_neocpu.frontend.rewriting.renamed_node import renamed


def inlined_branch(
    node: onnx.NodeProto, branch: onnx.GraphProto, fresh: FreshNames
) -> list[onnx.NodeProto]:
    """The branch's weights as Constant nodes, its nodes, and Identity nodes for the If's results.

    Names of the branch get a prefix, because branches of two Ifs may use the same ones.
    """
    constants = [
        helper.make_node("Constant", [], [tensor.name], value=tensor)
        for tensor in branch.initializer
    ]
    inner = [*constants, *branch.node]
    prefix = f"{node.output[0]}/"
    names = {name: fresh(prefix + name) for each in inner for name in each.output if name}
    results = [
        helper.make_node("Identity", [names.get(value.name, value.name)], [result])
        for value, result in zip(branch.output, node.output, strict=False)
        if result
    ]
    return [*(renamed(each, names) for each in inner), *results]
