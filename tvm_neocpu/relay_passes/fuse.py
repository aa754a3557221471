"""Legalise what is left, then fuse every template with its elementwise epilogue."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import tvm
from tvm import relax


@dataclass(frozen=True)
class FuseFunctions:
    """TVM's own passes in order; a template's functions carry their fusion pattern already."""

    name: ClassVar[str] = "fuse-functions"

    def __call__(self, mod: tvm.IRModule) -> tvm.IRModule:
        passes = (
            relax.transform.LegalizeOps(),
            relax.transform.RewriteDataflowReshape(),
            relax.transform.AnnotateTIROpPattern(),
            relax.transform.FuseOps(),
            relax.transform.FuseTIR(),
            relax.transform.DeadCodeElimination(["main"]),
        )
        return tvm.transform.Sequential(passes)(mod)
