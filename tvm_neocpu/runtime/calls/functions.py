"""The compiled functions of one library, found by the shapes of the inputs."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from tvm_neocpu.core.errors import RunError, ShapeError
from tvm_neocpu.runtime.ffi.machine import Machine
from tvm_neocpu.runtime.ffi.ways import Way, whole
from tvm_neocpu.runtime.files.module_info import Entry, TensorInfo
from tvm_neocpu.runtime.process.forking import fork_lock, late_imports, renew_after_fork

if TYPE_CHECKING:
    import tvm_ffi
    from numpy.typing import NDArray

# A shape for each input; ``None`` for one that was never set.
Shapes = tuple[tuple[int, ...] | None, ...]
# Compiles the network for other shapes, by input name.
OnDemand = Callable[[Mapping[str, tuple[int, ...]]], "Library"]

# Lets go of what belongs to machines.
Forgets = Callable[[Collection[Machine]], None]

# How many shapes a module looks up once: a service may see any batch.
_REMEMBERED = 1024
# How many shapes of those that nobody foresaw a library keeps code for, each with its weights. One
# of PP-OCR's text detection takes some 8 MB. A session reads it from the cache again, in 0.02 s
# (Zen 4, two cores); what `relay.build` has built compiles it again.
MOST_SHAPES = 64
_CLOCK = itertools.count(1)


class Library:
    """Code and its entries; grows where the network can be compiled for other shapes.

    Any number of threads may use it. A shape is compiled once, for all modules of the library. Of
    more than :data:`MOST_SHAPES` such shapes the library forgets the one that nobody used for
    longest; ``forgotten`` counts these.
    """

    def __init__(
        self,
        module: tvm_ffi.Module | None,
        entries: Sequence[Entry],
        on_demand: OnDemand | None = None,
        weights: Mapping[str, Sequence[tvm_ffi.Tensor]] | None = None,
        way: Way | None = None,
        is_serial: bool = False,
        names: Sequence[str] = (),
    ) -> None:
        """``weights`` are what the module's functions take after their inputs, by function.

        ``way`` is the one that the module came by; without it, `tvm_ffi`. Code that ``is_serial``
        is known to have no parallel loops. Without a module and entries all of it is compiled on
        demand, for the inputs ``names``.
        """
        self.module = module
        self.entries = tuple(entries)
        self.is_serial = is_serial
        self.way = way or whole()
        self.weights = weights or {}
        self.lock = fork_lock()  # TVM's executable changes as a VM is made of it, or as it is saved
        self._compiling = threading.RLock()  # no fork_lock: compiling waits for other builds
        self._names = names or [tensor.name for tensor in self.entries[0].inputs]
        self._further: dict[Shapes, Library] = {}
        self._used = 0
        self.forgotten = 0
        self._on_demand = on_demand
        renew_after_fork(self)

    def prepare(self, arrays: Sequence[NDArray[Any]]) -> None:
        """Compile for inputs of whose shapes there is no code, where that is possible.

        A caller does so before it takes a stream: a fork waits for streams, and builds for a fork.
        The stream's cores are few, and others wait for it. Raises what :meth:`find` raises.
        """
        if self._on_demand is not None:
            self.find(tuple([array.shape for array in arrays]))

    def find(self, shapes: Shapes) -> tuple[Library, Entry]:
        """What has code for these shapes, and its entry; ``None`` is an input that may have any.

        Compiles them where that is possible. Raises ShapeError, which lists what there is.
        """
        known = self._known(shapes)
        if known is not None:
            return known
        with self._compiling:
            return self._known(shapes) or self._compiled(shapes)

    def after_fork_in_child(self) -> None:
        """The thread that was compiling, if any, does not exist in the child."""
        self._compiling = threading.RLock()

    @property
    def parts(self) -> tuple[Library, ...]:
        """Itself, and what it has grown by."""
        return (self, *self._further.values())

    def _known(self, shapes: Shapes) -> tuple[Library, Entry] | None:
        compiled = self._further.get(shapes)
        for part in self.parts if compiled is None else (compiled,):
            for entry in part.entries:
                if entry.takes(shapes):
                    part.touch()
                    return part, entry
        return None

    def touch(self) -> None:
        """Note that somebody uses it now."""
        self._used = next(_CLOCK)

    def _compiled(self, shapes: Shapes) -> tuple[Library, Entry]:
        pairs = zip(self._names, shapes, strict=True)
        given = {name: tuple(shape) for name, shape in pairs if shape is not None}
        asked = ", ".join(f"{name} {list(shape)}" for name, shape in given.items())
        known = "; ".join(entry.shapes_text for part in self.parts for entry in part.entries)
        if self._on_demand is None:
            raise ShapeError(
                f"the library has no code for {asked}; it has {known}: "
                "add the shape to shapes= of relay.build"
            )
        if len(given) < len(self._names):
            missing = next(name for name in self._names if name not in given)
            raise ShapeError(
                f"the library has no code for {asked}, only for {known}; "
                f"set input {missing!r} too, so that it can be compiled"
            )
        made = self._on_demand(given)
        made.touch()
        by_use = sorted(self._further.items(), key=lambda item: item[1]._used)
        too_many = max(0, len(by_use) + 1 - MOST_SHAPES)
        self._further = dict([*by_use[too_many:], (shapes, made)])
        self.forgotten += too_many
        return made, made.entries[0]


class Function(NamedTuple):
    """A function of the library: its machine, its description, and itself.

    ``outputs`` are those for the shapes that it was found by. ``into`` takes tensors for the
    outputs ``entry.written`` behind the inputs, and ``weights`` behind these; ``None`` where the
    library has no such function. ``part`` is the library that has it.
    """

    part: Library
    machine: Machine
    entry: Entry
    run: Callable[..., Any]
    outputs: Sequence[TensorInfo]
    into: Callable[..., Any] | None = None
    weights: Sequence[Any] = ()


class Functions:
    """The library's functions on machines of their own, for one module to run.

    ``forgotten`` is how many shapes the library had forgotten when this last looked.
    ``when_dropped`` gives who is told of the machines that went with them.
    """

    def __init__(self, library: Library) -> None:
        self._library = library
        self.when_dropped: Callable[[], Forgets | None] = lambda: None
        self.way = library.way
        self._machines: list[tuple[Library, Machine]] = []
        self._found: dict[Shapes, Function] = {}
        self.forgotten = library.forgotten

    def find(self, shapes: Shapes) -> Function:
        """The function for the inputs' shapes; see :meth:`Library.find`."""
        if shapes in self._found:
            self._found[shapes].part.touch()
        else:
            part, entry = self._library.find(shapes)
            self.refresh()
            machine = self._machine(part)
            if len(self._found) >= _REMEMBERED:
                self._found.clear()
            into, weights = None, part.weights.get(entry.into, ())
            if entry.into:
                into = _bound(machine, part, entry.into)
            run = _bound(machine, part, entry.function)
            outputs = entry.outputs_of(entry.completed(shapes))
            self._found[shapes] = Function(part, machine, entry, run, outputs, into, weights)
        return self._found[shapes]

    def refresh(self) -> None:
        """Let go of what the library has forgotten."""
        if self.forgotten == self._library.forgotten:
            return
        self.forgotten = self._library.forgotten
        parts = self._library.parts
        dropped = {machine for part, machine in self._machines if part not in parts}
        if dropped:
            self._machines = [known for known in self._machines if known[1] not in dropped]
            found = self._found.items()
            self._found = {at: each for at, each in found if each.machine not in dropped}
            forget = self.when_dropped()
            if forget is not None:
                forget(dropped)

    def over(self, function: Function, tensors: Sequence[Any]) -> Callable[[], None]:
        """The call that has ``function.into`` read and write these, time and again."""
        run = function.machine[function.entry.into]
        return _checked(self.way.over(run, [*tensors, *function.weights]))

    def _machine(self, part: Library) -> Machine:
        for known, machine in self._machines:
            if known is part:
                return machine
        assert part.module is not None, "what was found has code"
        # The library's lock, not the part's: who has it may hold none that is older.
        with self._library.lock:
            machine = Machine(part.module)
        self._machines.append((part, machine))
        return machine


def _bound(machine: Machine, part: Library, name: str) -> Callable[..., Any]:
    """The function of its inputs alone."""
    weights = part.weights.get(name, ())
    return _checked(part.way.followed_by(machine[name], weights))


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
