"""Ctrl-C ends a loop that runs for ever, in a process of its own."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import onnx
import pytest
from onnx_text import parsed

FOR_EVER = """g (float[4] x, bool go) => (float[4] y) {
    none = Constant <value = int64 {9000000000000000000}> ()
    y = Loop <body = body (int64 i, bool on, float[4] v) => (bool again, float[4] w) {
        again = Identity (on)
        w = Cos (v)
    }> (none, go, x)
}"""

# Each starts Python and builds; `file` has the code that the others have, too.
LESS = ("built", "session of a file")

PROGRAM = """
import signal, sys, numpy as np, tvm, tvm_neocpu
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell in the background ignores it
kind, path = sys.argv[1:]
feeds = {"x": np.ones(4, "float32"), "go": np.array(True)}
if kind == "session":
    session = tvm_neocpu.Session(path, cache=False, threads=1)
    run = lambda: session.run(feeds)
else:
    import onnx
    from tvm_neocpu import relay
    mod, params = relay.frontend.from_onnx(onnx.load(path))
    lib = relay.build(mod, target="llvm", params=params, cache=False)
    if "file" in kind:
        lib.export_library(path + ".so")
        lib = tvm_neocpu.load(path + ".so")
    module = lib["default"](tvm.cpu())
    run = lambda: module.run(**feeds)
    if kind.startswith("session"):
        session = tvm_neocpu.Session(path + ".so", threads=1)
        run = lambda: session.run(feeds)
print("running", flush=True)
try:
    run()
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


@pytest.mark.parametrize(
    "kind", ["file", "session", *(pytest.param(k, marks=pytest.mark.slow) for k in LESS)]
)
def test_ctrl_c_ends_it(kind: str, tmp_path: Path) -> None:
    model = tmp_path / "loop.onnx"
    onnx.save(parsed(FOR_EVER), model)
    command = [sys.executable, "-c", PROGRAM, kind, str(model)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "running\n"
            time.sleep(0.5)
            started = time.monotonic()
            process.send_signal(signal.SIGINT)
            assert process.stdout.readline() == "interrupted\n"
            process.wait(timeout=60)
            assert time.monotonic() - started < 10
            assert process.returncode == 0
        finally:
            process.kill()
