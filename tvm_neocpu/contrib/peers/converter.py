"""Converters of engines that do not read ONNX: a process of their own, and one line of why not."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tvm_neocpu.core.errors import NeoCpuError

PATIENCE_SECONDS = 600.0
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


class ConversionError(NeoCpuError):
    """The engine's converter or loader does not take the network; the text says why."""


def convert(command: Sequence[str | Path], folder: Path) -> str:
    """Run a converter inside ``folder`` and return what it printed.

    Converters write further files beside those that they are asked for, so the folder should be a
    temporary one. Raises ConversionError with the last line printed where the converter ends with
    an error, by a signal, or not within ``PATIENCE_SECONDS``.
    """
    try:
        done = subprocess.run(
            [str(word) for word in command],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=PATIENCE_SECONDS,
        )
    except subprocess.TimeoutExpired:
        raise ConversionError(f"no result within {PATIENCE_SECONDS:.0f} s") from None
    printed = _COLOUR.sub("", done.stdout)
    if done.returncode:
        raise ConversionError(f"{_end(done.returncode)}: {last_line(printed)}")
    return printed


def last_line(printed: str) -> str:
    """The last line with text, or ``no text``."""
    lines = [line.strip() for line in printed.splitlines() if line.strip()]
    return lines[-1] if lines else "no text"


def silence_stdout() -> None:
    """Send the process's standard output to nowhere: engines print to it from C++.

    Only for a process that serves one engine and prints nothing itself.
    """
    sys.stdout.flush()
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.__stdout__.fileno() if sys.__stdout__ else 1)
    os.close(nowhere)


def _end(code: int) -> str:
    if code > 0:
        return f"exit code {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"
