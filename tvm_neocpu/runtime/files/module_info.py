"""What an exported module knows of itself: its tensors, and the machine it was made for."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from tvm_neocpu.core.errors import ModuleFileError
from tvm_neocpu.runtime.process import host as host_cpu
from tvm_neocpu.version import __version__

# To be increased when readers of older versions would misread what is written now.
FORMAT = 2
# Files of format 1 have one function, for one shape.
_READABLE = (1, FORMAT)
# An extent that is not the same for all shapes that a module takes; in an entry: any batch.
OPEN = -1
_TENSORS = ("inputs", "outputs")


class TensorInfo(NamedTuple):
    """An input or output: its name, shape and NumPy dtype; ``OPEN`` extents vary."""

    name: str
    shape: tuple[int, ...]
    dtype: str

    def takes(self, shape: Sequence[int]) -> bool:
        """Whether a tensor of that shape may be this one."""
        if shape == self.shape:  # of most calls; no loop in Python
            return True
        return len(shape) == len(self.shape) and all(
            own in (OPEN, given) for own, given in zip(self.shape, shape, strict=True)
        )

    @property
    def shape_text(self) -> str:
        """``"[?, 3, 224, 224]"``"""
        return f"[{', '.join('?' if dim == OPEN else str(dim) for dim in self.shape)}]"

    def __str__(self) -> str:
        return f"{self.name} {self.dtype}{self.shape_text}"


class Entry(NamedTuple):
    """A compiled function and the tensors that it takes and gives.

    ``OPEN`` is one extent of each, and it is one and the same number in all of them: the batch.
    ``into`` is the function that computes the same and takes tensors for the outputs ``written``
    behind its inputs; empty where there is none.
    """

    function: str
    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]
    into: str = ""
    written: tuple[int, ...] = ()

    def takes(self, shapes: Sequence[Sequence[int] | None]) -> bool:
        """Whether it computes inputs of these shapes; ``None`` is one that may have any."""
        known = self._known(shapes)
        return len(_batches(known)) <= 1 and all(own.takes(given) for own, given in known)

    def completed(self, shapes: Sequence[Sequence[int] | None]) -> tuple[tuple[int, ...], ...]:
        """The shapes of all inputs: those that are not given have the others' batch, else 1."""
        batch = next(iter(_batches(self._known(shapes))), 1)
        return tuple(
            tuple(batch if dim == OPEN else dim for dim in own.shape)
            if given is None
            else (*given,)
            for own, given in zip(self.inputs, shapes, strict=True)
        )

    def outputs_of(self, shapes: Sequence[Sequence[int]]) -> tuple[TensorInfo, ...]:
        """The outputs for inputs of these shapes, all extents known."""
        (batch,) = _batches(self._known(shapes)) or {OPEN}
        return tuple(
            own._replace(shape=tuple(batch if dim == OPEN else dim for dim in own.shape))
            for own in self.outputs
        )

    def _known(
        self, shapes: Sequence[Sequence[int] | None]
    ) -> list[tuple[TensorInfo, Sequence[int]]]:
        pairs = zip(self.inputs, shapes, strict=True)
        return [(own, given) for own, given in pairs if given is not None]

    @property
    def shapes_text(self) -> str:
        """``"data [?, 3, 224, 224]"``"""
        return ", ".join(f"{tensor.name} {tensor.shape_text}" for tensor in self.inputs)


def _batches(pairs: Sequence[tuple[TensorInfo, Sequence[int]]]) -> set[int]:
    """The extents that are open in the tensors themselves."""
    return {
        extent
        for own, given in pairs
        for at, extent in zip(own.shape, given, strict=False)
        if at == OPEN
    }


class ModuleInfo(NamedTuple):
    """The description inside an exported file.

    ``cpu`` and ``triple`` are LLVM's names, ``features`` LLVM's names of the CPU features that the
    code may use. ``threads`` is the number of cores that the schedules were chosen for.
    ``entries`` are the compiled functions; ``inputs`` and ``outputs`` describe all of them.
    ``package`` and ``tvm`` are the versions that made it.
    """

    name: str
    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]
    cpu: str
    triple: str
    features: tuple[str, ...]
    threads: int
    entries: tuple[Entry, ...]
    package: str = __version__
    tvm: str = ""
    format: int = FORMAT

    @property
    def missing(self) -> tuple[str, ...]:
        """The features that this machine lacks to run the code; empty if it can run it."""
        return host_cpu.missing_features(frozenset(self.features), self.triple)

    def to_fields(self) -> dict[str, Any]:
        """What `info_from_fields` reads, in types that JSON has."""
        tensors = {name: _rows(getattr(self, name)) for name in _TENSORS}
        return {**self._asdict(), **tensors, "entries": [_entry_row(one) for one in self.entries]}

    def to_json(self) -> str:
        return json.dumps(self.to_fields())


def info_from_json(text: str, path: str) -> ModuleInfo:
    """The info that ``path`` carries.

    Raises ModuleFileError for a damaged text, and for a later format than ours.
    """
    try:
        return info_from_fields(json.loads(text), path)
    except ValueError as error:
        raise ModuleFileError(f"cannot load {path}: its description is damaged") from error


def info_from_fields(fields: dict[str, Any], path: str) -> ModuleInfo:
    """The same, of a text that has been read."""
    try:
        if fields["format"] in _READABLE:
            return _info_from(fields)
        writer = fields["package"]
    except (ValueError, KeyError, TypeError) as error:
        raise ModuleFileError(f"cannot load {path}: its description is damaged") from error
    raise ModuleFileError(f"{path} was exported by tvm_neocpu {writer}; this is {__version__}")


def _info_from(fields: dict[str, Any]) -> ModuleInfo:
    inputs, outputs = _tensors_from(fields["inputs"]), _tensors_from(fields["outputs"])
    features = tuple(fields["features"])
    entries = tuple(
        Entry(
            row["function"],
            _tensors_from(row["inputs"]),
            _tensors_from(row["outputs"]),
            row.get("into", ""),  # what was written before has none
            tuple(row.get("written", ())),
        )
        for row in fields.get("entries", ())
    )
    if not entries:  # format 1
        entries = (Entry("main", inputs, outputs),)
    read = {"inputs": inputs, "outputs": outputs, "features": features, "entries": entries}
    return ModuleInfo(**{**fields, **read, "format": FORMAT})


def _rows(tensors: Sequence[TensorInfo]) -> list[dict[str, Any]]:
    return [tensor._asdict() for tensor in tensors]


def _entry_row(entry: Entry) -> dict[str, Any]:
    return {**entry._asdict(), **{name: _rows(getattr(entry, name)) for name in _TENSORS}}


def _tensors_from(rows: Sequence[dict[str, Any]]) -> tuple[TensorInfo, ...]:
    return tuple(TensorInfo(row["name"], tuple(row["shape"]), row["dtype"]) for row in rows)


def interface_of(
    entries: Sequence[Entry],
) -> tuple[tuple[TensorInfo, ...], tuple[TensorInfo, ...]]:
    """What all entries take and give; extents in which they differ are ``OPEN``."""
    inputs = zip(*(entry.inputs for entry in entries), strict=True)
    outputs = zip(*(entry.outputs for entry in entries), strict=True)
    return tuple(map(_common, inputs)), tuple(map(_common, outputs))


def _common(tensors: Sequence[TensorInfo]) -> TensorInfo:
    extents = zip(*(tensor.shape for tensor in tensors), strict=True)
    shape = tuple(each[0] if len(set(each)) == 1 else OPEN for each in extents)
    return TensorInfo(tensors[0].name, shape, tensors[0].dtype)
