"""What a worker process runs: schedule, compile and export one candidate.

Scheduling happens in the worker too, since a faulty schedule can hang or crash TVM. The parent
sends a config, not a module: apache-tvm-ffi 0.1.15 segfaults when it pickles any IntImm.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import tvm
from tvm.s_tir.meta_schedule.arg_info import ArgInfo
from tvm.support import cc

from tvm_neocpu.core.network.config import Config
from tvm_neocpu.tuning.measuring.measurer import MeasureErrorNo


@dataclass(frozen=True)
class Built:
    """A candidate's library at ``path`` and its parameters as meta_schedule's JSON, or an error."""

    path: str = ""
    parameters: tuple[Any, ...] = ()
    error_no: int = MeasureErrorNo.NO_ERROR
    error: str = ""
    seconds: float = 0.0


def build_candidate(
    build: Callable[[Config], Any], config: Config, target: Any, stem: str
) -> Built:
    """Build ``config`` for the target into ``stem`` plus a suffix; never raises."""
    start = time.monotonic()
    stage = MeasureErrorNo.INSTANTIATION_ERROR
    try:
        mod = _as_module(build(config))
        parameters = tuple(info.as_json() for info in ArgInfo.from_entry_func(mod))
        stage = MeasureErrorNo.COMPILE_HOST
        path = _export(tvm.tirx.build(mod, target=target), stem)
    except Exception:  # a template may raise anything, and all of it is the candidate's result
        error = traceback.format_exc(limit=-3)
        return Built(error_no=stage, error=error, seconds=time.monotonic() - start)
    return Built(path, parameters, seconds=time.monotonic() - start)


def _as_module(built: Any) -> Any:
    if isinstance(built, tvm.IRModule):
        return built
    return tvm.IRModule({"main": built.with_attr("global_symbol", "main")})


def _export(library: Any, stem: str) -> str:
    """Write a shared library, or LLVM IR where no C compiler is found; the path written.

    The runner compiles the IR when it loads it.
    """
    if cc.get_cc() is None:
        library.write_to_file(f"{stem}.ll")
        return f"{stem}.ll"
    library.export_library(f"{stem}.so")
    return f"{stem}.so"
