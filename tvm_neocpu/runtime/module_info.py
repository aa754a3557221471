"""What an exported module knows of itself: its tensors, and the machine it was made for."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import tvm

from tvm_neocpu.core.errors import ModuleFileError
from tvm_neocpu.runtime import host as host_cpu
from tvm_neocpu.version import __version__

# To be increased when readers of older versions would misread what is written now.
FORMAT = 1


@dataclass(frozen=True)
class TensorInfo:
    """An input or output: its name, shape and NumPy dtype."""

    name: str
    shape: tuple[int, ...]
    dtype: str

    def __str__(self) -> str:
        return f"{self.name} {self.dtype}{list(self.shape)}"


@dataclass(frozen=True)
class ModuleInfo:
    """The description inside an exported file.

    ``cpu`` and ``triple`` are LLVM's names, ``features`` LLVM's names of the CPU features that the
    code may use. ``threads`` is the number of cores that the schedules were chosen for.
    """

    name: str
    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]
    cpu: str
    triple: str
    features: tuple[str, ...]
    threads: int
    package: str = __version__
    tvm: str = tvm.__version__
    format: int = FORMAT

    @property
    def missing(self) -> tuple[str, ...]:
        """The features that this machine lacks to run the code; empty if it can run it."""
        return host_cpu.missing_features(frozenset(self.features), self.triple)

    def to_json(self) -> str:
        return json.dumps(asdict(self))


def info_from_json(text: str, path: str) -> ModuleInfo:
    """The info that ``path`` carries.

    Raises ModuleFileError for a damaged text, and for a later format than ours.
    """
    try:
        fields: dict[str, Any] = json.loads(text)
        if fields["format"] == FORMAT:
            return _info_from(fields)
        writer = fields["package"]
    except (ValueError, KeyError, TypeError) as error:
        raise ModuleFileError(f"cannot load {path}: its description is damaged") from error
    raise ModuleFileError(f"{path} was exported by tvm_neocpu {writer}; this is {__version__}")


def _info_from(fields: dict[str, Any]) -> ModuleInfo:
    inputs, outputs = _tensors_from(fields["inputs"]), _tensors_from(fields["outputs"])
    features = tuple(fields["features"])
    return ModuleInfo(**{**fields, "inputs": inputs, "outputs": outputs, "features": features})


def _tensors_from(rows: Sequence[dict[str, Any]]) -> tuple[TensorInfo, ...]:
    return tuple(TensorInfo(row["name"], tuple(row["shape"]), row["dtype"]) for row in rows)
