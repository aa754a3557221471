"""The check of loops in programs that have no Python."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import tvm

from tvm_neocpu.codegen.interrupt_check import CHECK, interrupt_check
from tvm_neocpu.targets import parse_target

pytestmark = pytest.mark.compiler

# Longer than a whole round of windows, so that some calls look.
PROGRAM = """
import ctypes, os, sys, time
linker = ctypes.CDLL(None)  # CDLL itself would look for all symbols at once
linker.dlopen.restype = linker.dlsym.restype = ctypes.c_void_p
linker.dlsym.argtypes = ctypes.c_void_p, ctypes.c_char_p
library = linker.dlopen(sys.argv[1].encode(), os.RTLD_LAZY | os.RTLD_LOCAL)
pointer = ctypes.c_void_p
kind = ctypes.CFUNCTYPE(ctypes.c_int, pointer, pointer, ctypes.c_int32, pointer)
check = kind(linker.dlsym(library, sys.argv[2].encode()))
result = (ctypes.c_int64 * 2)()
while time.process_time() < 1:
    assert check(None, None, 0, result) == 0 and result[1] == 0
print("went on")
"""


def test_without_tvm_ffi_in_sight_a_loop_goes_on(tmp_path: Path) -> None:
    """So it is where a plug-in of a program has loaded the runtime for itself."""
    target, path = parse_target("llvm").target, tmp_path / "check.so"
    check = interrupt_check(target)
    assert check is not None
    tvm.compile(tvm.IRModule({CHECK: check}), target).export_library(path)
    command = [sys.executable, "-c", PROGRAM, str(path), f"__tvm_ffi_{CHECK}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("went on\n", "")
