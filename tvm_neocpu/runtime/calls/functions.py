"""The compiled functions of one library, found by the shapes of the inputs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from tvm_neocpu.core.errors import RunError, ShapeError
from tvm_neocpu.runtime.ffi.machine import Machine
from tvm_neocpu.runtime.ffi.ways import Way, whole
from tvm_neocpu.runtime.files.module_info import Entry, TensorInfo
from tvm_neocpu.runtime.process.forking import fork_lock, late_imports, renew_after_fork

if TYPE_CHECKING:
    import tvm_ffi

# A shape for each input; ``None`` for one that was never set.
Shapes = tuple[tuple[int, ...] | None, ...]
# Compiles the network for other shapes, by input name: the code, and its entry.
OnDemand = Callable[[Mapping[str, tuple[int, ...]]], "tuple[tvm_ffi.Module, Entry]"]

# How many shapes a module looks up once: a service may see any batch.
_REMEMBERED = 1024


class Library:
    """Code and its entries; grows where the network can be compiled for other shapes.

    Any number of threads may use it. A shape is compiled once, for all modules of the library.
    """

    def __init__(
        self,
        module: tvm_ffi.Module,
        entries: Sequence[Entry],
        on_demand: OnDemand | None = None,
        weights: Mapping[str, Sequence[tvm_ffi.Tensor]] | None = None,
        way: Way | None = None,
        is_serial: bool = False,
    ) -> None:
        """``weights`` are what the module's functions take after their inputs, by function.

        ``way`` is the one that the module came by; without it, `tvm_ffi`. Code that ``is_serial``
        is known to have no parallel loops.
        """
        self.is_serial = is_serial
        self.way = way or whole()
        self.weights = weights or {}
        self.lock = fork_lock()  # TVM's executable changes as a VM is made of it, or as it is saved
        self._compiling = threading.RLock()  # no fork_lock: compiling waits for other builds
        self._parts = [(module, tuple(entries))]
        self._on_demand = on_demand
        renew_after_fork(self)

    def find(self, shapes: Shapes) -> tuple[tvm_ffi.Module, Entry]:
        """The code and its entry for these shapes, ``None`` for an input that may have any.

        Compiles them where that is possible. Raises ShapeError, which lists what there is.
        """
        known = self._known(shapes)
        if known is not None:
            return known
        with self._compiling:
            return self._known(shapes) or self._compiled(shapes)

    def weights_of(self, module: tvm_ffi.Module, function: str) -> Sequence[tvm_ffi.Tensor]:
        """What a function takes as its last arguments; nothing where weights are constants."""
        is_first = module.same_as(self._parts[0][0])
        return self.weights.get(function, ()) if is_first else ()

    def after_fork_in_child(self) -> None:
        """The thread that was compiling, if any, does not exist in the child."""
        self._compiling = threading.RLock()

    def _known(self, shapes: Shapes) -> tuple[tvm_ffi.Module, Entry] | None:
        for module, entries in self._parts:
            for entry in entries:
                if entry.takes(shapes):
                    return module, entry
        return None

    def _compiled(self, shapes: Shapes) -> tuple[tvm_ffi.Module, Entry]:
        names = [tensor.name for tensor in self._parts[0][1][0].inputs]
        pairs = zip(names, shapes, strict=True)
        given = {name: tuple(shape) for name, shape in pairs if shape is not None}
        asked = ", ".join(f"{name} {list(shape)}" for name, shape in given.items())
        known = "; ".join(entry.shapes_text for _, entries in self._parts for entry in entries)
        if self._on_demand is None:
            raise ShapeError(
                f"the library has no code for {asked}; it has {known}: "
                "add the shape to shapes= of relay.build"
            )
        if len(given) < len(names):
            missing = next(name for name in names if name not in given)
            raise ShapeError(
                f"the library has no code for {asked}, only for {known}; "
                f"set input {missing!r} too, so that it can be compiled"
            )
        module, entry = self._on_demand(given)
        self._parts = [*self._parts, (module, (entry,))]
        return module, entry


class Function(NamedTuple):
    """A function of the library: its machine, its description, and itself.

    ``outputs`` are those for the shapes that it was found by. ``into`` takes tensors for the
    outputs ``entry.written`` behind the inputs, and ``weights`` behind these; ``None`` where the
    library has no such function.
    """

    machine: Machine
    entry: Entry
    run: Callable[..., Any]
    outputs: Sequence[TensorInfo]
    into: Callable[..., Any] | None = None
    weights: Sequence[Any] = ()


class Functions:
    """The library's functions on machines of their own, for one module to run."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self.way = library.way
        self._machines: list[tuple[tvm_ffi.Module, Machine]] = []
        self._found: dict[Shapes, Function] = {}

    def find(self, shapes: Shapes) -> Function:
        """The function for the inputs' shapes; see :meth:`Library.find`."""
        if shapes not in self._found:
            module, entry = self._library.find(shapes)
            machine = self._machine(module)
            if len(self._found) >= _REMEMBERED:
                self._found.clear()
            into, weights = None, self._library.weights_of(module, entry.into)
            if entry.into:
                into = self._bound(machine, module, entry.into)
            run = self._bound(machine, module, entry.function)
            outputs = entry.outputs_of(entry.completed(shapes))
            self._found[shapes] = Function(machine, entry, run, outputs, into, weights)
        return self._found[shapes]

    def over(self, function: Function, tensors: Sequence[Any]) -> Callable[[], None]:
        """The call that has ``function.into`` read and write these, time and again."""
        run = function.machine[function.entry.into]
        return _checked(self.way.over(run, [*tensors, *function.weights]))

    def _bound(self, machine: Machine, module: tvm_ffi.Module, name: str) -> Callable[..., Any]:
        """The function of its inputs alone."""
        weights = self._library.weights_of(module, name)
        return _checked(self._library.way.followed_by(machine[name], weights))

    def _machine(self, module: tvm_ffi.Module) -> Machine:
        for known, machine in self._machines:
            if known.same_as(module):
                return machine
        with self._library.lock:
            machine = Machine(module)
        self._machines.append((module, machine))
        return machine


def _checked(run: Callable[..., Any]) -> Callable[..., Any]:
    """The same function. Raises RunError where extents do not fit each other, and what a signal's
    handler raised in the midst.
    """

    def checked(*inputs: Any) -> Any:
        try:
            return run(*inputs)
        except SystemError as error:
            # A loop has looked for signals, and a handler has raised this: Ctrl-C's does.
            if error.__context__ is None:
                raise
            raise error.__context__ from None
        except RuntimeError as error:
            with late_imports:
                from tvm_neocpu.core.run_check import failed_check

            line = failed_check(str(error))
            if line is None:
                raise
            raise RunError(line) from error

    return checked
