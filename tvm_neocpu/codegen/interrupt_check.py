"""A function that says whether a run shall end because of a signal, Ctrl-C above all.

A signal's handler in Python waits until the compiled code returns. A loop may run for ever.

Python's lock is needed to look, and another thread may hold it for milliseconds. So a trip looks in
16 ms of each 262 ms of CPU time alone; trips that take longer look once in 16 trips on average.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from tvm import ir, tirx
from tvm.target import Target

from tvm_neocpu.runtime.process import host

# The name under which a network has it.
CHECK = "neocpu_interrupt_check"
# Of tvm_ffi: runs Python's handlers in the main thread, 0 where none of them raised. In a program
# without Python it does nothing. A plug-in of a program (RTLD_LOCAL) has loaded tvm_ffi where the
# network's code does not find it: a call of it would end the process.
_CHECK_SIGNALS = "TVMFFIEnvCheckSignals"
# clock() counts microseconds: windows of 2^14 of them, of which one in 16 counts.
_WINDOW_BITS, _WINDOWS = 14, 16


# The system call "gettid"; only newer C libraries have a function for it.
_GETTID: Mapping[str, int] = MappingProxyType({"x86_64": 186, "aarch64": 178})


def interrupt_check(target: Target) -> tirx.PrimFunc | None:
    """``neocpu_interrupt_check() -> int32``: not 0 if a handler raised an error, Python's then.

    It returns that: builds leave assertions out. Other threads than the main one, in which Python
    runs no handler, do not look: one that waits for Python's lock while Python ends is torn down,
    and the process with it. ``None`` for an architecture that is not known here.
    """
    triple = str(target.attrs.get("mtriple", "") or host.triple())
    gettid = _GETTID.get(host.arch_of(triple))
    if gettid is None:
        return None
    window = tirx.call_extern("int64", "clock") >> tirx.const(_WINDOW_BITS, "int64")
    counts = tirx.EQ(window & tirx.const(_WINDOWS - 1, "int64"), tirx.const(0, "int64"))
    thread = tirx.call_extern("int64", "syscall", tirx.const(gettid, "int64"))
    is_main = tirx.EQ(tirx.Cast("int32", thread), tirx.call_extern("int32", "getpid"))
    raised = tirx.call_extern("int32", _CHECK_SIGNALS)
    place = tirx.call_extern("int64", "dlsym", tirx.const(0, "int64"), _CHECK_SIGNALS)
    is_there = tirx.NE(place, tirx.const(0, "int64"))
    asked = tirx.IfThenElse(tirx.And(is_main, is_there), tirx.Return(raised), None)
    body = tirx.SeqStmt([tirx.IfThenElse(counts, asked, None), tirx.Return(tirx.const(0, "int32"))])
    return tirx.PrimFunc([], body, ir.PrimType("int32")).with_attr("global_symbol", CHECK)
