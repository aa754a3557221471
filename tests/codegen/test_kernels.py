"""Kernels compiled in several modules at once are the functions that were asked for."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import tvm
from small_kernels import adds
from tvm import tirx
from tvm.error import InternalError
from tvm.ir.instrument import pass_instrument
from tvm.ir.transform import PassContext

from tvm_neocpu.codegen import kernels
from tvm_neocpu.codegen.kernels import (
    KERNELS_PER_MODULE,
    NEEDLESS,
    NEEDLESS_AGAIN,
    build_module,
    compile_kernels,
)
from tvm_neocpu.core.network.config import Config
from tvm_neocpu.targets import parse_target
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_direct.geometry import ConvConfig
from tvm_neocpu.topi.conv2d_winograd.geometry import WinogradConfig
from tvm_neocpu.topi.kernel import kernel
from tvm_neocpu.topi.tir.tiles.forget_locals import is_compacted

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


def test_a_lone_kernel_has_no_entry() -> None:
    named = {"one": adds(1).with_attr("global_symbol", "one")}
    code = build_module(named, parse_target().target, PassContext()).inspect_source()
    assert "@__tvm_ffi_one(" in code
    assert "@__tvm_ffi_main(" not in code


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
        build_module(module, target, PassContext(disabled_pass=["tirx.StorageRewrite"]))
    assert disabled == ["tirx.StorageRewrite", *NEEDLESS]


@pytest.mark.parametrize("config", [ConvConfig(8, 8, 4), WinogradConfig(8, 8, 4, 4)])
def test_what_is_compacted_needs_no_second_time(
    config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same code, without the passes that made its buffers small before."""
    conv = ConvWorkload(1, 16, 9, 9, 24, (3, 3), padding=(1, 1, 1, 1))
    described = parse_target("llvm -mtriple=x86_64-linux-gnu -mcpu=haswell")
    func = kernel(conv, config, described.cpu).with_attr("global_symbol", "conv")
    assert is_compacted(func)
    ran: list[str] = []

    @pass_instrument
    class Names:
        def run_before_pass(self, _: tvm.IRModule, info: tvm.transform.PassInfo) -> None:
            ran.append(info.name)

    def code(needless: tuple[str, ...]) -> str:
        monkeypatch.setattr(kernels, "NEEDLESS_AGAIN", needless)
        monkeypatch.setattr(kernels, "PassContext", partial(PassContext, instruments=[Names()]))
        ran.clear()
        module = build_module({"conv": func}, described.target, PassContext.current())
        return str(module.inspect_source("asm"))

    without = code(kernels.NEEDLESS_AGAIN)
    assert set(ran).isdisjoint(NEEDLESS_AGAIN)
    assert code(()) == without
    assert set(NEEDLESS_AGAIN) <= set(ran)


def test_invalid_code_is_optimised_less(monkeypatch: pytest.MonkeyPatch) -> None:
    build, levels = tirx.build, []

    def invalid_at_first(mod: tvm.IRModule, target: tvm.target.Target) -> tvm.runtime.Module:
        levels.append(target.attrs.get("opt-level"))
        if len(levels) < 3:
            raise InternalError("LLVM module verification failed with the following errors: ..")
        return build(mod, target)

    monkeypatch.setattr(kernels.tirx, "build", invalid_at_first)
    module = {"add1": adds(1).with_attr("global_symbol", "add1")}
    built = build_module(module, parse_target().target, PassContext.current())
    assert levels == [None, 2, 1] and built.implements_function("add1")


def test_another_error_is_raised_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise InternalError("no such intrinsic")

    monkeypatch.setattr(kernels.tirx, "build", fails)
    with pytest.raises(InternalError, match="no such intrinsic"):
        build_module({}, parse_target().target, PassContext.current())


def test_a_convolution_of_which_llvm_made_invalid_code() -> None:
    """LLVM 22 at level 3, for AVX2: an instruction did not dominate all its uses."""
    target = parse_target("llvm -mtriple=x86_64-linux-gnu -mcpu=znver3")
    conv = ConvWorkload(4, 1, 11, 11, 6, (3, 3), padding=(1, 1, 1, 1))
    config = ConvConfig(0, 1, 2, unroll_ker=True, oh_bn=1, parallel_oc=True)
    func = kernel(conv, config, target.cpu).with_attr("global_symbol", "conv")
    built = build_module({"conv": func}, target.target, PassContext.current())
    assert built.implements_function("conv")
