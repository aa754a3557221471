"""What an exported module knows of itself: its tensors, and the machine it was made for."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import tvm

from tvm_neocpu.core.errors import ModuleFileError, ShapeError
from tvm_neocpu.relay_passes.ir.tensor_types import dimensions, tensors_of
from tvm_neocpu.runtime import host as host_cpu
from tvm_neocpu.targets import CompileTarget
from tvm_neocpu.version import __version__

# Raised when a reader of this version could misread what a later one writes.
FORMAT = 1


@dataclass(frozen=True)
class TensorInfo:
    """An input or output: its name (outputs are numbered), shape and NumPy dtype."""

    name: str
    shape: tuple[int, ...]
    dtype: str

    def __str__(self) -> str:
        return f"{self.name} {self.dtype}{list(self.shape)}"


@dataclass(frozen=True)
class ModuleInfo:
    """Kept inside the exported file. ``features`` are LLVM's names of what the code may use."""

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
        """What this machine lacks to run the code; empty when it can."""
        return host_cpu.missing_features(frozenset(self.features), self.triple)

    def to_json(self) -> str:
        return json.dumps(asdict(self))


def describe_module(mod: tvm.IRModule, target: CompileTarget, name: str) -> ModuleInfo:
    """The info of a module about to be built; raises ShapeError for an input that is not static."""
    main = mod["main"]
    triple = str(target.target.attrs.get("mtriple", "") or host_cpu.triple())
    return ModuleInfo(
        name=name,
        inputs=tuple(_tensor_info(var.name, var.ty) for var in main.params),
        outputs=tuple(map(_output_info, itertools.count(), tensors_of(main.ret_ty))),
        cpu=target.cpu.name,
        triple=triple,
        features=tuple(sorted(target.features)),
        threads=target.cpu.cores,
    )


def info_from_json(text: str, path: str) -> ModuleInfo:
    """The info that ``path`` carries; raises ModuleFileError for a format of the future."""
    fields: dict[str, Any] = json.loads(text)
    if fields.get("format") != FORMAT:
        writer = fields.get("package", "a later version")
        raise ModuleFileError(f"{path} was exported by tvm_neocpu {writer}; this is {__version__}")
    fields["inputs"] = _tensors_from(fields["inputs"])
    fields["outputs"] = _tensors_from(fields["outputs"])
    fields["features"] = tuple(fields["features"])
    return ModuleInfo(**fields)


def _tensors_from(rows: Sequence[dict[str, Any]]) -> tuple[TensorInfo, ...]:
    return tuple(TensorInfo(row["name"], tuple(row["shape"]), row["dtype"]) for row in rows)


def _tensor_info(name: str, ty: Any) -> TensorInfo:
    shape = dimensions(ty)
    if shape is None or None in shape:
        raise ShapeError(
            f"input {name!r} has no static shape; give one when importing: "
            f'from_onnx(model, {{"{name}": (1, ...)}})'
        )
    return TensorInfo(name, tuple(dim for dim in shape if dim is not None), str(ty.dtype))


def _output_info(number: int, ty: Any) -> TensorInfo:
    """An output; a dynamic dimension reads -1."""
    dims = tuple(-1 if dim is None else dim for dim in dimensions(ty) or ())
    return TensorInfo(str(number), dims, str(getattr(ty, "dtype", "")))
