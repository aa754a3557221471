"""Scripts in processes of their own, and what those that fork share."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import tvm_neocpu

SECONDS = 120

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")

# For scripts that fork. A child that does not end in time is killed by its own alarm, and its
# parent then exits with 1.
FORK = """
import os, signal

def fork(child):
    pid = os.fork()
    if pid == 0:
        signal.alarm(60)
        os._exit(0 if child() else 1)
    return pid

def succeeded(pid):
    return os.waitpid(pid, 0)[1] == 0
"""


def run_script(script: str, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """The script's end, which must be a success within a time limit."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(Path(tvm_neocpu.__file__).parents[1]),
        "PYTHONWARNINGS": "ignore::DeprecationWarning",  # Python 3.12 warns of fork with threads
        **variables,
    }
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert done.returncode == 0, done.stderr
    return done
