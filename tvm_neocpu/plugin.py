"""What `import tvm_neocpu` does to TVM: three steps, each safe to repeat."""

from __future__ import annotations

import importlib.util
import sys
from typing import Any

import tvm
from tvm.relax import pipeline as relax_pipelines

from tvm_neocpu.runtime.threads import size_thread_pool

PIPELINE = "neocpu"


def install() -> None:
    """Size the thread pool, register the pipeline, provide ``tvm.relay``."""
    size_thread_pool()
    _register_pipeline()
    _provide_relay()


def _register_pipeline() -> None:
    if PIPELINE not in relax_pipelines.PIPELINE_MAP:
        relax_pipelines.register_pipeline(PIPELINE)(_neocpu_pipeline)


def _neocpu_pipeline(**options: Any) -> tvm.transform.Pass:
    """The pipeline, imported at its first use."""
    from tvm_neocpu.specialize import neocpu_pipeline

    return neocpu_pipeline(**options)


def _provide_relay() -> None:
    """Make ``from tvm import relay`` and ``import tvm.relay.frontend`` find our front door.

    A TVM that still has Relay keeps its own.
    """
    if "tvm.relay" in sys.modules or importlib.util.find_spec("tvm.relay") is not None:
        return
    from tvm_neocpu import relay
    from tvm_neocpu.relay import frontend

    sys.modules["tvm.relay"] = relay
    sys.modules["tvm.relay.frontend"] = frontend
    tvm.relay = relay
