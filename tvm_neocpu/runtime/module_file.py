"""Exported modules: one file with machine code, weights and their description.

The description is a second, tiny Relax executable that the first one imports. Its one function
returns the JSON text. TVM stores and finds it as it does the weights, in every file format.
"""

from __future__ import annotations

import os
import tarfile
import tempfile
import threading
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import tvm
from tvm import relax
from tvm.support import cc

from tvm_neocpu.core.errors import ModuleFileError, first_line
from tvm_neocpu.runtime.binary import check_library, check_object
from tvm_neocpu.runtime.module_info import ModuleInfo, info_from_json
from tvm_neocpu.runtime.quiet import silent_stderr

_INFO_FUNCTION = "neocpu_info"
_VM_KIND = "relax.VMExecutable"
_LINKED = (".so", ".dylib", ".dll")


def attach_info(module: tvm.runtime.Module, info: ModuleInfo) -> None:
    """Put the description into a module, once, so that every export carries it."""
    if _info_part(module) is None:
        module.import_module(_info_module(info))


def _info_module(info: ModuleInfo) -> tvm.runtime.Module:
    """An executable with one function, which returns the description as JSON text."""
    builder = relax.ExecBuilder()
    with builder.function(_INFO_FUNCTION, num_inputs=0):
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
) -> None:
    """Write the file, first under another name, so that no reader meets half of it.

    Raises ModuleFileError.
    """
    if path.suffix not in (*_LINKED, ".tar"):
        raise ModuleFileError(f"an exported module's name ends in .so or .tar, unlike {path}")
    if not path.parent.is_dir():
        raise ModuleFileError(f"cannot write {path}: there is no directory {path.parent}")
    if not any(part.kind == "llvm" for part in module.imports):
        raise ModuleFileError(f"cannot write {path}: a loaded module has no objects; copy its file")
    if fcompile is None:
        fcompile = _pack_tar if path.suffix == ".tar" else _find_linker(f"write {path}")
    attach_info(module, info)
    writer = f"{os.getpid()}-{threading.get_ident()}"
    draft = path.with_name(f".{path.stem}.{writer}{path.suffix}")
    try:
        with silent_stderr():
            module.export_library(str(draft), fcompile=fcompile, **options)
        draft.replace(path)
    except (OSError, RuntimeError) as error:
        raise ModuleFileError(f"cannot write {path}: {_linker_line(error)}") from error
    finally:
        draft.unlink(missing_ok=True)


def read_module(path: Path) -> tuple[tvm.runtime.Module, ModuleInfo]:
    """What `export_module` wrote, for a CPU that this machine has.

    Raises ModuleFileError before any code of the file runs. A truncated or foreign file is not even
    mapped. A file for another CPU is mapped, but only its description is read, which the VM
    interprets.
    """
    if not path.exists():
        raise ModuleFileError(f"there is no file {path}")
    if not path.is_file() or path.suffix not in (*_LINKED, ".tar"):
        raise ModuleFileError(f"{path} is not an exported module (a .so or .tar file)")
    module = _load_tar(path) if path.suffix == ".tar" else _load_linked(path, path)
    part = _info_part(module)
    if part is None:
        raise ModuleFileError(f"cannot load {path}: it was not exported by tvm_neocpu")
    text = relax.VirtualMachine(part, tvm.cpu())[_INFO_FUNCTION]()
    info = info_from_json(str(text), str(path))
    if info.missing:
        lacks = f"this machine lacks {', '.join(info.missing)}"
        raise ModuleFileError(f"cannot load {path}: it was built for {info.cpu}, and {lacks}")
    return module, info


def _load_linked(library: Path, shown: Path) -> tvm.runtime.Module:
    try:
        check_library(library, shown)
        with silent_stderr():
            return tvm.runtime.load_module(str(library))
    except (OSError, RuntimeError, ValueError) as error:
        raise ModuleFileError(f"cannot load {shown}: {first_line(error)}") from error


def _load_tar(path: Path) -> tvm.runtime.Module:
    """Link the archive's objects in a directory of their own, and load the result."""
    link = _find_linker(f"load {path}")
    with tempfile.TemporaryDirectory(prefix="neocpu-") as folder:
        objects = _unpack(path, Path(folder))
        for item in objects:
            check_object(item, path)
        library = Path(folder) / "linked.so"
        try:
            link(str(library), [str(item) for item in objects])
        except (OSError, RuntimeError) as error:
            raise ModuleFileError(f"cannot load {path}: {_linker_line(error)}") from error
        return _load_linked(library, path)


def _unpack(path: Path, folder: Path) -> list[Path]:
    objects = []
    try:
        with tarfile.open(path) as archive:
            for member in _object_members(archive):
                target = folder / Path(member.name).name
                content = archive.extractfile(member)
                assert content is not None, "regular files have content"
                target.write_bytes(content.read())
                objects.append(target)
            _check_end(archive, path)
    except tarfile.TarError as error:
        raise ModuleFileError(f"cannot load {path}: it is no tar file, or truncated") from error
    except (OSError, EOFError) as error:
        raise ModuleFileError(f"cannot load {path}: {first_line(error)}") from error
    if not objects:
        raise ModuleFileError(f"cannot load {path}: not exported by tvm_neocpu, no objects in it")
    return objects


def _check_end(archive: tarfile.TarFile, path: Path) -> None:
    """Refuse an archive without its two last blocks: it was cut between two members."""
    assert archive.fileobj is not None, "an open archive has a file"
    if archive.fileobj.seek(0, os.SEEK_END) < archive.offset + 2 * tarfile.BLOCKSIZE:
        raise ModuleFileError(f"cannot load {path}: it is truncated")


def _object_members(archive: tarfile.TarFile) -> Iterable[tarfile.TarInfo]:
    return (item for item in archive.getmembers() if item.isfile() and item.name.endswith(".o"))


def _pack_tar(path: str, files: Iterable[str], **_: Any) -> None:
    """Write an uncompressed archive: weights hardly compress, and gzip is slow."""
    with tarfile.open(path, "w") as archive:
        for file in files:
            archive.add(file, arcname=Path(file).name)


_pack_tar.output_format = "tar"  # type: ignore[attr-defined]  # TVM asks fcompile for it


def _find_linker(purpose: str) -> Callable[..., Any]:
    if cc.get_cc() is None:
        raise ModuleFileError(
            f"cannot {purpose}: linking needs a C compiler; install gcc or clang, or set CXX"
        )
    return cc.create_shared


def _linker_line(error: Exception) -> str:
    """The compiler's own complaint: TVM puts a heading and the command line around it."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    telling = [line for line in lines if "error" in line.lower() and len(lines) > 1]
    return telling[-1] if telling else first_line(error)


def _info_part(module: tvm.runtime.Module) -> tvm.runtime.Module | None:
    """The imported executable that has the description, or ``None``."""
    for part in module.imports:
        if part.kind == _VM_KIND and part["has_function"](_INFO_FUNCTION):
            return part
    return None
