"""A fresh process for each engine: import, load, first inference; time and memory after each.

A process imports NumPy and its engine, loads the network's file, and runs it on zeros. The clock
starts before the interpreter does. Packages that pip installs have Python's bytecode beside them, a
clone has not: each process takes it from a folder beside ``file``, which the first one fills.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tvm_neocpu.core.errors import NeoCpuError

_START = """
import json, sys, time
import numpy as np
def status(key):
    return next(1024 * int(l.split()[1]) for l in open("/proc/self/status") if l.startswith(key))
path, inputs, threads = sys.argv[1], json.loads(sys.argv[2]), int(sys.argv[3])
arrays = {name: np.zeros(shape, dtype) for name, (shape, dtype) in inputs.items()}
"""
_END = """
print(json.dumps({"imported": imported, "loaded": loaded, "answered": time.time(),
                  "resident": status("VmRSS:"), "anonymous": status("RssAnon:")}))
"""
_ENGINES = {
    "tvm_neocpu": """
import tvm_neocpu
imported = time.time()
session = tvm_neocpu.Session(path, threads)
loaded = time.time()
session.run(arrays)
""",
    "ONNX Runtime": """
import onnxruntime
imported = time.time()
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = threads
session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
loaded = time.time()
session.run(None, arrays)
""",
    "OpenVINO": """
import openvino
imported = time.time()
config = {"INFERENCE_NUM_THREADS": threads, "INFERENCE_PRECISION_HINT": "f32"}
model = openvino.Core().compile_model(path, "CPU", config)
loaded = time.time()
model(arrays)
""",
}
PACKAGES = {"tvm_neocpu": "tvm_neocpu", "ONNX Runtime": "onnxruntime", "OpenVINO": "openvino"}


@dataclass(frozen=True)
class FirstInference:
    """Seconds since the process was started, and bytes resident after the first answer.

    ``anonymous`` is memory of the process alone: what is mapped from files is not in it, because
    other processes share it and the kernel may drop it.
    """

    imported: float
    loaded: float
    answered: float
    resident: int
    anonymous: int


def first_inference(
    engine: str, file: Path, inputs: Mapping[str, tuple[tuple[int, ...], str]], threads: int
) -> FirstInference:
    """One process, from its start to its first answer. Raises NeoCpuError where it fails."""
    script = _START + _ENGINES[engine] + _END
    given = json.dumps({name: [list(shape), dtype] for name, (shape, dtype) in inputs.items()})
    environment = {
        **os.environ,
        "TVM_NUM_THREADS": str(threads),
        "PYTHONPYCACHEPREFIX": str(file.parent / "bytecode"),
    }
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    start = time.time()
    done = subprocess.run(
        [sys.executable, "-c", script, str(file), given, str(threads)],
        capture_output=True,
        text=True,
        env=environment,
    )
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"its process ended with {done.returncode}"]
        raise NeoCpuError(f"{engine} gives no answer: {lines[-1]}")
    found = json.loads(done.stdout.splitlines()[-1])
    times = {key: found[key] - start for key in ("imported", "loaded", "answered")}
    return FirstInference(**times, resident=found["resident"], anonymous=found["anonymous"])
