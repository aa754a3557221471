"""The emulator's own rules: what it refuses, and what it computes itself."""

from __future__ import annotations

import struct

import numpy as np
import pytest
import tvm
from tvm import te, tirx

pytest.importorskip("unicorn", reason="Unicorn, the emulator, is not installed")

from emulation.instructions import execute
from emulation.kernels import arm, compiled
from emulation.machine import BadAccessError, EmulationError, Machine
from unicorn.arm64_const import UC_ARM64_REG_Q0

A72 = arm("cortex-a72")
LENGTH = 64


def reading(offset: int, writes_input: bool = False) -> tirx.PrimFunc:
    """out[i] = data[i + offset] + 1, without checks of the bounds."""
    data = te.placeholder((LENGTH,), name="data")
    out = te.compute((LENGTH,), lambda i: data[i + offset] + 1.0)
    return te.create_prim_func([data, out])


def test_a_kernel_computes() -> None:
    data = np.arange(LENGTH, dtype="float32")
    found = compiled(reading(0), A72)("main", [data, np.zeros_like(data)])
    np.testing.assert_array_equal(found[0], data + 1)


@pytest.mark.parametrize("offset", [LENGTH, -4096])
def test_reading_outside_of_a_tensor_is_seen(offset: int) -> None:
    data = np.zeros(LENGTH, "float32")
    with pytest.raises(BadAccessError, match="which belong to nothing, by"):
        compiled(reading(offset), A72)("main", [data, data])


def test_writing_an_input_is_seen() -> None:
    kernels = compiled(reading(0), A72)
    data = np.zeros(LENGTH, "float32")
    with pytest.raises(EmulationError):
        kernels("main", [data, data], outputs=0)


def test_a_wrong_argument_is_the_kernels_own_complaint() -> None:
    kernels = compiled(reading(0), A72)
    with pytest.raises(EmulationError, match="shape"):
        kernels("main", [np.zeros(3, "float32"), np.zeros(LENGTH, "float32")])


def test_an_unknown_instruction_is_named_by_its_bits() -> None:
    machine = Machine({})
    at = machine.allocate(4)
    machine.write(at, struct.pack("<I", 0x4E80A400))  # smmla, of i8mm
    with pytest.raises(EmulationError, match="exception 1 at"):
        machine.call(at)


@pytest.mark.parametrize(
    ("word", "data", "weights"),
    [
        (0x4E829C20, (np.uint8, 1), (np.int8, 2)),  # usdot v0.4s, v1.16b, v2.16b
        (0x4FA2F820, (np.uint8, 1), (np.int8, 2)),  # usdot v0.4s, v1.16b, v2.4b[3]
        (0x4F22F820, (np.int8, 1), (np.uint8, 2)),  # sudot v0.4s, v1.16b, v2.4b[3]
    ],
)
def test_dot_products_that_the_emulator_lacks(word: int, data, weights) -> None:
    machine, rng = Machine({}), np.random.default_rng(0)
    values = {}
    for dtype, register in (data, weights):
        info = np.iinfo(dtype)
        values[register] = rng.integers(info.min, info.max, 16, dtype, endpoint=True)
    total = rng.integers(-(2**31), 2**31, 4, np.int32)
    for register, array in ((0, total), *values.items()):
        bits = int.from_bytes(array.tobytes(), "little")
        machine.cpu.reg_write(UC_ARM64_REG_Q0 + register, bits)
    assert execute(machine.cpu, word)
    factor = values[2].astype(np.int64).reshape(4, 4)
    if word & 0x0F000000 == 0x0F000000:
        factor = factor[[3]]  # one word of four, by all lanes
    expected = total + (values[1].astype(np.int64).reshape(4, 4) * factor).sum(axis=1)
    found = int(machine.cpu.reg_read(UC_ARM64_REG_Q0)).to_bytes(16, "little")
    np.testing.assert_array_equal(np.frombuffer(found, np.int32), expected.astype(np.int32))


def test_a_parallel_loop_runs_all_its_tasks() -> None:
    @tvm.script.ir_module
    class Squares:
        @tvm.script.tirx.prim_func
        def main(out: tvm.script.tirx.Buffer((13,), "int32")):
            for i in tvm.script.tirx.parallel(13):
                out[i] = i * i

    (found,) = compiled(Squares, A72)("main", [np.zeros(13, "int32")])
    np.testing.assert_array_equal(found, np.arange(13) ** 2)
