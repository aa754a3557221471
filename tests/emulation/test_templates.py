"""Templates compiled for ARM cores and executed in an emulator, against NumPy.

The cores differ in what LLVM may use: NEON alone, dot products of signed bytes, dot products of
bytes of different signs beside SVE. `make nightly` runs every workload on every core.
"""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from template_draws import draw_workload
from template_workloads import TEMPLATES, WORKLOADS, epilogues, favourite

pytest.importorskip("unicorn", reason="Unicorn, the emulator, is not installed")

from emulation.kernels import arm, executing
from samples import BIAS, check

from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_amx.geometry import (
    Bf16RowsConfig,
    Bf16TilesConfig,
    IntegerRowsConfig,
    IntegerTilesConfig,
)
from tvm_neocpu.topi.conv2d_bf16.geometry import Bf16Config
from tvm_neocpu.topi.conv2d_im2col.geometry import Im2colConfig
from tvm_neocpu.topi.conv2d_integer_rows.geometry import ImageRowsConfig
from tvm_neocpu.topi.conv2d_split.geometry import SplitConfig
from tvm_neocpu.topi.conv2d_winograd_bf16.geometry import Bf16WinogradConfig
from tvm_neocpu.topi.dense_bf16.geometry import Bf16DenseConfig
from tvm_neocpu.topi.table import implementations

A72, N1, V1 = "cortex-a72", "neoverse-n1", "neoverse-v1"
TARGETS = {core: arm(core) for core in (A72, N1, V1)}
# A small case for each template, at every run of the tests.
QUICK = {
    "conv2d_NCHWc": ("filled vectors", A72),
    "conv2d_NCHWc_winograd": ("asymmetric padding", A72),
    "depthwise_conv2d_NCHWc": ("depthwise, prime", A72),
    "conv2d_NCHWc_im2col": ("batch of pixels", A72),
    "conv2d_NCHWc_to_few": ("one output", A72),
    "deform_conv2d_NCHWc": ("deformable, a batch", A72),
    "conv2d_NCHWc_int": ("zero point 1", N1),
    "depthwise_conv2d_NCHWc_int": ("integers, depthwise, rows", A72),
    "conv2d_NCHWc_winograd_int": ("integers, image of four", A72),
    "dense_pack": ("batch 1", A72),
    "dense_gemm": ("rows a page apart", A72),
    "dense_int": ("integers, prime", V1),
    "batch_matmul_pack": ("matmul, odd", V1),
    "layout_transform": ("wider blocks", A72),
}
# No ARM core multiplies bytes faster where their sums are small, or adds up a word of them without
# temporaries; bf16 takes vdpbf16ps; AMX is x86's.
X86_ONLY = {
    *(IntegerTilesConfig.template, Bf16TilesConfig.template),
    *(IntegerRowsConfig.template, Bf16RowsConfig.template),
    *(SplitConfig.template, ImageRowsConfig.template, Bf16Config.template),
    *(Bf16WinogradConfig.template, Bf16DenseConfig.template),
}
ON_ARM = [template for template in TEMPLATES if template not in X86_ONLY]
# The emulator knows no usdot: it is computed in Python there, some 50,000 a second.
MOST_MULTIPLY_ADDS = 3e6
ALL = [
    pytest.param(entry.name, shape, core, id=f"{entry.name}-{core}-{shape}")
    for core, target in TARGETS.items()
    for shape, workload in WORKLOADS.items()
    if workload.flops <= 2 * MOST_MULTIPLY_ADDS
    for entry in implementations(workload, target.cpu)
]


def run_template(template: str, shape: str, core: str) -> None:
    workload, target = WORKLOADS[shape], TARGETS[core]
    known = epilogues(workload)
    epilogue = known["residual"] if "residual" in known else known["none"]
    config = favourite(template, workload, target.cpu)
    check(workload, config, target.cpu, epilogue, executing(target))


@pytest.mark.parametrize("template", ON_ARM)
def test_a_workload_of_each(template: str) -> None:
    run_template(template, *QUICK[template])


@pytest.mark.slow
@pytest.mark.parametrize(("template", "shape", "core"), ALL)
def test_odd_shapes(template: str, shape: str, core: str) -> None:
    run_template(template, shape, core)


@pytest.mark.slow
@pytest.mark.parametrize("template", ON_ARM)
@given(data=st.data())
@settings(max_examples=15, suppress_health_check=list(HealthCheck))
def test_any_config_of_any_workload(template: str, data: st.DataObject) -> None:
    target = TARGETS[data.draw(st.sampled_from([A72, N1]), "core")]
    workload = draw_workload(data, template, target.cpu)
    config = data.draw(st.sampled_from(TEMPLATES[template].space(workload, target.cpu)), "config")
    known = epilogues(workload)
    epilogue = data.draw(st.sampled_from(sorted(known)), "epilogue")
    check(workload, config, target.cpu, known[epilogue], executing(target))


@pytest.mark.parametrize("tiles", [1, 3, 7])
@pytest.mark.parametrize("reg_n", [4, 6])
def test_chunks_of_pixels_read_in_place(reg_n: int, tiles: int) -> None:
    """196 pixels in tiles of 6 leave 4: no chunk may store what another one computes."""
    image = ConvWorkload(1, 16, 14, 14, 16, (1, 1))
    config = Im2colConfig(16, 16, reg_n, tiles)
    check(image, config, TARGETS[A72].cpu, BIAS, executing(TARGETS[A72]))
