"""What tests of arenas share: the bytes that a module allocates, runs, a module with a branch."""

from __future__ import annotations

import re

import numpy as np
import tvm
from tvm import relax
from tvm.script import ir as I
from tvm.script import relax as R


@I.ir_module
class Branch:
    """Two ways through a network: its memory is not one line of lifetimes."""

    @R.function
    def main(x: R.Tensor((4,), "float32"), flag: R.Tensor((), "bool")) -> R.Tensor((4,), "float32"):
        if flag:
            y: R.Tensor((4,), "float32") = R.nn.relu(x)
        else:
            y: R.Tensor((4,), "float32") = R.negative(x)
        return y


def allocated_bytes(mod: tvm.IRModule, name: str = "main") -> list[int]:
    """The size of each storage that a function allocates, once its memory is planned."""
    text = mod[name].script()
    return [int(size) for size in re.findall(r"alloc_storage\(R.shape\(\[(\d+)\]\)", text)]


def conv(rng: np.random.Generator, x: relax.Var, channels: int) -> relax.Expr:
    """A 3x3 convolution that keeps the image."""
    weight = rng.normal(size=(channels, int(x.ty.shape[1]), 3, 3)).astype("float32") / 8
    return relax.op.nn.conv2d(x, relax.const(weight), padding=1)


def run_twice(built: tvm.runtime.Module, *inputs: np.ndarray) -> list[np.ndarray]:
    """The results of a second run, which finds what the first one left in memory."""
    machine = relax.VirtualMachine(built, tvm.cpu())
    for _ in range(2):
        found = machine["main"](*map(tvm.runtime.tensor, inputs))
    found = [found] if isinstance(found, tvm.runtime.Tensor) else list(found)
    return [each.numpy() for each in found]
