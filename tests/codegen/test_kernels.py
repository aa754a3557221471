"""Kernels compiled in several modules at once are the functions that were asked for."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from small_kernels import adds
from tvm import tirx
from tvm.ir.instrument import pass_instrument
from tvm.ir.transform import PassContext

from tvm_neocpu.codegen.kernels import (
    KERNELS_PER_MODULE,
    NEEDLESS,
    build_module,
    compile_kernels,
)
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


def test_needless_passes_are_tvms_own_and_are_left_out() -> None:
    target = parse_target().target
    ran: list[str] = []

    @pass_instrument
    class Names:
        def run_before_pass(self, _: tvm.IRModule, info: tvm.transform.PassInfo) -> None:
            ran.append(info.name)

    module = {"add0": adds(0).with_attr("global_symbol", "add0")}
    with PassContext(instruments=[Names()]):
        tirx.build(tvm.IRModule(module), target)
    assert set(NEEDLESS) <= set(ran)  # by the names that this version of TVM gives them
    disabled: list[str] = []
    build = tirx.build

    def watched(mod: tvm.IRModule, target: tvm.target.Target) -> tvm.runtime.Module:
        disabled.extend(map(str, PassContext.current().disabled_pass))
        return build(mod, target)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tirx, "build", watched)
        build_module(module, target, PassContext(disabled_pass=["tirx.CommonSubexprElim"]))
    assert disabled == ["tirx.CommonSubexprElim", *NEEDLESS]
