"""The list of commands: `python -m tvm_neocpu`."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from tvm_neocpu.commands.cli import USER_ERROR

# The command's module -> what it does.
COMMANDS = {
    "tune": "measure schedules of a network, write a log that builds read",
    "bench": "compare with other engines; `bench kernels`, `bench plan`: look deeper",
    "explain": "show what a build would choose for each layer, and why",
    "schedule": "compare fused groups and execution orders on an accelerator or this CPU",
    "calibrate": "fit the cost model to this machine",
    "demo": "tune ResNet-18 for three minutes and compare",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Print the commands; the exit code is 0 if help was asked for, else a user's mistake."""
    words = list(sys.argv[1:] if argv is None else argv)
    is_help = words[:1] in (["-h"], ["--help"])
    out = sys.stdout if is_help else sys.stderr
    if words and not is_help:
        hint = f"; did you mean python -m tvm_neocpu.{words[0]}?" if words[0] in COMMANDS else ""
        print(f"error: a command is a module of its own{hint}", file=out)
    width = max(map(len, COMMANDS))
    for name, what in COMMANDS.items():
        print(f"python -m tvm_neocpu.{name:{width}}  {what}", file=out)
    return 0 if is_help else USER_ERROR
