"""MaxRoiPool: TVM's, of regions that name images which exist."""

from __future__ import annotations

from tvm import relax

from tvm_neocpu.frontend.converters.inside import on_axis
from tvm_neocpu.frontend.converters.node import Node


def max_roi_pool(node: Node) -> relax.Expr:
    """Data ``(N, C, H, W)`` and regions ``(R, 5)``, image first -> ``(R, C, h, w)``.

    ONNX Runtime refuses the place of an image outside of the batch; the nearest is taken here.
    """
    rois = node.required(1)

    def columns(first: int, end: int) -> relax.Var:
        return node.emit(relax.op.strided_slice(rois, [1], [first], [end]))

    image = on_axis(node, columns(0, 1), 0)
    return node.tvm_conversion([node.data, node.emit(relax.op.concat([image, columns(1, 5)], 1))])
