"""Legalise the remaining operators, then fuse every template with its elementwise epilogue."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import tvm
from tvm import relax

from tvm_neocpu.relay_passes.fusing.store_codes import store_codes
from tvm_neocpu.relay_passes.ir.dataflow import regions_to_dataflow
from tvm_neocpu.relay_passes.ir.rewrite import remove_dead_code
from tvm_neocpu.relay_passes.layouts.channel_moves import MOVE
from tvm_neocpu.relay_passes.layouts.moments import INSTANCE_NORM
from tvm_neocpu.relay_passes.legalizing.channel_move_legalize import legalize_channel_move
from tvm_neocpu.relay_passes.legalizing.legalized_before import OPERATORS, LegalizedBefore
from tvm_neocpu.relay_passes.legalizing.norm_legalize import (
    LAYER_NORM,
    instance_norm_legalization,
    legalize_layer_norm,
)
from tvm_neocpu.relay_passes.legalizing.pool_legalize import pool_legalization
from tvm_neocpu.relay_passes.legalizing.reshape_legalize import (
    RESHAPE,
    legalize_reshape,
    view_flat_copies,
    view_reshaped_results,
)
from tvm_neocpu.relay_passes.legalizing.resize_legalize import RESIZE, legalize_resize
from tvm_neocpu.relay_passes.legalizing.vector_legalize import vector_legalization


@dataclass(frozen=True)
class FuseFunctions:
    """TVM's own passes, in order; the functions of templates say already how they may be fused.

    Fusion works on dataflow blocks only, hence the conversion before it.

    ``cores`` are those that will share a function's work.

    Needs: templates are lowered (:class:`LowerToTemplates`).
    Leaves: Relax functions that call PrimFuncs, one for each fused group, not scheduled; operators
    without a legalisation stay calls.
    """

    name: ClassVar[str] = "fuse-functions"
    cores: int = 1

    def __call__(self, mod: tvm.IRModule) -> tvm.IRModule:
        ours = {
            **vector_legalization(ends=set(mod.get_global_vars())),
            **pool_legalization(),
            INSTANCE_NORM: instance_norm_legalization(self.cores),
            LAYER_NORM: legalize_layer_norm,
            RESHAPE: legalize_reshape,
            RESIZE: legalize_resize,
            MOVE: legalize_channel_move,
        }
        before = LegalizedBefore()
        ours |= {op: before.of(op, ours.get(op)) for op in OPERATORS}
        legalize = relax.transform.LegalizeOps(ours)
        reshape, patterns = (
            relax.transform.RewriteDataflowReshape(),
            relax.transform.AnnotateTIROpPattern(),
        )
        fuse = tvm.transform.Sequential([relax.transform.FuseOps(), *_fuse_tir()])
        # FuseOps stops at dead code in a branch.
        living = remove_dead_code(legalize(mod))
        viewed = view_reshaped_results(view_flat_copies(reshape(regions_to_dataflow(living))))
        kernels = patterns(viewed)
        return remove_dead_code(fuse(store_codes(kernels)))


def _fuse_tir() -> list[tvm.transform.Pass]:
    """FuseTIR without its removal of parameters, which defines an extent twice.

    TVM 0.27 takes ``sizes``, which defines extents only, for unused, and lets a parameter of shape
    define each of them. It does so for a scalar parameter as well, which defines itself::

        fused(n: int64, x: (m // 2,), sizes: [m])  ->  fused(n: int64, x: (m // 2,), [m], [n])

    No other parameter of a fused function is unused.
    """
    passes = relax.transform.FuseTIR().passes
    return [step for step in passes if step.info.name != "RemoveUnusedParameters"]
