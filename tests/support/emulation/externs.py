"""What compiled kernels call: TVM's runtime, the C library, the mathematical functions."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from emulation.machine import EmulationError, Machine

Extern = Callable[[Machine], "int | None"]
TASK_DONE = "a task of a parallel loop is done"
# TVM's memory for one call of a kernel.
_ENVIRONMENT_BYTES = 16


@dataclass
class _ParallelLoop:
    function: int
    data: int
    count: int
    environment: int
    back: int
    next: int = 0


@dataclass
class Runtime:
    """TVM's runtime, as far as kernels call it; parallel loops run one task after another.

    ``tasks``: into how many a parallel loop of unknown size is split. Each has one chunk or none,
    and the last one runs first: in rising order a chunk would mend what the one before it wrote
    too much.
    """

    tasks: int = 64
    _loops: list[_ParallelLoop] = field(default_factory=list)
    _workspaces: dict[int, int] = field(default_factory=dict)

    def externs(self) -> dict[str, Extern]:
        return {
            "TVMBackendParallelLaunch": self._launch,
            "TVMBackendParallelBarrier": self._barrier,
            "TVMBackendAllocWorkspace": self._allocate,
            "TVMBackendFreeWorkspace": self._free,
            "TVMFFIErrorSetRaisedFromCStrParts": _raised_parts,
            "TVMFFIErrorSetRaisedFromCStr": _raised,
            TASK_DONE: self._task_done,
            **C_LIBRARY,
            **MATHEMATICS,
        }

    def _launch(self, machine: Machine) -> int:
        """(function, data, count): function(task, {sync, count}, data) for every task."""
        function, data, count = (machine.integer(at) for at in range(3))
        count = count & 0xFFFFFFFF or self.tasks
        environment = machine.allocate(_ENVIRONMENT_BYTES)
        machine.write(environment, struct.pack("<QiI", 0, count, 0))
        self._loops.append(_ParallelLoop(function, data, count, environment, machine.link()))
        return self._next_task(machine)

    def _next_task(self, machine: Machine) -> int:
        loop = self._loops[-1]
        if loop.next == loop.count:
            self._loops.pop()
            machine.release(loop.environment, _ENVIRONMENT_BYTES)
            machine.return_integer(0)
            machine.set_link(loop.back)
            return loop.back
        loop.next += 1
        for at, value in enumerate((loop.count - loop.next, loop.environment, loop.data)):
            machine.set_integer(at, value)
        machine.set_link(machine.stub(TASK_DONE))
        return loop.function

    def _task_done(self, machine: Machine) -> int:
        if machine.integer(0) & 0xFFFFFFFF:
            raise EmulationError("a task of a parallel loop failed")
        return self._next_task(machine)

    def _barrier(self, machine: Machine) -> None:
        raise EmulationError("a barrier: tasks that wait for each other cannot run in turn")

    def _allocate(self, machine: Machine) -> None:
        """(device type, device, bytes, type code, bits)."""
        size = machine.integer(2)
        address = machine.allocate(size)
        # What a kernel reads and has not written shows in its output.
        machine.write(address, b"\xff" * size)
        self._workspaces[address] = size
        machine.return_integer(address)

    def _free(self, machine: Machine) -> None:
        address = machine.integer(2)
        machine.release(address, self._workspaces.pop(address))
        machine.return_integer(0)


def _raised(machine: Machine) -> None:
    raise EmulationError(": ".join(machine.text(machine.integer(at)) for at in (0, 1)))


def _raised_parts(machine: Machine) -> None:
    parts, count = machine.integer(1), machine.integer(2) & 0xFFFFFFFF
    addresses = struct.unpack(f"<{count}Q", machine.read(parts, 8 * count))
    text = "".join(machine.text(address) for address in addresses if address)
    raise EmulationError(f"{machine.text(machine.integer(0))}: {text}")


def _memset(machine: Machine) -> None:
    to, byte, size = (machine.integer(at) for at in range(3))
    machine.write(to, bytes([byte & 0xFF]) * size)


def _memcpy(machine: Machine) -> None:
    to, source, size = (machine.integer(at) for at in range(3))
    machine.write(to, machine.read(source, size))


C_LIBRARY: dict[str, Extern] = {"memset": _memset, "memcpy": _memcpy, "memmove": _memcpy}


def _mathematical(function: Callable[..., np.floating], dtype: str, operands: int) -> Extern:
    def call(machine: Machine) -> None:
        values = [machine.floating(at, dtype).astype("float64") for at in range(operands)]
        with np.errstate(all="ignore"):
            machine.return_floating(np.asarray(function(*values)).astype(dtype)[()])

    return call


_FUNCTIONS: dict[str, tuple[Callable[..., np.floating], int]] = {
    **{name: (getattr(np, name), 1) for name in ("exp", "exp2", "log", "log2", "log10", "log1p")},
    **{name: (getattr(np, name), 1) for name in ("sin", "cos", "tan", "tanh", "sinh", "cosh")},
    **{f"a{name}": (getattr(np, f"arc{name}"), 1) for name in ("sin", "cos", "tan")},
    **{f"a{name}": (getattr(np, f"arc{name}"), 1) for name in ("sinh", "cosh", "tanh")},
    "expm1": (np.expm1, 1),
    "pow": (np.power, 2),
    "fmod": (np.fmod, 2),
    "atan2": (np.arctan2, 2),
    "round": (lambda x: np.trunc(x + np.copysign(0.5, x)), 1),
}
MATHEMATICS: dict[str, Extern] = {
    name + suffix: _mathematical(function, dtype, operands)
    for name, (function, operands) in _FUNCTIONS.items()
    for suffix, dtype in (("f", "float32"), ("", "float64"))
}
