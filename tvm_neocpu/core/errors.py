"""Every exception that bad input can raise: one family to catch, one line to print."""

from __future__ import annotations

import re


class NeoCpuError(Exception):
    """Base of all: the text is one line that says what was wrong and what to do."""


_TVM_OPERATOR = re.compile(r'ir\.Op\(span=.*?, name="([^"]*)".*?, support_level=\d+\)')
_TVM_INTEGER = re.compile(r"\bT\.int\d+\((-?\d+)\)")


def first_line(error: BaseException) -> str:
    """The first line with text of an error's message, which may be a stack; else its type.

    Of TVM's operators and integers, which it prints with all their fields, the names and numbers.
    """
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if not lines:
        return type(error).__name__
    named = _TVM_OPERATOR.sub(r"\1", lines[0])
    return _TVM_INTEGER.sub(r"\1", named)


class UnknownModelError(NeoCpuError, KeyError):
    """A network name that the zoo does not have."""

    def __str__(self) -> str:
        # KeyError would print the repr of its argument; a person reads this one.
        return str(self.args[0]) if self.args else ""


class MissingPackageError(NeoCpuError, ImportError):
    """An optional package that is not installed; the text says how to get it."""


class ModelFileError(NeoCpuError):
    """A model file that is missing, truncated or not ONNX."""


class UnsupportedOperatorError(NeoCpuError):
    """The importer does not know an operator of the model; the text names it."""


class ShapeError(NeoCpuError, ValueError):
    """A graph input whose shape is missing, dynamic or does not fit the model."""


class RunError(NeoCpuError, RuntimeError):
    """Extents that only a run knows do not fit; the text names the node and what it needs."""


class OpenShapeError(ShapeError):
    """A graph input whose dimensions the model leaves open.

    ``on_command_line`` is the same line in the command line's syntax; ``example`` is what fits.
    """

    def __init__(self, text: str, on_command_line: str = "", example: tuple[int, ...] = ()) -> None:
        super().__init__(text)
        self.on_command_line = on_command_line or text
        self.example = example


class TargetError(NeoCpuError, ValueError):
    """A target that TVM or LLVM would not understand."""


class CalibrationError(NeoCpuError):
    """A calibration file that is broken, not one, or cannot be written."""


class LogError(NeoCpuError):
    """A tuning log that cannot be written, or a named one that cannot be read."""


class ConfigError(NeoCpuError, ValueError):
    """A schedule configuration that does not fit its workload."""


class WorkloadTextError(NeoCpuError, ValueError):
    """A text that describes no workload."""


class PlanError(NeoCpuError):
    """A layout plan that does not belong to the network it is applied to."""


class InvalidProblemError(NeoCpuError, ValueError):
    """A layout problem whose costs have the wrong shape or value."""


class UnsatisfiableError(NeoCpuError):
    """A layout problem with no finite solution; the text names the conflict."""


class ScheduleError(NeoCpuError, ValueError):
    """A schedule graph, order or partition that is none; a network that fits no buffer."""


class SearchCutError(NeoCpuError):
    """An exact search that ended at its limit without an answer."""


class MachineFileError(NeoCpuError):
    """A machine file that cannot be read, or has missing, negative or unknown fields."""


class ModuleFileError(NeoCpuError):
    """An exported module that is missing or was not written by this package."""


class LineError(NeoCpuError, ValueError):
    """A log line that cannot be understood; the text says why. Readers skip the line and warn."""


class NewerFormatError(LineError):
    """A log line of a format that this version does not know yet."""


class TemplateError(NeoCpuError):
    """A template that cannot schedule a function that it computed itself: a bug of the template."""


class FallbackError(NeoCpuError):
    """Operations that no template takes, in a build that refuses them; the text lists them."""


class SessionError(NeoCpuError, ValueError):
    """An option of a session that cannot be: threads, hint, streams, cores; or a closed session."""


class FleetError(NeoCpuError):
    """A tracker or server that does not answer, or a key that nobody serves."""


class ServerLostError(FleetError):
    """A server that was there and is not any more: it died, or its session ended."""
