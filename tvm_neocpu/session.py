"""Sessions over whatever a user has: an ONNX file, an exported library, a model in memory."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any

from tvm_neocpu.core.errors import (
    MissingPackageError,
    ModelFileError,
    SessionError,
    ShapeError,
    TargetError,
)
from tvm_neocpu.runtime.built_module import BuiltModule, load
from tvm_neocpu.runtime.calls.functions import Library
from tvm_neocpu.runtime.files.module_file import is_compiled_file
from tvm_neocpu.runtime.files.module_info import OPEN, ModuleInfo, TensorInfo
from tvm_neocpu.runtime.process import host
from tvm_neocpu.runtime.process.fork_gate import building
from tvm_neocpu.runtime.session import CompiledSession, Runnable, RunnableParts, runnable_file

if TYPE_CHECKING:
    import onnx

    from tvm_neocpu.core.accuracy.precision import AccuracyData, Request
    from tvm_neocpu.targets import TargetLike

    Model = str | PathLike[str] | BuiltModule | onnx.ModelProto


# For this machine, with schedules for one thread: streams of one thread answer most calls.
_ONE_THREAD = "llvm -num-cores=1"
# Seconds in a run's compiler of which the user is told: more than reading from the cache.
_NOTICED = 1.0


class Session(CompiledSession):
    """A network in an application: `Session("model.onnx")`, `Session("model.so")`.

        session = tvm_neocpu.Session("resnet50.onnx")
        scores = session.run({"data": image})["scores"]

    ``model`` is an ONNX file or model, which is compiled for this machine (``shapes`` give the
    inputs that it leaves open; ``target``, ``precision``, ``max_error`` and ``accuracy_data`` as
    for `relay.build`; the user's cache folder keeps the result unless ``cache`` is False), a file
    that `export_library` wrote, or what `relay.build` returned. ``threads``, ``hint``, ``streams``
    and ``cores`` are those of :class:`CompiledSession`.

    A model that leaves more open than its batch is compiled by the first run of each shape, if
    ``shapes`` are not given; the log says how long that took, above a second. Another ``precision``
    needs ``shapes``, and so does ``hint="throughput"`` without ``streams``: else OpenShapeError.
    """

    def __init__(
        self,
        model: Model,
        threads: int | None = None,
        hint: str = "latency",
        *,
        streams: int | None = None,
        cores: Sequence[int] | None = None,
        shapes: Mapping[str, Sequence[int | str]] | None = None,
        target: TargetLike = None,
        cache: bool = True,
        precision: str = "fp32",
        max_error: float | None = None,
        accuracy_data: AccuracyData | None = None,
    ) -> None:
        options = {
            "shapes": shapes,
            "target": target,
            "precision": None if precision == "fp32" else precision,
            "max_error": max_error,
            "accuracy_data": accuracy_data,
        }
        _check_options(model, options)
        if target is None and hint == "throughput":
            target = _ONE_THREAD
        request = None
        if precision != "fp32" or max_error is not None or accuracy_data is not None:
            from tvm_neocpu.core.accuracy.precision import request_of  # 9 ms that few sessions need

            request = request_of(precision, max_error, accuracy_data)
        may_wait = request is None and (hint != "throughput" or streams is not None)
        library = _library(model, shapes, target, cache, request, may_wait)
        super().__init__(library, threads, hint, streams=streams, cores=cores)


def _is_compiled(model: object) -> bool:
    """Whether it is a file of `export_library`, or what `relay.build` returned."""
    is_file = isinstance(model, (str, PathLike)) and is_compiled_file(model)
    return is_file or isinstance(model, BuiltModule)


def _check_options(model: object, options: Mapping[str, Any]) -> None:
    """Raise SessionError for what a compiled model would ignore: it has been decided."""
    given = [name for name, value in options.items() if value is not None]
    if given and _is_compiled(model):
        raise SessionError(f"{given[0]}= is for ONNX models: this is compiled")


def _library(
    model: Model,
    shapes: Mapping[str, Any] | None,
    target: TargetLike,
    cache: bool,
    request: Request | None,
    may_wait: bool,
) -> Runnable:
    """``may_wait``: whether shapes that nobody gave may be those of a run."""
    if isinstance(model, BuiltModule):
        return model
    if _is_compiled(model):
        return runnable_file(model)
    try:
        try:
            return _compiled(model, shapes, target, cache, request, runnable_file)
        except ShapeError:
            waiting = _compiled_by_runs(model, target, cache) if may_wait and not shapes else None
            if waiting is None:
                raise
            return waiting
    except ModuleNotFoundError as error:
        raise MissingPackageError(
            "compiling an ONNX model needs the whole package: pip install tvm-neocpu, with all "
            "that it requires; the extra `runtime` is for compiled files "
            f"({error.name} is not there)"
        ) from error


@building()  # imports, too: a fork waits
def _compiled(
    model: str | PathLike[str] | onnx.ModelProto,
    shapes: Mapping[str, Any] | None,
    target: TargetLike,
    cache: bool,
    request: Request | None,
    read: Callable[..., Runnable],
) -> Runnable:
    """Compile an ONNX model, if the cache has it not; only then is the compiler imported.

    A deployed package has neither cache nor compiler. ``read`` reads a file of the cache.
    """
    if not isinstance(model, (str, PathLike)) and not hasattr(model, "graph"):
        raise ModelFileError(
            f"a session takes an ONNX file or model, a .so or .tar file or a built library, "
            f"not {type(model).__name__}"
        )

    if shapes is not None and not isinstance(shapes, Mapping):
        raise SessionError(
            "shapes of a session is one dict, like {'data': (1, 3, 224, 224)}; several "
            "specialisations in one file are for relay.build(..., shapes=[...])"
        )

    from pathlib import Path

    from tvm_neocpu.compile_cache import cached, stamp

    file = fspath(model) if isinstance(model, (str, PathLike)) else None
    stamped = stamp(Path(file)) if file is not None else None

    def check_unchanged() -> None:
        """Weights are read where they lay, and the cache's key is a hash of what was there."""
        if file is not None and stamp(Path(file)) != stamped:
            raise ModelFileError(f"{file} changed while it was read; try again")

    def build() -> BuiltModule:
        from tvm_neocpu import relay
        from tvm_neocpu.frontend.reading.onnx_model import load_model
        from tvm_neocpu.frontend.source import forget_source
        from tvm_neocpu.runtime.process.heap import large_blocks_apart
        from tvm_neocpu.specialize import build_networks
        from tvm_neocpu.targets import parse_target

        found = parse_target(target)
        if not found.runs_here:
            raise TargetError(
                f"no session runs code for {found.cpu.name} here: {found.why_not_here}; "
                "relay.build and export_library write a file for that CPU"
            )
        with large_blocks_apart():
            if request is None and file is not None:
                # Nobody else has the module.
                networks = {"main": relay.frontend.import_file(file, shapes)}
                check_unchanged()
                return build_networks(networks, found, in_place=True)
            known = load_model(file) if file is not None else model
            check_unchanged()
            mod, params = relay.frontend.from_onnx(known, shapes)
            if request is None or request.half is not None:
                del known  # and its weights, which the module has too
                forget_source(mod)
            asked = request.options if request else {}
            # The file is the key of the cache.
            return relay.build(mod, target=found, params=params, cache=False, **asked)

    content = _content(model) if cache else None
    if content is None:
        return build()

    options = {
        "shapes": {name: list(map(str, dims)) for name, dims in (shapes or {}).items()},
        "target": str(target),
        "precision": request.key if request else [],
    }
    return cached(content, options, build, partial(read, check_weights=True))


def _compiled_by_runs(
    model: str | PathLike[str] | onnx.ModelProto, target: TargetLike, cache: bool
) -> Runnable | None:
    """What compiles a model for each shape that it meets; ``None`` if its shapes are known, or one
    of its inputs or outputs is no tensor of a known rank.
    """
    import logging  # a compiled file needs neither
    from copy import deepcopy

    from tvm_neocpu.frontend.reading.declared_interface import declared_inputs, declared_outputs
    from tvm_neocpu.frontend.reading.onnx_model import load_to_import
    from tvm_neocpu.targets import parse_target

    is_file = isinstance(model, (str, PathLike))
    if not is_file:
        model = deepcopy(model)  # the caller's may change before the next shape comes
    content = _content(model) if is_file else None
    known = load_to_import(fspath(model))[0] if is_file else model
    inputs, outputs = declared_inputs(known.graph), declared_outputs(known)
    is_open = inputs is not None and any(OPEN in shape for _, shape, _ in inputs)
    if inputs is None or outputs is None or not is_open:
        return None

    def on_demand(given: Mapping[str, tuple[int, ...]]) -> Library:
        if is_file and _content(model) != content:
            raise ModelFileError(
                f"{fspath(model)}, or a file of its weights, changed since the session was made: "
                "make another one"
            )
        start = time.perf_counter()
        made = _compiled(model, given, target, cache, None, load)
        seconds = time.perf_counter() - start
        if seconds > _NOTICED:
            shapes = ", ".join(f"{name} {list(shape)}" for name, shape in given.items())
            logging.getLogger("tvm_neocpu").warning(
                "the first run for %s waited %.1f s for the compiler; Session(..., shapes=) "
                "compiles before it",
                shapes,
                seconds,
            )
        return made.library

    cpu = parse_target(target).cpu
    info = ModuleInfo(
        name="default",
        inputs=tuple(TensorInfo(*tensor) for tensor in inputs),
        outputs=tuple(TensorInfo(*tensor) for tensor in outputs),
        cpu=cpu.name,
        triple=host.triple(),
        features=(),
        threads=cpu.cores,
        entries=(),
    )
    return RunnableParts(info, Library(None, (), on_demand, names=[name for name, _, _ in inputs]))


def _content(model: str | PathLike[str] | onnx.ModelProto) -> bytes | None:
    """What stands for the model's bytes in a key, those of its external weights included; ``None``
    for a file that cannot be read: building says why.
    """
    if isinstance(model, (str, PathLike)):
        from pathlib import Path

        from tvm_neocpu.storage.external_files import content_hash  # compiled files need none

        return content_hash(Path(model))
    from hashlib import sha256

    return sha256(model.SerializeToString(deterministic=True)).digest()
