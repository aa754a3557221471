"""Kernels from the user's cache folder, one object file each: what was compiled once is linked.

Networks of a family share kernels, a tuner's candidates are those of the build that follows. Files
are found by what a kernel computes (:mod:`.kernel_key`), whoever compiled it.

    conv2d_add, conv2d_add1, ...  ->  3f2a..., 90b1...    keys
                                  ->  3f2a....kernel      a symbol, an object that has it, a SHA-256

The kernels of a build share modules, so that several entries may have one object.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import tvm_ffi
from tvm import tirx
from tvm.ir.transform import PassContext
from tvm.target import Target

from tvm_neocpu.codegen.kernel_key import GLOBAL_SYMBOL, kernel_key
from tvm_neocpu.codegen.kernel_objects import KernelObject, load_object, save_object
from tvm_neocpu.codegen.kernel_threads import Backlog, KernelThreads, kernel_threads, result
from tvm_neocpu.codegen.kernels import build_module, unchecked
from tvm_neocpu.codegen.late_weights import weights_late
from tvm_neocpu.codegen.scratch import scratch_folder
from tvm_neocpu.core.machine.cores import physical_cores
from tvm_neocpu.runtime.files.linker import c_compiler
from tvm_neocpu.storage.cache_folder import KERNEL, CacheFolder, cache_folder
from tvm_neocpu.topi.tir.tiles.forget_locals import is_compacted

# The kernels of a build that share a module. A trivial kernel takes 41 ms of CPU in a module of its
# own, 21 in one of four, 18 in one of eight (Ice Lake, two cores of a virtual machine, busy). What
# needs one of them later links them all.
PER_MODULE = 4


class KernelStore:
    """Objects of kernels for one target; ``compiled`` counts those that LLVM had to write.

    Up to ``together`` kernels share a module.
    """

    def __init__(self, folder: Path, target: Target, together: int = 1) -> None:
        self._folder = CacheFolder(folder, suffix=KERNEL)
        self._target = target
        self._together = together
        self._takes_files = True
        self._prepared: dict[int, list[tuple[tirx.PrimFunc, str, str]]] = {}
        # Entries of one module have equal objects: one of them stays in memory.
        self._contents: dict[bytes, bytes] = {}
        self.compiled = 0

    def objects(self, functions: Mapping[str, tirx.PrimFunc]) -> dict[str, KernelObject]:
        """By the functions' names; functions that are equal but for names share one.

        Only those that are not in the folder are compiled, by a thread for each core, while the
        keys of the next ones are made. Kernels that another process compiles just now are left to
        it.
        """
        context = PassContext.current()
        keys: dict[str, str] = {}
        wanted: dict[str, tirx.PrimFunc] = {}
        before = self.compiled
        with kernel_threads(physical_cores()) as threads:
            waiting: Backlog[str] = Backlog(physical_cores(), self._together)

            def some() -> dict[str, KernelObject | None]:
                return self._found({key: wanted[key] for key in waiting.take()}, context, False)

            def late(key: str) -> dict[str, KernelObject | None]:
                return self._found({key: wanted[key]}, context, wait=True)

            jobs = []
            for name, func in functions.items():
                key = keys[name] = self._key(func, context)
                if key not in wanted:
                    wanted[key] = func
                    waiting.add(key)
                    jobs.append(threads.submit(some))
            found = {key: known for job in jobs for key, known in result(job).items()}
            for again in threads.map(late, [key for key, known in found.items() if known is None]):
                found.update(again)
        if self.compiled > before:
            self._folder.drop_old(*wanted)
        objects = {key: known for key, known in found.items() if known is not None}
        return {name: objects[key] for name, key in keys.items()}

    def _found(
        self, kernels: Mapping[str, tirx.PrimFunc], context: PassContext, wait: bool
    ) -> dict[str, KernelObject | None]:
        """By key the folder's objects, else new ones; ``None`` as :meth:`_make` says."""
        found = {key: self._read(key) for key in kernels}
        missing = {key: kernels[key] for key, known in found.items() if known is None}
        return {**found, **self._make(missing, context, wait)} if missing else found

    def prepare(self, functions: Sequence[tirx.PrimFunc], context: PassContext) -> None:
        """Compile kernels that :meth:`objects` will probably be asked for, in any thread.

        The folder keeps them until then: nothing is done once the folder took no file.
        """
        missing: dict[str, tirx.PrimFunc] = {}
        for func in functions:
            key = self._key(func, context)
            bare = func.without_attr(GLOBAL_SYMBOL)
            self._prepared.setdefault(_hash_of(bare), []).append((bare, _options(context), key))
            if self._takes_files and self._read(key) is None:
                missing[key] = func
        if missing:
            self._make(missing, context, wait=False)

    def _key(self, func: tirx.PrimFunc, context: PassContext) -> str:
        """A kernel's key; of one that was prepared it is known, which takes a fifth of the time."""
        bare = func.without_attr(GLOBAL_SYMBOL)
        for prepared, options, key in self._prepared.get(_hash_of(bare), ()):
            if options == _options(context) and tvm_ffi.structural_equal(prepared, bare):
                return key
        return kernel_key(bare, self._target, unchecked(context))

    def _make(
        self, kernels: Mapping[str, tirx.PrimFunc], context: PassContext, wait: bool
    ) -> dict[str, KernelObject | None]:
        """Compile kernels; ``None`` for those that somebody else makes, without a ``wait``."""
        found: dict[str, KernelObject | None] = dict.fromkeys(kernels)
        with contextlib.ExitStack() as locks:
            mine = [key for key in kernels if locks.enter_context(self._folder.locked(key, wait))]
            found.update({key: self._read(key) for key in mine})  # made meanwhile by somebody
            missing = [key for key in mine if found[key] is None]
            # The others need passes that compacted kernels had.
            compacted = [key for key in missing if is_compacted(kernels[key])]
            for part in (compacted, [key for key in missing if key not in compacted]):
                if part:
                    made = self._compile({key: kernels[key] for key in part}, context)
                    self._write(made)
                    found.update(made)
        return found

    def _compile(
        self, kernels: Mapping[str, tirx.PrimFunc], context: PassContext
    ) -> dict[str, KernelObject]:
        """Kernels as one module. Another module that has some of them has other symbols."""
        group = ""
        if len(kernels) > 1:
            group = "_" + hashlib.sha256(" ".join(sorted(kernels)).encode()).hexdigest()[:16]
        symbols = {key: f"kernel_{key}{group}" for key in kernels}
        named = {
            symbols[key]: func.with_attr(GLOBAL_SYMBOL, symbols[key])
            for key, func in kernels.items()
        }
        module = build_module(named, self._target, context)
        with scratch_folder() as folder:
            module.write_to_file(f"{folder}/kernel.o")
            content = Path(folder, "kernel.o").read_bytes()
        return {key: KernelObject(symbol, content) for key, symbol in symbols.items()}

    def _write(self, made: Mapping[str, KernelObject]) -> None:
        for key, each in made.items():
            written = self._folder.write(key, partial(save_object, each))
            self._takes_files = self._takes_files and written
            self.compiled += 1

    def _read(self, key: str) -> KernelObject | None:
        found = self._folder.read(key, load_object)
        if found is None:
            return None
        return KernelObject(found.symbol, self._contents.setdefault(found.content, found.content))


def store_for(target: Target, folder: Path | None = None, together: int = 1) -> KernelStore | None:
    """The store of kernels for a target in the user's cache folder, or in another one.

    ``None`` where the cache is switched off, or nothing links objects. A tuner's candidates are not
    compiled ``together``: a build that takes one of them would get all.
    """
    place = folder or cache_folder()
    return None if place is None or c_compiler() is None else KernelStore(place, target, together)


@dataclass(frozen=True)
class _Build:
    """Where a build keeps its kernels; ``stores`` are those for its targets."""

    folder: Path
    stores: dict[str, KernelStore | None] = field(default_factory=dict)


_BUILD: ContextVar[_Build | None] = ContextVar("build", default=None)


@contextlib.contextmanager
def kernels_kept(folder: Path) -> Iterator[None]:
    """Networks that are compiled inside, in this thread, consist of objects out of ``folder``, and
    their weights are late. They run once they are exported.
    """
    token = _BUILD.set(_Build(folder))
    try:
        with weights_late():
            yield
    finally:
        _BUILD.reset(token)


def current_store(target: Target) -> KernelStore | None:
    """The store that :func:`kernels_kept` asks for: one for all networks of its build."""
    build = _BUILD.get()
    if build is None:
        return None
    name = str(target)
    if name not in build.stores:
        build.stores[name] = store_for(target, build.folder, PER_MODULE)
    return build.stores[name]


@contextlib.contextmanager
def compiling_ahead(target: Target) -> Iterator[Callable[[tirx.PrimFunc], None] | None]:
    """Takes kernels as they become ready, and compiles them in threads, until it is left.

    A kernel may come again, as more than one pass may have it. What threads have not begun by then
    is dropped: the store's caller wants the rest at once. An error is told when the kernel is asked
    for. ``None`` where no store is asked.
    """
    store = current_store(target)
    if store is None:
        yield None
        return
    context = PassContext.current()
    threads = KernelThreads(physical_cores() - 1)
    waiting: Backlog[tirx.PrimFunc] = Backlog(max(1, physical_cores() - 1), PER_MODULE)
    begun: dict[int, list[tirx.PrimFunc]] = {}

    def prepare() -> None:
        store.prepare(waiting.take(), context)

    def begin(func: tirx.PrimFunc) -> None:
        bare = func.without_attr(GLOBAL_SYMBOL)
        equal = begun.setdefault(_hash_of(bare), [])
        if not any(tvm_ffi.structural_equal(other, bare) for other in equal):
            equal.append(bare)
            waiting.add(func)
            threads.submit(prepare)

    try:
        yield begin
    finally:
        threads.leave()


def _hash_of(func: tirx.PrimFunc) -> int:
    return int(tvm_ffi.structural_hash(func))


def _options(context: PassContext) -> str:
    """What of a context a key depends on."""
    config = sorted(dict(context.config).items())
    passes = list(context.required_pass), list(context.disabled_pass)
    return repr((context.opt_level, *passes, config))
