"""Weights of half precision are widened by the CPU's own instructions, a vector at a time."""

from __future__ import annotations

import re
from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest
import tvm
from samples import run
from tvm import te

from tvm_neocpu.core.network.workload import Workload
from tvm_neocpu.core.types import BF16_WEIGHTS, FP16_WEIGHTS, FP32, Types
from tvm_neocpu.targets import parse_target
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.cost.ranking import ranked
from tvm_neocpu.topi.dense.workload import DenseWorkload
from tvm_neocpu.topi.kernel import kernel
from tvm_neocpu.topi.math.half_precision import as_packed, widened
from tvm_neocpu.topi.table import implementations

SKYLAKE = "llvm -mtriple=x86_64-linux-gnu -mcpu=skylake-avx512"
HASWELL = "llvm -mtriple=x86_64-linux-gnu -mcpu=haswell"
NEOVERSE = "llvm -mtriple=aarch64-linux-gnu -mcpu=neoverse-n1"
# What widens a vector, and what would widen less: a scalar, a part of it.
WHOLE = {
    ("float16", SKYLAKE): (r"vcvtph2ps\s.*%zmm", r"vcvtph2ps\s.*%[xy]mm"),
    ("bfloat16", SKYLAKE): (r"vpslld\s+\$16, %zmm", r"vpslld\s+\$16, %[xy]mm"),
    ("float16", HASWELL): (r"vcvtph2ps\s.*%ymm", r"vcvtph2ps\s.*, %xmm"),
    ("bfloat16", HASWELL): (r"vpslld\s+\$16, %ymm", r"vpslld\s+\$16, %xmm"),
    ("float16", NEOVERSE): (r"fcvtl2?\s+v\d+\.4s", r"fcvt\s+s"),
    ("bfloat16", NEOVERSE): (r"u?shll2?\s+v\d+\.4s", r"lsl\s+w\d+, w\d+, #16"),
}
LAYERS: dict[str, Workload] = {
    "dense": DenseWorkload(1, 256, 1024),
    "rows": DenseWorkload(8, 256, 1024),
    "conv": ConvWorkload(1, 16, 7, 7, 32, (3, 3), padding=(1, 1, 1, 1)),
}


@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("types", [FP16_WEIGHTS, BF16_WEIGHTS], ids=lambda types: types.weight)
@pytest.mark.parametrize("spec", [SKYLAKE, HASWELL, NEOVERSE], ids=lambda spec: spec[-9:])
def test_whole_vectors(spec: str, types: Types, layer: str) -> None:
    target, workload = parse_target(spec), LAYERS[layer]
    narrow: Workload = replace(workload, types=types)  # type: ignore[type-var]
    best = ranked(narrow, target.cpu)[0]
    built = tvm.compile(kernel(narrow, best.config, target.cpu), target=target.target)
    assembly = built.mod.inspect_source("asm")
    whole, part = WHOLE[types.weight, spec]
    assert re.search(whole, assembly)
    assert not re.search(part, assembly)


def test_only_cpus_with_the_instructions_take_them() -> None:
    core2 = parse_target("llvm -mtriple=x86_64-linux-gnu -mcpu=core2").cpu
    assert implementations(DenseWorkload(1, 64, 64, FP32), core2)
    assert not implementations(DenseWorkload(1, 64, 64, FP16_WEIGHTS), core2)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_every_number_is_widened_as_numpy_does(dtype: str) -> None:
    """All 65536 of them: zeros, subnormal numbers, infinities; a NaN stays one."""
    kind = ml_dtypes.bfloat16 if dtype == "bfloat16" else np.float16
    every = np.arange(1 << 16, dtype="uint16").view(kind)
    packed = as_packed(every)
    read = te.placeholder(packed.shape, str(packed.dtype), "w")
    wide = te.compute(packed.shape, lambda i: widened(read(i), "float32"), name="wide")
    sch = tvm.s_tir.Schedule(te.create_prim_func([read, wide]))
    (loop,) = sch.get_loops(sch.get_sblock("wide"))
    sch.vectorize(sch.split(loop, [None, 8])[1])
    found = run(sch.mod["main"], [packed], packed.shape, "float32")
    np.testing.assert_array_equal(found, every.astype("float32"))
