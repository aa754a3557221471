"""What the command lines share: target flags, model names, files, one line for every error."""

from __future__ import annotations

import argparse
import contextlib
import io
import math
import os
import shlex
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from rich.console import Console

from tvm_neocpu.commands.shared.exit_codes import INTERRUPTED, USER_ERROR
from tvm_neocpu.core.errors import (
    ModelFileError,
    NeoCpuError,
    OpenShapeError,
    ShapeError,
    UnknownModelError,
)
from tvm_neocpu.core.messages.one_line import one_line_warnings
from tvm_neocpu.runtime.process import threads

if TYPE_CHECKING:
    import onnx

    from tvm_neocpu.targets import CompileTarget

MODEL_HELP = "a network of the zoo, torchvision:NAME, or an ONNX file"
RUNNABLE_HELP = "a network of the zoo, torchvision:NAME, an ONNX file, or a compiled .so or .tar"
# The target that says nothing of a CPU: this machine.
HERE = "llvm"
# More threads than any machine has: plans and workers for a million would be made for hours.
MOST_THREADS = 1024
# Target flags without a value: `-fast-math`, unlike `-mcpu NAME`.
_SWITCHES = ("-fast-math", "-fast-math-nnan", "-fast-math-ninf", "-fast-math-nsz")


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are one line, as all our errors are."""

    def error(self, message: str) -> NoReturn:
        self.exit(USER_ERROR, f"error: {message} (see {self.prog} --help)\n")


def guarded(main: Callable[[list[str]], int], argv: Sequence[str] | None) -> int:
    """Run a command line and return its exit code.

    A user's mistake (NeoCpuError) becomes one line and exit code 2, Ctrl-C exit code 130. A warning
    is one line too. What a terminal cannot show of a name is spelled.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        with one_line_warnings():
            check_environment()
            return main(list(sys.argv[1:] if argv is None else argv))
    except NeoCpuError as error:
        text = error.on_command_line if isinstance(error, OpenShapeError) else str(error)
        print(f"error: {text}", file=sys.stderr)
        return USER_ERROR
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED


def add_common_options(
    parser: argparse.ArgumentParser, models: str | int = "+", what: str = MODEL_HELP
) -> None:
    """Add the options for models (as many as ``nargs`` says), target, threads, log and shapes."""
    parser.add_argument(
        "models",
        nargs=models,
        metavar="MODEL",
        help=what,
    )
    parser.add_argument(
        "--target",
        default=HERE,
        help='"llvm -mcpu=NAME", or llvm and the flags unquoted (default: this machine)',
    )
    parser.add_argument("--threads", type=thread_count, help="threads to run on (default: cores)")
    parser.add_argument("--log", type=Path, help="the tuning log")
    add_shape_option(parser)


def add_json_option(parser: argparse.ArgumentParser) -> None:
    """Add ``--json``, for :func:`write_report`."""
    parser.add_argument("--json", type=Path, metavar="F", help="write everything to this file")


def add_seed_option(parser: argparse.ArgumentParser, what: str) -> None:
    """Add ``--seed``, the seed of ``what``: ``"the random inputs"``."""
    parser.add_argument("--seed", type=not_negative, default=0, help=f"seed of {what} (default: 0)")


def add_shape_option(parser: argparse.ArgumentParser) -> None:
    """Add ``--shape``, for :func:`parse_shapes`."""
    parser.add_argument(
        "--shape",
        action="append",
        default=[],
        metavar="NAME:1,3,224,224",
        help="the shape of an input that an ONNX file leaves open; may be repeated",
    )


def split_target_flags(argv: Sequence[str]) -> tuple[list[str], list[str]]:
    """Separate our own words from classic target flags: returns both.

    A target flag has one dash and several letters (`-mcpu=NAME`); none of our options has.

        resnet50 --target llvm -mcpu=znver4 --log f
          -> [resnet50, --target, llvm, --log, f], [-mcpu=znver4]
    """
    rest: list[str] = []
    flags: list[str] = []
    words = list(argv)
    while words:
        word = words.pop(0)
        if not _is_target_flag(word) or rest[-1:] == ["--target"]:
            rest.append(word)
            continue
        flags.append(word)
        takes_value = "=" not in word and word not in _SWITCHES
        if takes_value and words and not words[0].startswith("-"):
            flags.append(words.pop(0))
    return rest, flags


def target_text(target: str, flags: Sequence[str]) -> str:
    """The target and its flags as one classic string."""
    return " ".join([target, shlex.join(flags)]).strip()


def take_threads(options: argparse.Namespace, flags: Sequence[str]) -> None:
    """What is built next is for ``--threads``, if it is given.

    Warns of more than this machine's cores, unless the target names another CPU.
    """
    if not options.threads:
        return
    threads.use_threads(options.threads)
    if options.target == HERE and not flags:
        threads.remark_too_many(options.threads)


def positive(text: str) -> int:
    """A command line's text as an integer above 0. Raises ValueError."""
    count = int(text)
    if count < 1:
        raise ValueError
    return count


def not_negative(text: str) -> int:
    """A command line's text as an integer of 0 or more, as NumPy's seeds are. Raises ValueError."""
    count = int(text)
    if count < 0:
        raise ValueError
    return count


def positive_number(text: str) -> float:
    """A command line's text as a number above 0; no NaN, no infinity. Raises ValueError."""
    number = float(text)
    if not 0 < number < math.inf:
        raise ValueError
    return number


def thread_count(text: str) -> int:
    """A command line's text as a number of threads that TVM can start. Raises ValueError."""
    count = positive(text)
    if count > MOST_THREADS:
        raise ValueError
    return count


# argparse's error message names the type by it.
not_negative.__name__ = "number of 0 or more"
positive.__name__ = positive_number.__name__ = "positive number"
thread_count.__name__ = f"number of threads (1 to {MOST_THREADS})"


def check_environment(environment: Mapping[str, str] = os.environ) -> None:
    """Raise NeoCpuError for a variable of ours without such a value; warn of one that we lack."""
    from tvm_neocpu.relay_passes.ir.run_passes import DEBUG, debug_words
    from tvm_neocpu.topi.conv2d_winograd.space import TILE_LIMIT, tile_limit

    debug_words()
    tile_limit()
    known = {DEBUG, TILE_LIMIT, "TVM_NEOCPU_CALIBRATION", "TVM_NEOCPU_LOGS"}
    known |= {"TVM_NEOCPU_CACHE", "TVM_NEOCPU_DATA"}
    for name in sorted(environment):
        if name.startswith("TVM_NEOCPU_") and name not in known:
            there = ", ".join(sorted(known))
            warnings.warn(f"{name} changes nothing; there are {there}", stacklevel=2)


def parse_shapes(texts: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """``["data:1,3,224,224"]`` -> ``{"data": (1, 3, 224, 224)}``. Raises ShapeError."""
    shapes = {}
    for text in texts:
        name, colon, numbers = text.rpartition(":")
        try:
            dims = tuple(int(number) for number in numbers.split(","))
        except ValueError:
            dims = ()
        if not colon or not name or not dims:
            raise ShapeError(f"--shape is NAME:1,3,224,224, not {text!r}")
        if name in shapes:
            raise ShapeError(f"--shape names input {name!r} twice; run once for each shape")
        shapes[name] = dims
    return shapes


def load_network(spec: str) -> tuple[str, onnx.ModelProto]:
    """A model's short name and the model: of the zoo, of torchvision (`torchvision:NAME`), a file.

    Raises UnknownModelError, ModelFileError, MissingPackageError.
    """
    from tvm_neocpu.contrib import model_zoo
    from tvm_neocpu.contrib.model_zoo.pretrained import PREFIX, pretrained
    from tvm_neocpu.frontend.reading.onnx_model import load_model
    from tvm_neocpu.runtime.files.module_file import is_compiled_file
    from tvm_neocpu.targets.syntax import suggestion

    if spec in model_zoo.names():
        return spec, model_zoo.build(spec)
    if spec.startswith(PREFIX):
        name = spec.removeprefix(PREFIX)
        return name, pretrained(name)
    path = Path(spec)
    if path.exists() and is_compiled_file(path):
        raise ModelFileError(
            f"{spec} is compiled: this command needs the network's layers, so name the ONNX model "
            f"it was made of; `python -m tvm_neocpu run {spec}` runs the file and times it"
        )
    if not spec or path.suffix or path.exists() or len(path.parts) > 1:
        return path.stem, load_model(spec)
    hint = suggestion(spec, model_zoo.names()) or f": {', '.join(model_zoo.names())}"
    raise UnknownModelError(f"{spec!r} is neither a file nor a network of the zoo{hint}")


def console(width: int) -> Console:
    """A console: the terminal at its own width, or ``width`` columns for a file or pipe.

    For a file or pipe rich would assume 80 columns and cut the tables.
    """
    terminal = _Console()
    return terminal if terminal.is_terminal else _Console(width=width)


class _Console(Console):
    def on_broken_pipe(self) -> NoReturn:
        """Raise the BrokenPipeError: rich exits with code 1, which says that outputs differ."""
        raise


def printable(text: str) -> str:
    """A stranger's text, a log's or a name's, without what a terminal would take for commands."""
    return "".join(c if c.isprintable() else "?" for c in text)


def logs_of(options: argparse.Namespace) -> AbstractContextManager[Any]:
    """Builds and searches inside read the log that ``--log`` names, if it names one."""
    from tvm_neocpu.tuning.database.history import apply_history_best

    return apply_history_best(options.log) if options.log else contextlib.nullcontext()


def default_log(target: CompileTarget, model: str) -> Path:
    """This user's log for the target's CPU, which every build of this user finds.

    Where the database is switched off it is ``tuning_logs/<cpu>/<model>.log``: builds of a source
    checkout find that.
    """
    from tvm_neocpu.tuning.database.places import find_user_log

    found = find_user_log(target.cpu.name)
    return found or Path("tuning_logs") / target.cpu.name / f"{model}.log"


def _is_target_flag(word: str) -> bool:
    return len(word) > 2 and word[0] == "-" and word[1].isalpha()
