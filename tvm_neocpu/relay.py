"""The classic front door: ``relay.frontend.from_onnx`` and ``relay.build`` on top of Relax.

`import tvm_neocpu` provides this module as ``tvm.relay`` where TVM ships none.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import tvm
from tvm import relax

from tvm_neocpu import frontend
from tvm_neocpu.core.accuracy.precision import (
    BF16,
    HALF_DTYPES,
    AccuracyData,
    BoundWarning,
    PrecisionError,
    Request,
    check_half,
    half_line,
    request_of,
)
from tvm_neocpu.core.errors import NeoCpuError, ShapeError
from tvm_neocpu.core.messages.fallback import OnFallback, check_choice
from tvm_neocpu.core.messages.told import tell_user
from tvm_neocpu.relay_passes.batches.bind_shapes import InputShapes, at_shapes, open_inputs
from tvm_neocpu.relay_passes.batches.sizes import MAX_BATCH
from tvm_neocpu.relay_passes.ir.half_weights import with_half_weights
from tvm_neocpu.relay_passes.ir.python_lock import PYTHON_LOCK
from tvm_neocpu.relay_passes.ir.tensor_types import dimensions
from tvm_neocpu.runtime.process.fork_gate import building

if TYPE_CHECKING:
    from tvm_neocpu.core.machine.cpu import Cpu
    from tvm_neocpu.frontend.source import Source
    from tvm_neocpu.runtime.built_module import BuiltModule
    from tvm_neocpu.runtime.calls.functions import Library
    from tvm_neocpu.targets import TargetLike

__all__ = ["build", "frontend"]

_LOG = logging.getLogger(__name__)


@building()
def build(
    mod: tvm.IRModule | relax.Function,
    target: TargetLike = None,
    target_host: TargetLike = None,
    params: Mapping[str, Any] | None = None,
    mod_name: str = "default",
    fallback: OnFallback = "warn",
    shapes: Sequence[InputShapes] | None = None,
    max_batch: int = MAX_BATCH,
    cache: bool = True,
    precision: str = "fp32",
    max_error: float | None = None,
    accuracy_data: AccuracyData | None = None,
    small_file: bool = False,
) -> BuiltModule:
    """Compile a network for a CPU; ``lib["default"](tvm.cpu())`` runs it.

    ``target`` is a classic string, a dictionary or a TVM target. The default is the target in force
    (``with tvm.target.Target(...)``), else this machine. ``params`` are the weights by name, TVM
    tensors or arrays; they become constants. Names that ``mod`` lacks are ignored. ``target_host``
    is checked and then ignored, because a CPU is its own host.

    ``fallback`` says what happens where no template takes an arithmetic-heavy operation (a 3-D
    convolution, a product of two inputs), and TVM's own code computes it: ``"warn"`` gives one
    FallbackWarning that lists all, ``"error"`` refuses, ``"ignore"`` says nothing.

    A module with an open batch runs any batch: some batches up to ``max_batch`` get code of their
    own, the others run as sums of these. ``shapes`` lists what a module with other open extents is
    compiled for, each a mapping from input to shape; -1 leaves the batch open. All share weights in
    one file. A shape that is not listed is compiled when it is first run, in this process alone.

    The user's cache folder keeps the result and is asked first, unless ``cache`` is False or
    ``TVM_NEOCPU_CACHE`` is ``off``. The library then runs from a file of the cache. To write it in
    another format than ``.so``, or to show its source, it is compiled again, from ``mod``. Of a
    library for another CPU the folder keeps the kernels alone.

    ``precision``: ``"int8"`` computes every layer in int8 that can. ``"auto"`` takes int8 or half
    precision for the layers that it makes faster by prediction, while the relative error at the
    outputs stays within ``max_error`` (default 0.01). ``accuracy_data`` are typical inputs: arrays
    by name with the samples along the first axis, a list of such, a folder or an .npz. Ranges come
    from it, and the error is checked on it. ``mod`` must be as `from_onnx` made it, at fixed
    shapes. ``"fp16"`` and ``"bf16"`` need no data: layers that wait for memory, by prediction,
    store their weights so. Arithmetic is fp32, but for ``"bf16"`` on a CPU that multiplies it:
    layers that this makes faster use it. With data they keep to ``max_error``
    (default 0.005) as ``"auto"`` does.

    ``small_file``: `export_library` writes the weights of Winograd's layers as the network has
    them, and whoever loads the file transforms them. The file is up to four times smaller; loading
    takes longer, and the weights are memory of each process. Such a build is not cached.

    A bound below what fp32 itself is off by (2e-5) is refused. One that keeps every layer in fp32
    gives a BoundWarning with the best reachable.

    Raises PrecisionError and CalibrationDataError for what these three say wrongly, BoundError for
    an error that int8 cannot keep to; TargetError, ShapeError, FallbackError, NeoCpuError for an
    unknown ``fallback`` and for a module whose ``main`` is no closed Relax function.
    """
    from tvm_neocpu.runtime.process.heap import large_blocks_apart
    from tvm_neocpu.specialize import build_networks
    from tvm_neocpu.targets import parse_target

    check_choice(fallback)
    request = request_of(precision, max_error, accuracy_data)
    if not isinstance(mod_name, str):
        raise NeoCpuError(f"mod_name is the name in lib[name], not {mod_name!r}")
    compile_target = parse_target(target if target is not None else tvm.target.Target.current())
    if target_host is not None:
        parse_target(target_host)
    bound = _bind_params(_as_module(mod), params or {})
    half = None if request is None else request.half
    if request is not None and request.precision in HALF_DTYPES:
        check_half(request.precision, compile_target.cpu)
    if request is not None and half is not None:
        # Who asks for bf16 expects its products.
        gains_little = request.precision == BF16 and compile_target.cpu.bf16 is None
        level = logging.WARNING if gains_little else logging.INFO
        _LOG.log(level, half_line(request.precision, compile_target.cpu))
    source = None
    if request is not None and half is None:
        source = _source(mod, params or {}, shapes is not None)
    if max_batch < 1:
        raise NeoCpuError(f"max_batch is at least 1, not {max_batch}")
    if shapes is not None and not _lists_shapes(shapes):
        raise ShapeError("shapes= lists shapes, at least one, like [{'data': (1, 3, 224, 224)}]")

    def stored(network: tvm.IRModule) -> tvm.IRModule:
        return network if half is None else with_half_weights(network, half)

    on_demand = None
    networks, inputs = {"main": stored(bound)}, ()
    if shapes is not None:
        with PYTHON_LOCK:
            modules = [stored(at_shapes(bound, given)) for given in shapes]
        names = ["main", *(f"main_{number}" for number in range(1, len(modules)))]
        networks, inputs = dict(zip(names, modules, strict=True)), open_inputs(bound)

        def on_demand(given: InputShapes) -> Library:
            with PYTHON_LOCK:
                networks = {"main": stored(at_shapes(bound, given))}
            return build_networks(networks, compile_target, mod_name, "ignore", max_batch).library

    def compile_all() -> BuiltModule:
        built = networks
        if request is not None and source is not None:
            built = {"main": _in_precision(source, request, compile_target.cpu)}
        with large_blocks_apart():
            return build_networks(
                dict(built),  # it may be compiled again
                compile_target,
                mod_name,
                fallback,
                max_batch,
                inputs,
                on_demand,
                small_file=small_file,
            )

    if small_file or not (cache and _passes_are_ours()):
        return compile_all()
    from tvm_neocpu.compile_cache import cached_network, network_for_elsewhere

    if not compile_target.runs_here:
        return network_for_elsewhere(compile_all, on_demand)
    options = {
        "target": [str(compile_target.target), repr(compile_target.cpu)],
        "features": sorted(compile_target.features),
        "name": mod_name,
        "fallback": fallback,
        "max_batch": max_batch,
        "inputs": inputs,
        "precision": request.key if request else [],
    }
    return cached_network(networks, options, compile_all, on_demand)


def _source(mod: Any, params: Mapping[str, Any], many_shapes: bool) -> Source:
    """The ONNX model behind the module: quantising works on that."""
    from tvm_neocpu.frontend.source import source_of

    if many_shapes:
        raise PrecisionError("precision= takes one shape at a time: leave out shapes=")
    source = None if params else source_of(mod)
    if source is None:
        raise PrecisionError(
            "precision= quantises the ONNX model, at one shape: a model that leaves its batch open "
            "needs Session(..., shapes={...}) or --shape; relay.build takes the module as "
            "relay.frontend.from_onnx made it, its weights inside"
        )
    return source


def _in_precision(source: Source, request: Request, cpu: Cpu) -> tvm.IRModule:
    """The module of the model that was chosen instead; the log says what was."""
    from tvm_neocpu.precision.choose import choose_precision
    from tvm_neocpu.tuning.database.history import current_history

    chosen = choose_precision(source.model, source.shapes, request, cpu, current_history(cpu))
    for line in chosen.report.lines():
        _LOG.info(line)
    if chosen.report.unmet is not None:
        tell_user(BoundWarning(f"precision {request.precision}: {chosen.report.unmet}"), 4)
    return frontend.from_onnx(chosen.model, source.shapes)[0]


def _passes_are_ours() -> bool:
    """Whether TVM's passes run as they always do: a result under other options is not cached."""
    context = tvm.transform.PassContext.current()
    others = context.config, context.instruments, context.required_pass, context.disabled_pass
    return context.opt_level == 2 and not any(map(bool, others))


def _as_module(mod: tvm.IRModule | relax.Function) -> tvm.IRModule:
    if isinstance(mod, relax.Function):
        mod = tvm.IRModule({"main": mod})
    if not isinstance(mod, tvm.IRModule):
        raise NeoCpuError(f"relay.build takes an IRModule, not {type(mod).__name__}")
    if not any(var.name_hint == "main" for var in mod.get_global_vars()):
        raise NeoCpuError("the module to build has no function main")
    if not isinstance(mod["main"], relax.Function):
        kind = type(mod["main"]).__name__
        raise NeoCpuError(f"main of the module to build is a {kind}, not a Relax function")
    free = relax.analysis.free_vars(mod["main"])
    if free:
        raise NeoCpuError(f"main of the module reads {free[0].name!r}, which nothing makes")
    return mod


def _lists_shapes(shapes: Any) -> bool:
    """Whether there is an entry, and each gives shapes by name."""
    if not isinstance(shapes, Sequence) or not shapes:
        return False
    if not all(isinstance(given, Mapping) for given in shapes):
        return False
    return all(isinstance(shape, Sequence) for given in shapes for shape in given.values())


def _bind_params(mod: tvm.IRModule, params: Mapping[str, Any]) -> tvm.IRModule:
    """The module with its weights as constants of main. Names that main lacks are ignored."""
    main = mod["main"]
    known = {var.name: var for var in main.params}
    tensors = {name: _as_tensor(params[name]) for name in known.keys() & params.keys()}
    for name, tensor in tensors.items():
        wanted = dimensions(known[name].ty)
        if wanted is not None and wanted != tuple(tensor.shape):
            raise ShapeError(f"weight {name!r} is {list(wanted)}, not {list(tensor.shape)}")
        kind = str(getattr(known[name].ty, "dtype", None) or "")
        if kind and str(tensor.dtype) != kind:
            raise ShapeError(f"weight {name!r} is {kind}, not {tensor.dtype}")
    if tensors:
        mod = relax.transform.BindParams("main", tensors)(mod)
    inputs = int((main.attrs or {}).get("num_input", 0)) or len(main.params) - len(tensors)
    unbound = [var.name for var in mod["main"].params[inputs:]]
    if unbound:
        raise ShapeError(f"no value for weight {unbound[0]!r}; pass params= to relay.build")
    return mod


def _as_tensor(value: Any) -> tvm.runtime.Tensor:
    return value if isinstance(value, tvm.runtime.Tensor) else tvm.runtime.tensor(np.asarray(value))
