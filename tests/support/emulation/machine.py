"""An aarch64 CPU with NEON and memory: Unicorn, an emulator as a library (QEMU's CPUs).

Every tensor has pages of its own and ends where an unmapped page begins, but for the 63 bytes that
alignment may leave: code that reads or writes behind a tensor stops with :class:`BadAccessError`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
from unicorn import (
    UC_ARCH_ARM64,
    UC_HOOK_BLOCK,
    UC_HOOK_CODE,
    UC_HOOK_INTR,
    UC_HOOK_MEM_INVALID,
    UC_MODE_ARM,
    UC_PROT_READ,
    Uc,
    UcError,
)
from unicorn.arm64_const import (
    UC_ARM64_REG_CP_REG,
    UC_ARM64_REG_CPACR_EL1,
    UC_ARM64_REG_D0,
    UC_ARM64_REG_D1,
    UC_ARM64_REG_D8,
    UC_ARM64_REG_LR,
    UC_ARM64_REG_PC,
    UC_ARM64_REG_S0,
    UC_ARM64_REG_S1,
    UC_ARM64_REG_SP,
    UC_ARM64_REG_X0,
    UC_ARM64_REG_X16,
    UC_ARM64_REG_X19,
    UC_CPU_ARM64_MAX,
)

from emulation.instructions import execute
from emulation.object_file import PAGE, LoadedObject, load_object

# Code calls what is within 128 MiB: the stubs lie near.
STUBS, CODE, STACK, HEAP = 0x1FF0_0000, 0x2000_0000, 0x6000_0000, 0x1_0000_0000
STACK_BYTES = 1 << 20
# An access to a tensor's start has this alignment, as TVM allocates.
ALIGNMENT = 64
_BRANCH_TO_X16 = 0xD61F0200
# NEON and SVE for everybody: CPACR_EL1.FPEN and ZEN, CPTR_EL3.EZ (its coordinates, its value).
_FPEN_ZEN = 3 << 20 | 3 << 16
_CPTR_EL3_EZ = (1, 1, 3, 6, 2, 1 << 8)
_UNDEFINED_INSTRUCTION = 1
_MAX_STUBS = 1024
# Registers that a function must give back as they were: x19 to x28, and half of v8 to v15.
_SAVED = [*range(UC_ARM64_REG_X19, UC_ARM64_REG_X19 + 10)]
_SAVED += [*range(UC_ARM64_REG_D8, UC_ARM64_REG_D8 + 8)]


class EmulationError(Exception):
    """The emulated code did what no correct code does, or what the emulator does not know."""


class BadAccessError(EmulationError):
    """An address that belongs to nothing was read or written."""


@dataclass
class Machine:
    """Memory, registers and the functions that emulated code may call.

    An extern is called with the machine, finds its arguments in registers and returns the address
    to go on at; ``None`` returns to the caller.
    """

    externs: dict[str, Callable[[Machine], int | None]]
    loaded: list[LoadedObject] = field(default_factory=list)
    error: Exception | None = None

    def __post_init__(self) -> None:
        self.cpu = Uc(UC_ARCH_ARM64, UC_MODE_ARM)
        self.cpu.ctl_set_cpu_model(UC_CPU_ARM64_MAX)
        self.cpu.reg_write(UC_ARM64_REG_CPACR_EL1, _FPEN_ZEN)
        self.cpu.reg_write(UC_ARM64_REG_CP_REG, _CPTR_EL3_EZ)
        self.cpu.mem_map(STACK, STACK_BYTES)
        self.cpu.mem_map(STUBS, PAGE)
        self.cpu.mem_write(STUBS, struct.pack("<I", _BRANCH_TO_X16) * _MAX_STUBS)
        self.cpu.hook_add(UC_HOOK_CODE, self._called, begin=STUBS, end=STUBS + PAGE - 1)
        self.cpu.hook_add(UC_HOOK_MEM_INVALID, self._invalid)
        self.cpu.hook_add(UC_HOOK_INTR, self._interrupted)
        self._stubs: dict[str, int] = {}
        self._names: dict[int, str] = {}
        self._next_code, self._next_page = CODE, HEAP
        self._finish = self.stub("the end of the call")

    # Code ---------------------------------------------------------------------------------------

    def stub(self, name: str) -> int:
        """The address of a function outside of the emulated code."""
        if name not in self._stubs:
            at = STUBS + 4 * len(self._stubs)
            self._stubs[name], self._names[at] = at, name
        return self._stubs[name]

    def load(self, content: bytes) -> LoadedObject:
        """Place an object file in memory; TVM's pointers to its runtime are filled in."""
        found = load_object(content, self._next_code, self.stub)
        self.cpu.mem_map(found.base, len(found.image))
        self.cpu.mem_write(found.base, found.image)
        for name, address in found.data.items():
            if name.startswith("__TVM"):
                self.cpu.mem_write(address, struct.pack("<Q", self.stub(name.removeprefix("__"))))
        self._next_code += len(found.image) + PAGE
        self.loaded.append(found)
        return found

    def call(self, address: int, *arguments: int) -> int:
        """Call a function of integer arguments; returns x0. Raises EmulationError."""
        top = STACK + STACK_BYTES - PAGE
        for at, argument in enumerate(arguments):
            self.cpu.reg_write(UC_ARM64_REG_X0 + at, argument)
        saved = [self.cpu.reg_read(register) for register in _SAVED]
        self.cpu.reg_write(UC_ARM64_REG_SP, top)
        self.cpu.reg_write(UC_ARM64_REG_LR, self._finish)
        self.error = None
        try:
            self.cpu.emu_start(address, self._finish)
        except UcError as error:
            raise self.error or EmulationError(f"{error} at {self.place()}") from error
        if self.error is not None:
            raise self.error
        assert self.cpu.reg_read(UC_ARM64_REG_PC) == self._finish
        if self.cpu.reg_read(UC_ARM64_REG_SP) != top:
            raise EmulationError("the stack pointer is not what it was")
        if saved != [self.cpu.reg_read(register) for register in _SAVED]:
            raise EmulationError("a register that belongs to the caller was changed")
        return int(self.cpu.reg_read(UC_ARM64_REG_X0))

    def place(self) -> str:
        """Where the CPU is: function, offset, the instruction's bits."""
        pc = self.cpu.reg_read(UC_ARM64_REG_PC)
        if pc in self._names:
            return self._names[pc]
        for found in self.loaded:
            for name, start in found.functions.items():
                if start <= pc < start + found.sizes[name]:
                    (word,) = struct.unpack("<I", self.cpu.mem_read(pc, 4))
                    return f"{name}+{pc - start:#x} (instruction {word:#010x})"
        return f"{pc:#x}"

    @contextmanager
    def blocks(self) -> Iterator[dict[tuple[int, int], int]]:
        """Counts of (address, bytes) of the straight pieces of code that run meanwhile."""
        counts: dict[tuple[int, int], int] = {}

        def entered(_: Uc, address: int, size: int, __: object) -> None:
            counts[address, size] = counts.get((address, size), 0) + 1

        hook = self.cpu.hook_add(UC_HOOK_BLOCK, entered)
        try:
            yield counts
        finally:
            self.cpu.hook_del(hook)

    def _called(self, cpu: Uc, address: int, size: int, _: object) -> None:
        """A stub is entered: do what its function does, and say where to go on."""
        name = self._names[address]
        try:
            if name not in self.externs:
                raise EmulationError(f"no function {name} is known here")
            onward = self.externs[name](self)
        except Exception as error:  # it must not travel through the emulator's C code
            self.error = error
            cpu.emu_stop()
            return
        cpu.reg_write(UC_ARM64_REG_X16, cpu.reg_read(UC_ARM64_REG_LR) if onward is None else onward)

    def _interrupted(self, cpu: Uc, number: int, _: object) -> None:
        pc = cpu.reg_read(UC_ARM64_REG_PC)
        (word,) = struct.unpack("<I", cpu.mem_read(pc, 4))
        if number == _UNDEFINED_INSTRUCTION and execute(cpu, word):
            cpu.reg_write(UC_ARM64_REG_PC, pc + 4)
            return
        self.error = EmulationError(f"exception {number} at {self.place()}")
        cpu.emu_stop()

    def _invalid(self, _: Uc, __: int, address: int, size: int, value: int, ___: object) -> bool:
        text = f"{size} bytes at {address:#x}, which belong to nothing, by {self.place()}"
        self.error = BadAccessError(text)
        return False

    # Registers ----------------------------------------------------------------------------------

    def integer(self, at: int) -> int:
        return int(self.cpu.reg_read(UC_ARM64_REG_X0 + at))

    def return_integer(self, value: int) -> None:
        self.cpu.reg_write(UC_ARM64_REG_X0, value & (2**64 - 1))

    def set_integer(self, at: int, value: int) -> None:
        self.cpu.reg_write(UC_ARM64_REG_X0 + at, value)

    def link(self) -> int:
        """Where the running call returns to."""
        return int(self.cpu.reg_read(UC_ARM64_REG_LR))

    def set_link(self, address: int) -> None:
        self.cpu.reg_write(UC_ARM64_REG_LR, address)

    def floating(self, at: int, dtype: str) -> np.floating:
        register = {"float32": (UC_ARM64_REG_S0, UC_ARM64_REG_S1)}.get(
            dtype, (UC_ARM64_REG_D0, UC_ARM64_REG_D1)
        )[at]
        kind = {"float32": np.uint32, "float64": np.uint64}[dtype]
        return kind(self.cpu.reg_read(register)).view(dtype)

    def return_floating(self, value: np.floating) -> None:
        size = value.itemsize
        bits = int(value.view({4: np.uint32, 8: np.uint64}[size]))
        self.cpu.reg_write({4: UC_ARM64_REG_S0, 8: UC_ARM64_REG_D0}[size], bits)

    # Memory -------------------------------------------------------------------------------------

    def allocate(self, size: int, writeable: bool = True) -> int:
        """Memory that ends where a page does, with an unmapped page behind it."""
        held = -(-max(size, 1) // ALIGNMENT) * ALIGNMENT
        pages = -(-held // PAGE) * PAGE
        start = self._next_page
        self._next_page += pages + PAGE
        self.cpu.mem_map(start, pages)
        if not writeable:
            self.cpu.mem_protect(start, pages, UC_PROT_READ)
        return start + pages - held

    def release(self, address: int, size: int) -> None:
        """Give back what :meth:`allocate` gave."""
        start = address - address % PAGE
        self.cpu.mem_unmap(start, -(-(address - start + max(size, 1)) // PAGE) * PAGE)

    def place_array(self, array: npt.NDArray, writeable: bool = True) -> int:
        address = self.allocate(array.nbytes, writeable)
        self.cpu.mem_write(address, np.ascontiguousarray(array).tobytes())
        return address

    def read(self, address: int, size: int) -> bytes:
        return bytes(self.cpu.mem_read(address, size))

    def write(self, address: int, content: bytes) -> None:
        self.cpu.mem_write(address, content)

    def text(self, address: int) -> str:
        """A string of C."""
        found = bytearray()
        while (byte := self.cpu.mem_read(address + len(found), 1)[0]) != 0:
            found.append(byte)
        return found.decode()
