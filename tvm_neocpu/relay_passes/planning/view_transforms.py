"""Layout transforms replaced by views, for timing: the network computes nonsense, as fast as ever.

See :mod:`tvm_neocpu.tuning.in_network.rounds.stand_ins`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import tvm
from tvm import relax

from tvm_neocpu.relay_passes.ir.exprs import static_shape
from tvm_neocpu.relay_passes.ir.rewrite import Scope, rewrite_values
from tvm_neocpu.relay_passes.operators.layout_transform import transform_layouts


@dataclass(frozen=True)
class ViewTransforms:
    """Every layout transform of ours becomes a reshape, which costs nothing.

    Needs: transforms are calls that :func:`transform_layouts` reads.
    Leaves: tensors of the same sizes, their elements in the wrong places.
    """

    name: ClassVar[str] = "view-transforms"

    def __call__(self, mod: tvm.IRModule) -> tvm.IRModule:
        return rewrite_values(mod, _viewed)


def _viewed(_: Scope, value: relax.Expr) -> relax.Expr | None:
    if transform_layouts(value) is None:
        return None
    return relax.op.reshape(value.args[0], static_shape(value))
