"""What ARM cores execute in the loop where a kernel spends its time: products, and little else."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("unicorn", reason="Unicorn, the emulator, is not installed")

from emulation.kernels import arm, compiled
from emulation.listing import Instruction, hottest, instructions_of
from samples import sample, unwritten
from template_workloads import favourite
from tvm import te

from tvm_neocpu.core.network.workload import Workload
from tvm_neocpu.core.types import U8S8
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.schedule_function import schedule_function
from tvm_neocpu.topi.table import implementation_of

POINTWISE = ConvWorkload(1, 64, 7, 14, 64, (1, 1))
WINDOW = ConvWorkload(1, 32, 7, 14, 32, (3, 3), padding=(1, 1, 1, 1))
BYTES = ConvWorkload(1, 64, 7, 14, 64, (1, 1), types=U8S8)
DIRECT, INTEGER = "conv2d_NCHWc", "conv2d_NCHWc_int"
CASES = [
    # core, template, workload, what multiplies, its least share of all instructions
    ("cortex-a72", DIRECT, POINTWISE, "fmla by element", 0.5),
    ("cortex-a72", DIRECT, WINDOW, "fmla by element", 0.45),
    ("cortex-a72", INTEGER, BYTES, "smlal by element", 0.55),
    ("cortex-a53", DIRECT, WINDOW, "fmla by element", 0.55),
    ("cortex-a53", INTEGER, BYTES, "smlal by element", 0.55),
    ("neoverse-n1", DIRECT, WINDOW, "fmla by element", 0.4),
    ("neoverse-n1", INTEGER, BYTES, "sdot", 0.45),
]


@pytest.mark.parametrize(("core", "template", "workload", "product", "share"), CASES)
def test_products(core: str, template: str, workload: Workload, product: str, share: float) -> None:
    """No accumulator goes to the stack or from register to register."""
    target = arm(core)
    config = favourite(template, workload, target.cpu)
    case = sample(workload, config, np.random.default_rng(0))
    inputs = [te.placeholder(a.shape, str(a.dtype), f"p{at}") for at, a in enumerate(case.inputs)]
    out = implementation_of(config).compute(*inputs, workload, config)
    func = schedule_function(te.create_prim_func([*inputs, out]), target.cpu)
    kernels = compiled(func, target)
    with kernels.machine.blocks() as blocks:
        kernels("main", [*case.inputs, unwritten(case.expected.shape, str(case.expected.dtype))])
    executed = [
        hottest(listing, blocks)
        for name in kernels.functions
        if name.startswith("chunk") and kernels.sizes[name]
        for listing in [instructions_of(kernels, name)]
        if any(start in listing for start, _ in blocks)
    ]
    loop, counts = max(executed, key=lambda found: found[1].total())
    products = sum(count for kind, count in counts.items() if kind.startswith(product))
    assert products / counts.total() >= share
    assert not [kind for kind in loop.kinds if "stack" in kind]
    assert loop.kinds["mov"] <= 2


@pytest.mark.parametrize(
    ("name", "operands", "kind"),
    [
        ("fmla", "v1.4s, v2.4s, v3.s[0]", "fmla by element"),
        ("smlal", "v1.4s, v2.4h, v3.h[1]", "smlal by element"),
        ("fmla", "v1.4s, v2.4s, v3.4s", "fmla"),
        ("str", "q3, [sp, #48]", "str (stack)"),
        ("ldr", "q3, [x1, #48]", "ldr"),
    ],
)
def test_kinds_of_instructions(name: str, operands: str, kind: str) -> None:
    assert Instruction(name, operands).kind == kind
