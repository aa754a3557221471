"""Kernels from the user's cache folder, one object file each: what was compiled once is linked.

Networks of a family share kernels, a tuner's candidates are those of the build that follows. Files
are found by what a kernel computes (:mod:`.kernel_key`), whoever compiled it.

    conv2d_add, conv2d_add1, ...  ->  kernel_3f2a..., kernel_90b1...    keys
                                  ->  3f2a....kernel                    an object and its SHA-256
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path

import tvm
import tvm_ffi
from tvm import tirx
from tvm.ir.transform import PassContext
from tvm.target import Target

from tvm_neocpu.cache_folder import KERNEL, CacheFolder, cache_folder
from tvm_neocpu.codegen.kernel_key import GLOBAL_SYMBOL, kernel_key
from tvm_neocpu.codegen.kernel_threads import KernelThreads, kernel_threads, result
from tvm_neocpu.codegen.kernels import build_module, unchecked
from tvm_neocpu.codegen.late_weights import weights_late
from tvm_neocpu.codegen.scratch import scratch_folder
from tvm_neocpu.core.cores import physical_cores
from tvm_neocpu.core.draft import draft_of
from tvm_neocpu.core.errors import ModuleFileError, first_line
from tvm_neocpu.runtime.linker import c_compiler, link

_SHA_BYTES = hashlib.sha256().digest_size


@dataclass(frozen=True)
class KernelObject:
    """Machine code of one function, as an object file's content."""

    symbol: str
    content: bytes

    def write(self, folder: str | Path) -> str:
        """The path of the object file."""
        path = Path(folder) / f"{self.symbol}.o"
        path.write_bytes(self.content)
        return str(path)


class KernelStore:
    """Objects of kernels for one target; ``compiled`` counts those that LLVM had to write."""

    def __init__(self, folder: Path, target: Target) -> None:
        self._folder = CacheFolder(folder, suffix=KERNEL)
        self._target = target
        self._takes_files = True
        self._prepared: dict[int, list[tuple[tirx.PrimFunc, str, str]]] = {}
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

            def begin(key: str, wait: bool) -> Future[KernelObject | None]:
                return threads.submit(self._found, key, wanted[key], context, wait)

            jobs: dict[str, Future[KernelObject | None]] = {}
            for name, func in functions.items():
                key = keys[name] = self._key(func, context)
                if key not in wanted:
                    wanted[key] = func
                    jobs[key] = begin(key, wait=False)
            found = {key: result(job) for key, job in jobs.items()}
            late = {key: begin(key, wait=True) for key, known in found.items() if known is None}
            found.update({key: result(job) for key, job in late.items()})
        if self.compiled > before:
            self._folder.drop_old(*wanted)
        objects = {key: known for key, known in found.items() if known is not None}
        return {name: objects[key] for name, key in keys.items()}

    def _found(
        self, key: str, func: tirx.PrimFunc, context: PassContext, wait: bool
    ) -> KernelObject | None:
        """The folder's object, else a new one; ``None`` as :meth:`_make` says."""
        return self._read(key) or self._make(key, func, context, wait)

    def prepare(self, func: tirx.PrimFunc, context: PassContext) -> None:
        """Compile a kernel that :meth:`objects` will probably be asked for, in any thread.

        The folder keeps it until then: nothing is done once the folder took no file.
        """
        key = self._key(func, context)
        bare = func.without_attr(GLOBAL_SYMBOL)
        self._prepared.setdefault(_hash_of(bare), []).append((bare, _options(context), key))
        if self._takes_files and self._read(key) is None:
            self._make(key, func, context, wait=False)

    def _key(self, func: tirx.PrimFunc, context: PassContext) -> str:
        """A kernel's key; of one that was prepared it is known, which takes a fifth of the time."""
        bare = func.without_attr(GLOBAL_SYMBOL)
        for prepared, options, key in self._prepared.get(_hash_of(bare), ()):
            if options == _options(context) and tvm_ffi.structural_equal(prepared, bare):
                return key
        return kernel_key(bare, self._target, unchecked(context))

    def _make(
        self, key: str, func: tirx.PrimFunc, context: PassContext, wait: bool
    ) -> KernelObject | None:
        """Compile a kernel; ``None`` if somebody else does and this one does not ``wait``."""
        with self._folder.locked(key, wait) as alone:
            if not alone:
                return None
            known = self._read(key)  # somebody may have made it meanwhile
            if known is not None:
                return known
            made = self._compile(key, func, context)
            written = self._folder.write(key, lambda path: _save(made.content, path))
            self._takes_files = self._takes_files and written
            self.compiled += 1
            return made

    def _compile(self, key: str, func: tirx.PrimFunc, context: PassContext) -> KernelObject:
        symbol = f"kernel_{key}"
        named = func.with_attr(GLOBAL_SYMBOL, symbol)
        module = build_module({symbol: named}, self._target, context)
        with scratch_folder() as folder:
            module.write_to_file(f"{folder}/kernel.o")
            return KernelObject(symbol, Path(folder, "kernel.o").read_bytes())

    def _read(self, key: str) -> KernelObject | None:
        content = self._folder.read(key, _load)
        return None if content is None else KernelObject(f"kernel_{key}", content)


def store_for(target: Target, folder: Path | None = None) -> KernelStore | None:
    """The store of kernels for a target in the user's cache folder, or in another one.

    ``None`` where the cache is switched off, or nothing links objects.
    """
    place = folder or cache_folder()
    return None if place is None or c_compiler() is None else KernelStore(place, target)


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
        build.stores[name] = store_for(target, build.folder)
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
    begun: dict[int, list[tirx.PrimFunc]] = {}

    def begin(func: tirx.PrimFunc) -> None:
        bare = func.without_attr(GLOBAL_SYMBOL)
        equal = begun.setdefault(_hash_of(bare), [])
        if not any(tvm_ffi.structural_equal(other, bare) for other in equal):
            equal.append(bare)
            threads.submit(store.prepare, func, context)

    try:
        yield begin
    finally:
        threads.leave()


def static_libraries(objects: Sequence[KernelObject]) -> tuple[tvm.runtime.Module, ...]:
    """Objects as modules that an export links; they do not run."""
    different = tuple(dict.fromkeys(objects))
    with objects_in_files(different) as files:
        return tuple(
            tvm.runtime.load_static_library(file, [each.symbol])
            for file, each in zip(files, different, strict=True)
        )


def loaded(objects: Sequence[KernelObject]) -> tvm.runtime.Module:
    """Objects linked and loaded into this process, to be asked for their symbols."""
    with scratch_folder() as folder, objects_in_files(objects) as files:
        library = f"{folder}/kernels.so"
        link(library, files, "load kernels")
        return tvm.runtime.load_module(library)


@contextlib.contextmanager
def objects_in_files(objects: Sequence[KernelObject]) -> Iterator[list[str]]:
    """Paths of object files, each object once, for a moment."""
    with scratch_folder() as folder:
        yield [each.write(folder) for each in dict.fromkeys(objects)]


def _hash_of(func: tirx.PrimFunc) -> int:
    return int(tvm_ffi.structural_hash(func))


def _options(context: PassContext) -> str:
    """What of a context a key depends on."""
    config = sorted(dict(context.config).items())
    passes = list(context.required_pass), list(context.disabled_pass)
    return repr((context.opt_level, *passes, config))


def _save(content: bytes, path: Path) -> None:
    with draft_of(path) as draft:
        draft.write_bytes(content + hashlib.sha256(content).digest())


def _load(path: Path) -> bytes:
    """An entry's object. Raises ModuleFileError for one that is damaged."""
    try:
        whole = path.read_bytes()
    except OSError as error:
        raise ModuleFileError(f"it cannot be read: {first_line(error)}") from error
    content = whole[:-_SHA_BYTES]
    if not content or hashlib.sha256(content).digest() != whole[-_SHA_BYTES:]:
        raise ModuleFileError("it is damaged: its checksum is another")
    return content
