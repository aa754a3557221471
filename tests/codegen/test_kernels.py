"""Kernels compiled in several modules at once are the functions that were asked for."""

from __future__ import annotations

import numpy as np
import tvm
from small_kernels import adds

from tvm_neocpu.codegen.kernels import KERNELS_PER_MODULE, compile_kernels
from tvm_neocpu.targets import parse_target

COUNT = 2 * KERNELS_PER_MODULE + 1


def test_every_kernel_is_in_one_module() -> None:
    target = parse_target().target
    modules = compile_kernels(
        {f"add{n}": adds(n).with_attr("global_symbol", f"add{n}") for n in range(COUNT)}, target
    )
    assert len(modules) == 3
    assert sorted(map(len, modules)) == [5, 6, 6]
    data = tvm.runtime.tensor(np.arange(4, dtype=np.float32))
    for names, module in modules.items():
        for name in names:
            out = tvm.runtime.empty((4,), "float32")
            module[name](data, out)
            np.testing.assert_array_equal(out.numpy(), data.numpy() + int(name[3:]))
    assert compile_kernels({}, target) == {}
