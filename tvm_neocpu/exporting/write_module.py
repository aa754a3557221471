"""Writing a compiled module: one file with machine code, weights and their description.

The description is a second, tiny Relax executable that the first one imports. Its one function
returns the JSON text. TVM stores and finds it as it does the weights, in every file format.
"""

from __future__ import annotations

import sys
import tarfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import tvm
from tvm import relax
from tvm.runtime import load_static_library
from tvm.support import cc

from tvm_neocpu.codegen.kernel_threads import kernel_threads
from tvm_neocpu.codegen.late_weights import LateWeights
from tvm_neocpu.codegen.scratch import check_room, scratch_folder
from tvm_neocpu.core.draft import draft_of
from tvm_neocpu.core.errors import ModuleFileError
from tvm_neocpu.core.machine.cores import physical_cores
from tvm_neocpu.core.network.weight_transform import Transformed
from tvm_neocpu.exporting.separate_weights import LLVM, OBJECTS, SeparatedModule, separated
from tvm_neocpu.runtime.files.file_tail import Tail, append_tail
from tvm_neocpu.runtime.files.library_names import LINKED
from tvm_neocpu.runtime.files.linker import (
    check_compiler,
    complaint,
    cross_compiler,
    cross_name,
    named_compiler,
)
from tvm_neocpu.runtime.files.module_file import INFO_FUNCTION, SUFFIXES, info_part
from tvm_neocpu.runtime.files.module_info import ModuleInfo
from tvm_neocpu.runtime.files.object_archive import CHECKSUM, checksum_of
from tvm_neocpu.runtime.process import host
from tvm_neocpu.runtime.process.quiet import silent_stderr

# Where the weights go: into the library's file, or into one beside it.
INSIDE, SEPARATE = "inside", "separate"
# Whose libraries have these names.
_SYSTEMS = {".dylib": "darwin", ".dll": "win32"}


def weights_beside(path: Path, weights: str) -> Path | None:
    """The file of a library's weights; ``None`` where they are inside."""
    return path.with_suffix(".weights") if weights == SEPARATE else None


def attach_info(module: tvm.runtime.Module, info: ModuleInfo) -> None:
    """Put the description into a module, once, so that every export carries it."""
    if info_part(module) is None:
        module.import_module(_info_module(info))


def _info_module(info: ModuleInfo) -> tvm.runtime.Module:
    """An executable with one function, which returns the description as JSON text."""
    builder = relax.ExecBuilder()
    with builder.function(INFO_FUNCTION, num_inputs=0):
        text = builder.convert_constant(info.to_json())
        builder.emit_call("vm.builtin.copy", args=[text], dst=builder.r(0))
        builder.emit_ret(builder.r(0))
    return builder.get().mod


def export_module(
    module: tvm.runtime.Module,
    info: ModuleInfo,
    path: Path,
    fcompile: Callable[..., Any] | None,
    options: Mapping[str, Any],
    weights: str = INSIDE,
    late: LateWeights | None = None,
    transforms: Mapping[bytes, Transformed] | None = None,
) -> None:
    """Write the file, first under another name, so that no reader meets half of it.

    The weights of a ``.so`` stand behind its code, where a loader maps them; with ``SEPARATE`` in
    ``NAME.weights`` beside it. ``late`` weights are packed now, ``transforms`` left to the loader.
    Raises ModuleFileError.
    """
    check_place(path, weights, fcompile)
    has_kernels = any(part.kind in (LLVM, OBJECTS) for part in module.imports)
    if path.suffix == ".tar" and not has_kernels:
        raise ModuleFileError(
            f"cannot write {path}: the network moves no data, so that it has no machine code; "
            "write a .so"
        )
    # TVM writes what binds objects for the CPU of an LLVM module among them; of objects alone, for
    # this machine.
    by_objects = fcompile is None and not options and not _is_foreign(info)
    if fcompile is None:
        fcompile = _pack_tar if path.suffix == ".tar" else _linker(path, info)
    attach_info(module, info)
    apart = separated(module, late) if path.suffix == ".so" else None
    if weights == SEPARATE and apart is None:
        raise ModuleFileError(f"cannot write {path}: only a .so with weights has them apart")
    if transforms and apart is None:
        raise ModuleFileError(f"cannot write {path}: weights are transformed at load in a .so only")
    if late and apart is None:
        raise ModuleFileError(f"cannot write {path}: its weights are not packed yet")
    try:
        check_room()
        with draft_of(path) as draft:
            if apart is not None and by_objects:
                _link_objects(apart, draft, fcompile)
            else:
                whole = module if apart is None else apart.whole()
                with silent_stderr():
                    whole.export_library(str(draft), fcompile=fcompile, **options)
            if apart is not None:
                apart.append_to(draft, info, weights_beside(path, weights), transforms or {})
            elif path.suffix != ".tar":
                _append_checksum(draft, info)
    except (OSError, RuntimeError) as error:
        raise ModuleFileError(f"cannot write {path}: {_why(error, info, fcompile)}") from error


def _append_checksum(library: Path, info: ModuleInfo) -> None:
    """Write description and checksums behind the code of a network without weights to map."""
    with library.open("r+b") as file:
        append_tail(file, Tail(info, (), {}), (), None)


def _link_objects(apart: SeparatedModule, path: Path, link: Callable[..., Any]) -> None:
    """Export with the kernels' machine code written by several threads at once.

    What is an object already is linked as it is. TVM writes one module after the other
    (DenseNet-121 on Zen 3: 7 s of LLVM).
    """
    with scratch_folder() as folder:
        files = [f"{folder}/kernels{number}.o" for number in range(len(apart.kernels))]
        with kernel_threads(physical_cores()) as threads:
            threads.map(lambda kernel, file: kernel.write_to_file(file), apart.kernels, files)
        for file in files:
            apart.module.import_module(load_static_library(file, []))
        with silent_stderr():
            apart.module.export_library(str(path), fcompile=link)


def check_place(path: Path, weights: str, link: Callable[..., Any] | None = None) -> None:
    """Raise ModuleFileError for a file that cannot be written, whatever is in it.

    A linker of the user's own, ``link`` or ``CXX``, may make another system's libraries.
    """
    if weights not in (INSIDE, SEPARATE):
        raise ModuleFileError(f"weights is {INSIDE!r} or {SEPARATE!r}, not {weights!r}")
    if path.suffix not in SUFFIXES:
        raise ModuleFileError(f"an exported module's name ends in .so or .tar, unlike {path}")
    if path.suffix in LINKED and not _is_utf_8(path.absolute()):
        raise ModuleFileError(f"cannot write {path}: its name is not UTF-8, and TVM loads no such")
    system = _SYSTEMS.get(path.suffix, sys.platform)
    if system != sys.platform and link is None and not named_compiler():
        raise ModuleFileError(
            f"{path} is a library's name on another system: here it ends in .so; CXX names a "
            f"linker for {system}"
        )
    if not path.parent.is_dir():
        raise ModuleFileError(f"cannot write {path}: there is no directory {path.parent}")


def _is_utf_8(path: Path) -> bool:
    try:
        str(path).encode()
    except UnicodeEncodeError:
        return False
    return True


def _why(error: Exception, info: ModuleInfo, link: Callable[..., Any]) -> str:
    """The reason in a line; what links code for another CPU, if this one's compiler was tried."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror  # a full disk; its files are drafts that nobody asked for
    tried = link is cc.create_shared and _is_foreign(info)
    return _no_linker(info) if tried else complaint(str(error))


def _is_foreign(info: ModuleInfo) -> bool:
    return host.arch_of(info.triple) != host.arch()


def _no_linker(info: ModuleInfo) -> str:
    arch = host.arch_of(info.triple)
    compiler = named_compiler() or "this machine's C compiler"
    return (
        f"{compiler} does not link code for {arch}: install {cross_name(arch)} or name one in CXX, "
        "or write a .tar, which a compiler links where it is loaded"
    )


def _pack_tar(path: str, files: Iterable[str], **_: Any) -> None:
    """Write an uncompressed archive: weights hardly compress, and gzip is slow. Each member has its
    checksum in a header that other readers pass over.
    """
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as archive:
        for file in files:
            member = archive.gettarinfo(file, arcname=Path(file).name)
            with open(file, "rb") as content:
                member.pax_headers = {CHECKSUM: checksum_of(content)}
                archive.addfile(member, content)


_pack_tar.output_format = "tar"  # type: ignore[attr-defined]  # TVM asks fcompile for it


def _linker(path: Path, info: ModuleInfo) -> Callable[..., Any]:
    """This machine's compiler; for another architecture the one that ``CXX`` names, or GNU's."""
    if _is_foreign(info) and not named_compiler():
        found = cross_compiler(host.arch_of(info.triple))
        if found is None:
            raise ModuleFileError(f"cannot write {path}: {_no_linker(info)}")
        return cc.cross_compiler(found)
    check_compiler(f"write {path}")
    return cc.create_shared
