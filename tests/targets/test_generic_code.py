"""The warning about code for a generic CPU: when it is given, and that its advice is right."""

from __future__ import annotations

import ast
import re

import pytest
import tvm

from tvm_neocpu.core.machine.cpu import NEON, SSE
from tvm_neocpu.runtime.process import host as host_cpu
from tvm_neocpu.targets import (
    GenericTargetWarning,
    describe_target,
    parse_target,
    warn_of_generic_code,
)


def test_the_advice_of_the_warning_is_right() -> None:
    if parse_target("llvm").cpu.isa in (SSE, NEON):
        pytest.skip("this machine has nothing better than the baseline")
    with pytest.warns(GenericTargetWarning) as caught:
        warn_of_generic_code(describe_target(tvm.target.Target("llvm")))
    config = re.search(r"Target\(({.*?})\)", str(caught[0].message))
    assert config is not None
    advised = tvm.target.Target(ast.literal_eval(config[1]))
    assert describe_target(advised).cpu == parse_target("llvm").cpu


@pytest.mark.parametrize("text", ["llvm -mcpu=x86-64", "llvm -mtriple=aarch64-linux-gnu"])
def test_a_baseline_asked_for_is_no_mistake(text: str, recwarn: pytest.WarningsRecorder) -> None:
    if host_cpu.arch_of(host_cpu.triple()) != "x86_64":
        pytest.skip("x86 only")
    warn_of_generic_code(parse_target(text))
    assert not list(recwarn)
