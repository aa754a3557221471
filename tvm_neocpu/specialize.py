"""Building networks whose shapes are open: several networks of known shapes in one module.

    one network, any batch      ->  its specialisations for some batches, and a function that runs
                                    any other batch as a sum of these
    one network, several shapes ->  a function for each

Each of them goes through :mod:`.pipeline` by itself. They share weights, memory and a file.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from functools import partial

import tvm
from tvm import relax

from tvm_neocpu.codegen.kernel_store import compiling_ahead
from tvm_neocpu.codegen.late_weights import late_weights, packed_at_once
from tvm_neocpu.codegen.network import compile_network
from tvm_neocpu.core.messages.fallback import OnFallback
from tvm_neocpu.core.network.weight_transform import recording_transforms
from tvm_neocpu.exporting.write_module import export_module
from tvm_neocpu.lower_networks import lower_networks
from tvm_neocpu.relay_passes.batches.sizes import MAX_BATCH
from tvm_neocpu.relay_passes.ir.describe import Described, describe_inputs, describe_outputs
from tvm_neocpu.relay_passes.ir.run_passes import run_passes
from tvm_neocpu.relay_passes.ir.written_outputs import into_name, written_outputs
from tvm_neocpu.relay_passes.lowering.unlowered import naming_what_is_left
from tvm_neocpu.relay_passes.memory.outputs_from_caller import OutputsFromCaller
from tvm_neocpu.runtime.built_module import BuiltModule
from tvm_neocpu.runtime.calls.functions import OnDemand
from tvm_neocpu.runtime.files.module_info import Entry, ModuleInfo, TensorInfo, interface_of
from tvm_neocpu.runtime.process import host
from tvm_neocpu.runtime.process.fork_gate import building
from tvm_neocpu.targets import CompileTarget, describe_target, warn_of_generic_code
from tvm_neocpu.topi.conv2d_winograd.space import tile_limit
from tvm_neocpu.tuning.database.history import History


@building()
def build_networks(
    networks: dict[str, tvm.IRModule],
    target: CompileTarget,
    name: str = "default",
    fallback: OnFallback = "warn",
    max_batch: int = MAX_BATCH,
    inputs: Sequence[Described] = (),
    on_demand: OnDemand | None = None,
    history: History | None = None,
    small_file: bool = False,
    in_place: bool = False,
) -> BuiltModule:
    """A built module that knows its inputs, outputs and CPU; ``name`` is what ``lib[name]`` takes.

    ``networks`` are one network at different shapes, by the names of their functions; the batch of
    each may be open. They are taken out of the dictionary, so that weights that nobody else holds
    go as soon as they are folded; with ``in_place`` they are overwritten. ``inputs`` say what else
    may be set, where ``on_demand`` compiles it. Without a ``history`` the logs of this user and
    thread count. ``small_file`` leaves the transforms of Winograd's weights to whoever loads the
    exported file.

    Raises ShapeError for any other input that is not static, ConfigError for a user's cap that is
    no size of a tile, and what :func:`lower_networks` raises.
    """
    tile_limit()  # TVM's passes would make a RuntimeError of it
    entries = tuple(
        Entry(
            function,
            tuple(TensorInfo(*tensor) for tensor in describe_inputs(mod)),
            tuple(TensorInfo(*tensor) for tensor in describe_outputs(mod)),
        )
        for function, mod in networks.items()
    )
    functions = tuple(networks)
    known, outputs = interface_of(entries)
    recorded = recording_transforms() if small_file else nullcontext()
    with (
        packed_at_once() if small_file else nullcontext(),
        recorded as transforms,
        compiling_ahead(target.target) as ready,
    ):
        lowered = lower_networks(
            networks, target.cpu, history, fallback, max_batch, ready, in_place
        )
    lowered = run_passes(lowered, OutputsFromCaller(functions))
    info = ModuleInfo(
        name=name,
        inputs=tuple(TensorInfo(*tensor) for tensor in inputs) or known,
        outputs=outputs,
        cpu=target.cpu.name,
        triple=str(target.target.attrs.get("mtriple", "") or host.triple()),
        features=tuple(sorted(target.features)),
        threads=target.cpu.cores,
        entries=tuple(_with_outputs(entry, lowered) for entry in entries),
        tvm=tvm.__version__,
    )
    with naming_what_is_left():
        executable = compile_network(lowered, target.target)
    write = partial(export_module, late=late_weights(), transforms=transforms)
    return BuiltModule(executable.mod, info, on_demand, write)


def _with_outputs(entry: Entry, lowered: tvm.IRModule) -> Entry:
    """The entry with what its second function writes into tensors of the caller."""
    written = written_outputs(lowered, entry.function)
    return entry._replace(into=into_name(entry.function), written=written) if written else entry


def neocpu_pipeline(max_batch: int = MAX_BATCH) -> tvm.transform.Pass:
    """What ``tvm.compile(mod, target, relax_pipeline="neocpu")`` runs."""

    @tvm.transform.module_pass(opt_level=0, name="neocpu")
    def run(mod: tvm.IRModule, _: tvm.transform.PassContext) -> tvm.IRModule:
        target = tvm.target.Target.current(allow_none=True)
        described = describe_target(target or tvm.target.Target("llvm"))
        warn_of_generic_code(described)
        lowered = lower_networks({"main": mod}, described.cpu, max_batch=max_batch)
        return relax.get_pipeline("default_build")(lowered)

    return run
