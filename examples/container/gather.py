"""Gather what runs a compiled network into one folder: python gather.py FOLDER

    FOLDER/tvm_neocpu   this package's runtime, without its compiler
    FOLDER/tvm_ffi      calls between Python and TVM's runtime
    FOLDER/lib          libtvm_runtime.so

With PYTHONPATH=FOLDER and TVM_LIBRARY_PATH=FOLDER/lib any Python of the same version that has NumPy
runs `tvm_neocpu.Session("net.so")`. Prints the sizes.
"""

from __future__ import annotations

import importlib.util
import shutil
import sys
from pathlib import Path

OURS = ("__init__.py", "plugin.py", "session.py", "version.py", "py.typed", "core", "runtime")
# Headers and sources of tvm_ffi, what makes them, its tests: running needs none of them.
FFI_LEAVES = ("include", "src", "3rdparty", "cython", "share", "stub")
NOISE = shutil.ignore_patterns("__pycache__", "CMakeLists.txt")


def gather(folder: Path) -> dict[str, int]:
    """Copy everything; returns bytes by part."""
    package = _package("tvm_neocpu")
    (folder / "tvm_neocpu").mkdir(parents=True)
    for name in OURS:
        _copy(package / name, folder / "tvm_neocpu" / name)
    ffi = _package("tvm_ffi")
    for item in ffi.iterdir():
        if item.name not in (*FFI_LEAVES, "__pycache__"):
            _copy(item, folder / "tvm_ffi" / item.name)
    if importlib.util.find_spec("typing_extensions") is not None:
        _copy(_package("typing_extensions", is_file=True), folder / "typing_extensions.py")
    for library in (_package("tvm") / "lib").glob("libtvm_runtime.*"):
        _copy(library, folder / "lib" / library.name)
    return {part.name: _bytes(part) for part in sorted(folder.iterdir())}


def _package(name: str, is_file: bool = False) -> Path:
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None:
        raise SystemExit(f"error: {name} is not installed")
    return Path(spec.origin) if is_file else Path(spec.origin).parent


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, target, ignore=NOISE)
    else:
        shutil.copy2(source, target)


def _bytes(path: Path) -> int:
    files = [path] if path.is_file() else [each for each in path.rglob("*") if each.is_file()]
    return sum(each.stat().st_size for each in files)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    sizes = gather(Path(sys.argv[1]))
    for name, size in sizes.items():
        print(f"{size / 2**20:8.2f} MiB  {name}")
    print(f"{sum(sizes.values()) / 2**20:8.2f} MiB  in all")
