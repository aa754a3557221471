"""The commands, and the way to each: `python -m tvm_neocpu COMMAND`, `tvm-neocpu COMMAND`."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from difflib import get_close_matches
from importlib import import_module
from importlib.util import find_spec

from tvm_neocpu.commands.shared.exit_codes import CLOSED_PIPE, INTERRUPTED, USER_ERROR
from tvm_neocpu.version import __version__

# The command -> what it does. Its module is `tvm_neocpu.commands.NAME`, whose `main` takes words.
COMMANDS = {
    "compile": "compile a network into one file, for a session or a C++ program",
    "run": "run a compiled file or a network on given or random inputs, and time it",
    "bench": "compare with other engines; `bench kernels`, `bench plan`: look deeper",
    "tune": "measure schedules of a network, write a log that builds read",
    "quantize": "write an int8 network (ONNX, QDQ) of an fp32 one and calibration data",
    "profile": "where the time of a run goes, operation by operation",
    "explain": "show what a build would choose for each layer, and why",
    "verify": "compare outputs with ONNX Runtime's; find the first operation that deviates",
    "records": "look into the tuning logs; merge, import, check and prune them",
    "schedule": "order and fusion of a network's layers",
    "calibrate": "fit the cost model to this machine",
    "doctor": "what a bug report needs: versions, machine, settings, a test run",
    "demo": "tune ResNet-18 for three minutes and compare",
}
_ROOM = "tvm_neocpu.commands"


def main(argv: Sequence[str] | None = None) -> int:
    """Hand the words to the first one's command; returns its exit code.

    Without a command the list is printed: to stdout with exit code 0 if help was asked for, else to
    stderr, as a user's mistake. Who reads may have enough, as `head` has: that is no error.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        try:
            return _run(words)
        finally:
            if sys.stdout is not None:
                sys.stdout.flush()
    except KeyboardInterrupt:  # while the command is imported, which takes seconds
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("tvm_neocpu"):
            raise
        print(
            f"error: commands need {error.name}: pip install tvm-neocpu, with all that it requires",
            file=sys.stderr,
        )
        return USER_ERROR
    except OSError as error:
        if error.errno not in (errno.EPIPE, errno.ENOSPC):
            raise
        # Python would write what is left at its end, and complain.
        with suppress(AttributeError, OSError):  # no stdout, or one that is no file
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if error.errno == errno.EPIPE:
            return CLOSED_PIPE
        with suppress(OSError):  # stderr may be what is full
            print(f"error: cannot write the output: {error.strerror}", file=sys.stderr)
        return USER_ERROR


def _run(words: Sequence[str]) -> int:
    if words and words[0] in available():
        return command(words[0])(words[1:])
    if words[:1] in (["-V"], ["--version"]):
        print(f"tvm-neocpu {__version__}")
        return 0
    is_help = words[:1] in (["-h"], ["--help"], ["help"])
    if words and not is_help:
        print(f"error: there is no command {words[0]!r}{_hint(words[0])}", file=sys.stderr)
    out = sys.stdout if is_help else sys.stderr
    width = max(map(len, available()))
    for name in available():
        print(f"python -m tvm_neocpu {name:{width}}  {COMMANDS[name]}", file=out)
    return 0 if is_help else USER_ERROR


def door(name: str) -> Callable[..., int]:
    """The ``main`` of a command's older spelling, which takes the words behind it."""

    def enter(argv: Sequence[str] | None = None) -> int:
        return main([name, *(sys.argv[1:] if argv is None else argv)])

    return enter


def available() -> list[str]:
    """The commands whose modules this installation has."""
    return [name for name in COMMANDS if find_spec(f"{_ROOM}.{name}") is not None]


def command(name: str) -> Callable[[Sequence[str]], int]:
    """The function behind a command, imported now."""
    main: Callable[[Sequence[str]], int] = import_module(f"{_ROOM}.{name}").main
    return main


def _hint(word: str) -> str:
    close = get_close_matches(word, available(), 1)
    return f"; did you mean {close[0]}?" if close else "; these are there:"
