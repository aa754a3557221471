"""What runs in a worker process: schedule, compile and export one candidate.

Scheduling happens here too, since a faulty schedule can hang TVM or crash it. And configs cross
the process border rather than modules: apache-tvm-ffi 0.1.15 segfaults on pickling any IntImm.
"""

from __future__ import annotations

import os
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tvm_neocpu.core.config import Config
from tvm_neocpu.tuning.measuring.measure import MeasureErrorNo


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
    # Here, not above: the parent imports this file without TVM.
    import tvm
    from tvm.s_tir.meta_schedule.arg_info import ArgInfo

    start = time.monotonic()
    stage = MeasureErrorNo.INSTANTIATION_ERROR
    try:
        mod = _as_module(build(config))
        parameters = tuple(info.as_json() for info in ArgInfo.from_entry_func(mod))
        stage = MeasureErrorNo.COMPILE_HOST
        path = _export(tvm.tirx.build(mod, target=target), stem)
    except Exception:  # whatever a template raises is the candidate's result
        error = traceback.format_exc(limit=-3)
        return Built(error_no=stage, error=error, seconds=time.monotonic() - start)
    return Built(path, parameters, seconds=time.monotonic() - start)


def _as_module(built: Any) -> Any:
    import tvm

    if isinstance(built, tvm.IRModule):
        return built
    return tvm.IRModule({"main": built.with_attr("global_symbol", "main")})


def _export(library: Any, stem: str) -> str:
    """A shared library; without a C compiler LLVM's IR, which the runner compiles when it loads."""
    from tvm.support import cc

    if cc.get_cc() is None:
        library.write_to_file(f"{stem}.ll")
        return f"{stem}.ll"
    library.export_library(f"{stem}.so")
    return f"{stem}.so"


def worker_initializer(scratch: Path, environment: Mapping[str, str]) -> Callable[[], None]:
    """What a worker does first: note its process id, and take over paths and environment.

    A nested function is sent by value: the worker cannot import ours before it has our path.
    TVM sizes its thread pool before the first parallel loop, so ``TVM_NUM_THREADS`` comes in time.
    """
    folder = str(scratch)
    settings = {**environment, "TMPDIR": folder}
    search_path = [entry or os.getcwd() for entry in sys.path]

    def initialise() -> None:
        import os
        import sys
        import tempfile

        with open(os.path.join(folder, f"{os.getpid()}.pid"), "w"):
            pass
        os.environ.update(settings)
        # What a killed worker leaves behind goes away with the folder.
        tempfile.tempdir = folder
        sys.path[:] = search_path

    return initialise
