"""Branches share no storage: either one may be the one that runs."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm.script import ir as I
from tvm.script import relax as R

from tvm_neocpu import relay
from tvm_neocpu.relay_passes.memory.separate_branches import SeparateBranches


@I.ir_module(s_tir=True)
class Branching:
    @R.function
    def main(x: R.Tensor((4, 6), "float32"), taken: R.Tensor((), "bool")) -> R.Tensor(
        (24,), "float32"
    ):
        if taken:
            total = R.sum(x, axis=[1], keepdims=True)
            part = R.add(x, total)
            one = R.reshape(part, R.shape([24]))
            result = R.exp(one)
        else:
            largest = R.max(x, axis=[0], keepdims=True)
            part = R.subtract(x, largest)
            one = R.reshape(part, R.shape([24]))
            result = R.abs(one)
        return result


@pytest.mark.parametrize("taken", [False, True])
def test_either_branch_runs_alone(taken: bool) -> None:
    x = np.arange(24, dtype="float32").reshape(4, 6) / 20
    module = relay.build(Branching, target="llvm")["default"](tvm.cpu())
    module.set_input(0, x)
    module.set_input(1, np.array(taken))
    module.run()
    then, other = np.exp(x + x.sum(1, keepdims=True)), np.abs(x - x.max(0, keepdims=True))
    expected = (then if taken else other).ravel()
    np.testing.assert_allclose(module.get_output(0).numpy(), expected, rtol=1e-5)


def test_a_module_without_branches_stays() -> None:
    @I.ir_module(s_tir=True)
    class Straight:
        @R.function
        def main(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
            return R.exp(x)

    assert SeparateBranches()(Straight) is Straight
