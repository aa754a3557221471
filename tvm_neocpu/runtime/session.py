"""A compiled network in an application: arrays in, arrays out, from any number of threads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol
from weakref import finalize

from tvm_neocpu.core.errors import SessionError, TargetError
from tvm_neocpu.runtime.calls.feed import Feed
from tvm_neocpu.runtime.calls.functions import Functions, Library
from tvm_neocpu.runtime.calls.inputs import Key, find
from tvm_neocpu.runtime.calls.values import as_input, ordered
from tvm_neocpu.runtime.ffi.ways import light
from tvm_neocpu.runtime.files.module_file import read_module
from tvm_neocpu.runtime.files.module_info import ModuleInfo, TensorInfo
from tvm_neocpu.runtime.process.forking import late_imports
from tvm_neocpu.runtime.streams.cores import (
    checked_cores,
    checked_streams,
    checked_threads,
    claim_cores,
    free_cores,
    split_cores,
)
from tvm_neocpu.runtime.streams.places import as_it_is, can_run_serially, with_serial_loops
from tvm_neocpu.runtime.streams.streams import Here, Streams

if TYPE_CHECKING:
    from concurrent.futures import Future

    from _typeshed import StrPath
    from numpy.typing import NDArray

    from tvm_neocpu.runtime.calls.binding import IOBinding  # few sessions bind
    from tvm_neocpu.runtime.calls.feed import Bound

    Array = NDArray[Any]

HINTS = ("latency", "throughput")


class Runnable(Protocol):
    """What a session runs: a description, and functions. A `BuiltModule` is one."""

    info: ModuleInfo
    library: Library


class RunnableParts(NamedTuple):
    """What a session needs, of a file for instance, and no more than that."""

    info: ModuleInfo
    library: Library


def runnable_file(path: StrPath, check_weights: bool = False) -> RunnableParts:
    """A file that `export_library` wrote, for sessions: without `tvm_ffi`'s Python package.

    Raises ModuleFileError, as `load` does; ``check_weights`` is that of `load`.
    """
    found = read_module(path, check_weights, light)
    functions = Library(
        found.module,
        found.info.entries,
        weights=found.weights_by_function,
        way=found.way,
        is_serial=found.is_serial,
    )
    return RunnableParts(found.info, functions)


class CompiledSession:
    """Runs a built or loaded library.

    Calls may come from any number of threads. Streams of the session's own take them: threads with
    cores, a machine and buffers each; all share the weights. ``threads`` is how many the session
    has in all (default: a core each). One stream of them all answers soonest (``hint="latency"``);
    more streams of fewer threads answer more calls a second (``"throughput"``: the split is chosen
    by measuring for some tenths of a second; ``streams`` says it). Sessions take the cores that
    fewest others use; ``cores`` names CPUs instead.

    A call that computes on one thread is made in its caller's own, wherever that runs, while a
    stream is idle: streams of one thread, and networks too small for several. Ctrl-C is heard when
    it is done, in a loop of the network within a second. Not so where ``cores`` says where to
    compute.

    A forked child may use the session; it gets threads of its own. Raises SessionError for wrong
    options, TargetError where this machine cannot execute the code.
    """

    def __init__(
        self,
        library: Runnable,
        threads: int | None = None,
        hint: str = "latency",
        *,
        streams: int | None = None,
        cores: Sequence[int] | None = None,
    ) -> None:
        if hint not in HINTS:
            raise SessionError(f"hint is {' or '.join(map(repr, HINTS))}, not {hint!r}")
        if library.info.missing:
            lacks = ", ".join(library.info.missing)
            raise TargetError(f"built for {library.info.cpu}, but this machine lacks {lacks}")
        self._info = library.info
        self._library: Library | None = library.library
        self.hint = hint
        self._is_pinned = cores is not None
        groups = self._groups(threads, hint, streams, cores)
        self._streams = self._start(groups)
        self._release = finalize(self, claim_cores(groups))

    @property
    def info(self) -> ModuleInfo:
        """What the library knows of itself."""
        return self._info

    @property
    def inputs(self) -> tuple[TensorInfo, ...]:
        """Name, shape and type of each input; -1 is an extent that may vary."""
        return self.info.inputs

    @property
    def outputs(self) -> tuple[TensorInfo, ...]:
        """Name, shape and type of each output."""
        return self.info.outputs

    @property
    def streams(self) -> int:
        """How many calls run at the same time."""
        return len(self._streams.groups)

    @property
    def threads(self) -> int:
        """How many threads the session runs on, in all its streams."""
        return sum(map(len, self._streams.groups))

    @property
    def cores(self) -> list[list[int]]:
        """The CPUs of each stream."""
        return [list(group) for group in self._streams.groups]

    def run(self, *arguments: Any) -> Any:
        """``run({"data": image})`` gives a dictionary of arrays by name; ``run(["scores"],
        {"data": image})`` a list, as ONNX Runtime has it (``None`` or no names: all outputs).

        Inputs are arrays of NumPy, torch and others that share CPU memory. Those above 16 KiB are
        read where they are if they are contiguous, aligned to 64 bytes and writeable; all others
        are copied once. Outputs are new arrays. Raises ShapeError for a wrong name, shape or type:
        nothing is converted.
        """
        work, shape = self._work(arguments)
        return shape(self._streams.call(work))

    def submit(self, *arguments: Any) -> Future[Any]:
        """The same, later: a future of what `run` returns.

        The inputs must not change before it is done. What is wrong with them is raised here, and a
        shape that a session has to compile for is compiled before this returns, unless more than 64
        of them wait.
        """
        work, shape = self._work(arguments)
        return self._streams.submit(lambda feed: shape(work(feed)))

    def io_binding(self) -> IOBinding:
        """Inputs and outputs that are bound once, for many runs."""
        with late_imports:
            from tvm_neocpu.runtime.calls.binding import IOBinding

        def run(bound: Bound) -> list[Array]:
            self._code().prepare(bound.values)
            return self._streams.call(lambda feed: feed.run_bound(bound))

        return IOBinding(self.info, run, self._code().way, self._streams)

    def run_with_iobinding(self, binding: IOBinding) -> None:
        """``binding.run()``, as ONNX Runtime spells it. Raises SessionError for a binding that this
        session did not make.
        """
        if getattr(binding, "streams", None) is not self._streams:
            raise SessionError("the binding is not of this session: make it by io_binding()")
        binding.run()

    def close(self) -> None:
        """End the session's threads, and let go of its code and weights, which leave the process
        once no other session and no binding has them. A session that is not used any more does so
        by itself.
        """
        self._streams.close()
        self._library = None
        self._release()

    def __enter__(self) -> CompiledSession:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> str:
        """Threads and mapped weights are this process's."""
        raise SessionError(
            "a session is neither pickled nor copied: make one from its file in each process"
        )

    def __repr__(self) -> str:
        inputs, outputs = ", ".join(map(str, self.inputs)), ", ".join(map(str, self.outputs))
        return (
            f"Session({self.info.name!r}, inputs=[{inputs}], outputs=[{outputs}], "
            f"streams={self.streams}, threads={self.threads})"
        )

    def _work(
        self, arguments: Sequence[Any]
    ) -> tuple[Callable[[Feed], list[Array]], Callable[[list[Array]], Any]]:
        """What a stream shall do, and how its arrays become the caller's result."""
        if not 1 <= len(arguments) <= 2:
            raise SessionError("run takes ({name: array}) or ([names], {name: array})")
        values = ordered(self.inputs, arguments[-1])
        arrays = [as_input(info, value) for info, value in zip(self.inputs, values, strict=True)]
        self._code().prepare(arrays)
        names = [info.name for info in self.outputs]
        if len(arguments) == 1:
            return lambda feed: feed.run(arrays), lambda found: dict(zip(names, found, strict=True))
        places = self._places(arguments[0])
        return lambda feed: feed.run(arrays), lambda found: [found[place] for place in places]

    def _places(self, names: Iterable[Key] | None) -> list[int]:
        try:
            asked = [] if names is None else list(names)
        except TypeError:
            asked = None
        if asked is None or isinstance(names, (str, Mapping)):
            raise SessionError(f"the outputs' names are a list of names, not {names!r}")
        return [find(name, self.outputs, "output") for name in asked or range(len(self.outputs))]

    def _code(self) -> Library:
        if self._library is None:
            raise SessionError("the session is closed")
        return self._library

    def _start(self, groups: Sequence[Sequence[int]]) -> Streams[Feed]:
        library, inputs = self._code(), self.info.inputs

        def feed(cpus: Sequence[int]) -> Feed:
            return Feed(Functions(library), inputs, cpus[:1] if library.is_serial else cpus)

        return Streams(groups, feed, self._in_callers_thread(groups))

    def _in_callers_thread(self, groups: Sequence[Sequence[int]]) -> Here | None:
        """How a call is computed there; ``None`` where a stream's thread has to."""
        if self._is_pinned:
            return None
        if self._code().is_serial:
            return as_it_is
        alone = all(len(cpus) == 1 for cpus in groups)
        return with_serial_loops if alone and can_run_serially() else None

    def _groups(
        self,
        threads: int | None,
        hint: str,
        streams: int | None,
        cores: Sequence[int] | None,
    ) -> list[list[int]]:
        """The CPUs of each stream, claimed unless the caller named them."""
        named = None if cores is None else checked_cores(cores)
        total = checked_threads(threads, named)

        def groups_of(count: int) -> list[list[int]]:
            return split_cores(named or free_cores(total), total, count)

        if streams is not None:
            return groups_of(checked_streams(streams, total))
        if hint == "latency":
            return groups_of(1)
        from tvm_neocpu.runtime.throughput import best_split  # few sessions need it

        count = best_split(total, lambda count: self._start(groups_of(count)), self.info)
        return groups_of(count)
