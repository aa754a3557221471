"""Replace convolutions and dense layers by their templates' computations, weights packed.

A convolution computes the elementwise chain in front of it too, if nothing else reads that chain.
TVM's own legalisation, which follows this pass, lowers the calls that no template takes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar

import tvm
from tvm import relax, te

from tvm_neocpu.core.candidate import layouts_of
from tvm_neocpu.core.config import Config, TransformConfig
from tvm_neocpu.core.cpu import Cpu
from tvm_neocpu.core.layout import Layout
from tvm_neocpu.core.workload import Workload
from tvm_neocpu.relay_passes.ir.calls import conv_layouts, conv_workload, dense_workload
from tvm_neocpu.relay_passes.ir.regions import count_module_uses
from tvm_neocpu.relay_passes.ir.rewrite import remove_dead_code
from tvm_neocpu.relay_passes.layouts.channel_moves import Interleave, read_channel_move
from tvm_neocpu.relay_passes.layouts.transform import TRANSFORM, transform_workload
from tvm_neocpu.relay_passes.lowering.read_prologue import Prologue, read_prologue
from tvm_neocpu.topi.cost.ranking import best_config
from tvm_neocpu.topi.image import channel_moves
from tvm_neocpu.topi.layout_transform import template as layout_transform
from tvm_neocpu.topi.strategy import implementation_of

# (workload, input layout, output layout): all that a call in the altered module says of its config.
LayoutKey = tuple[Workload, Layout, Layout]


def layout_key(workload: Workload, config: Config) -> LayoutKey:
    """The key under which :class:`LowerToTemplates` looks for this config."""
    return workload, *layouts_of(config)


@dataclass(frozen=True)
class LowerToTemplates:
    """Lower each call by its config in ``configs``, else by the best one of the cost model.

    Needs: layouts are altered and transforms eliminated; weights are constants; concats are flat,
    so that a convolution can take its concat along.
    Leaves: convolutions, dense layers, layout transforms and channel moves as calls of PrimFuncs
    that say how TVM may fuse them; each template's block names its workload and config.
    """

    name: ClassVar[str] = "lower-to-templates"
    cpu: Cpu
    configs: Mapping[LayoutKey, Config] = field(default_factory=dict)

    def __call__(self, mod: tvm.IRModule) -> tvm.IRModule:
        legalize = {
            "relax.nn.conv2d": partial(self._conv2d, count_module_uses(mod)),
            "relax.matmul": self._matmul,
            TRANSFORM: self._transform,
        }
        lowered = relax.transform.LegalizeOps(legalize, skip_ops=_all_but(legalize))(mod)
        return remove_dead_code(lowered)

    def _conv2d(
        self, uses: Mapping[relax.Var, int], builder: relax.BlockBuilder, call: relax.Call
    ) -> relax.Expr:
        workload, layouts = conv_workload(call), conv_layouts(call)
        if workload is None or layouts is None:
            return call
        before = read_prologue(call.args[0], builder.lookup_binding, uses)
        return self._emit(builder, call, (workload, *layouts), "conv2d", before)

    def _matmul(self, builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
        workload = dense_workload(call)
        if workload is None:
            return call
        return self._emit(builder, call, (workload, Layout(0), Layout(0)), "dense")

    def _transform(self, builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
        move = transform_workload(call)
        if move is None:
            return self._channel_move(builder, call)

        def compute(x: te.Tensor) -> te.Tensor:
            return layout_transform.compute(x, move, TransformConfig())

        return builder.call_te(
            compute,
            call.args[0],
            primfunc_name_hint="layout_transform",
            primfunc_attrs={"op_pattern": OPAQUE},
        )

    def _channel_move(self, builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
        move = read_channel_move(call)
        if move is None:
            return call

        def compute(x: te.Tensor) -> te.Tensor:
            if isinstance(move, Interleave):
                return channel_moves.interleave(x, move.rows, move.columns)
            return channel_moves.shuffle(x, move.groups)

        hint, attrs = type(move).__name__.lower(), {"op_pattern": INJECTIVE}
        return builder.call_te(compute, call.args[0], primfunc_name_hint=hint, primfunc_attrs=attrs)

    def _emit(
        self,
        builder: relax.BlockBuilder,
        call: relax.Call,
        key: LayoutKey,
        hint: str,
        before: Prologue | None = None,
    ) -> relax.Expr:
        config = self.configs.get(key) or best_config(*key, self.cpu)
        if config is None:
            return call
        workload = key[0]
        implementation = implementation_of(config)
        data, weight = call.args
        assert implementation.pack_weight is not None
        packed = implementation.pack_weight(weight.value.numpy(), workload, config)

        if before is None or not implementation.takes_prologue:
            before = Prologue((data,), ())

        def compute(parts: list[te.Tensor], operands: list[te.Tensor], w: te.Tensor) -> te.Tensor:
            return implementation.compute(before.compute(parts, operands), w, workload, config)

        return builder.call_te(
            compute,
            list(before.parts),
            list(before.operands),
            relax.const(packed, "float32"),
            primfunc_name_hint=hint,
            primfunc_attrs={"op_pattern": OUT_ELEMWISE_FUSABLE},
        )


# relax.OpPatternKind: kOpaque is not fused; kOutEWiseFusable is fused with elementwise consumers,
# not with producers; kInjective is fused with both.
OPAQUE, OUT_ELEMWISE_FUSABLE, INJECTIVE = 8, 4, 2


def _all_but(legalized: Mapping[str, object]) -> list[str]:
    """The names of the operators that this pass leaves alone."""
    return [name for name in tvm.ir.Op.list_op_names() if name not in legalized]
