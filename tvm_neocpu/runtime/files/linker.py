"""The C compiler, where there is one: it links what a ``.tar`` holds, and code for other CPUs."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence

from tvm_neocpu.core.errors import ModuleFileError

# As TVM looks for one; C++ first, because TVM's objects may want its library.
_NAMES = ("g++", "gcc", "clang++", "clang", "c++", "cc")


def c_compiler() -> str | None:
    """``CXX``, ``CC``, or the first compiler in ``PATH``; ``None`` without any."""
    return named_compiler() or next((name for name in _NAMES if shutil.which(name)), None)


def named_compiler() -> str | None:
    """The one that the user named, in ``CXX`` or ``CC``."""
    return os.environ.get("CXX") or os.environ.get("CC")


def cross_compiler(arch: str) -> str | None:
    """Who links code for Linux on another architecture; ``None`` where nobody does.

    GNU's names: ``aarch64-linux-gnu-g++`` is in Debian's package g++-aarch64-linux-gnu.
    """
    return shutil.which(cross_name(arch)) or shutil.which(f"{arch}-linux-gnu-gcc")


def cross_name(arch: str) -> str:
    return f"{arch}-linux-gnu-g++"


def check_compiler(purpose: str) -> None:
    """Raise ModuleFileError without a C compiler."""
    if c_compiler() is None:
        raise ModuleFileError(
            f"cannot {purpose}: linking needs a C compiler; install gcc or clang, or set CXX"
        )


def link(library: str, objects: Sequence[str], purpose: str) -> None:
    """Make a shared library of objects. Raises ModuleFileError with the compiler's complaint."""
    import subprocess  # 6 ms that a look for a compiler does not need

    check_compiler(purpose)
    command = [str(c_compiler()), "-shared", "-fPIC", "-o", library, *objects]
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace")
    except OSError as error:
        raise ModuleFileError(f"cannot {purpose}: {error.strerror}: {command[0]}") from error
    if done.returncode:
        raise ModuleFileError(f"cannot {purpose}: {complaint(done.stdout + done.stderr, command)}")


def complaint(output: str, command: Sequence[str] = ()) -> str:
    """What went wrong, out of all that a compiler or TVM prints: one line for a user.

    The linker's first error, not the compiler's remark that the linker has failed.
    """
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    remark = ("collect2:", "clang: error: linker command failed")
    own = [line for line in lines if not line.startswith(remark) and "command line" not in line]
    marks = ("error", "cannot", "incompatible", "undefined", "unknown", "not recognized", "no such")
    telling = [line for line in own if any(mark in line.lower() for mark in marks)]
    if telling:
        return telling[0] if len(lines) == 1 else telling[-1]
    name = f" ({command[0]})" if command else ""
    return own[-1] if own else f"the C compiler failed and said nothing{name}"
