"""Kernels through TVM's lowering and LLVM, several modules of them at a time.

Lowering and LLVM run without Python's lock, so that threads are enough. ResNet-50's 38 kernels took
3.2 s in one module, 2.1 s in two at once (Zen 3, two cores).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import tvm
from tvm import tirx
from tvm.error import InternalError
from tvm.ir.transform import PassContext
from tvm.target import Target

from tvm_neocpu.codegen.kernel_threads import kernel_threads
from tvm_neocpu.core.machine.cores import physical_cores
from tvm_neocpu.topi.tir.tiles.forget_locals import is_compacted

# A module costs some 10 ms by itself; many modules share the cores evenly.
KERNELS_PER_MODULE = 8
# A kernel's checks of its arguments: types, shapes and strides of each. A network's kernels are
# called by its own program, with tensors that it placed. They were 60 % of DenseNet-121's code, and
# half of LLVM's time for it.
_NO_CHECKS = {"tirx.disable_assert": True}
# Passes of TVM's that walk through all the unrolled code of a kernel, a tenth of its compilation.
# The first one found nothing to remove in 176 kernels (five networks, three instruction sets). The
# second one spelled the indices of four of them anew, and LLVM does not care: ResNet-18, SqueezeNet
# 1.1 and an int8 MobileNet-v2 are 1.01, 1.00 and 1.00 times as fast without it (Zen 3, one thread).
# The third one makes an entry of a lone kernel, a second copy of the code that takes its arguments
# apart. Nobody asks for it; LLVM has 2 to 5 % less work for equal kernels (Zen 4, MobileNet-v2 and
# SqueezeNet 1.1).
_FINDS_NOTHING = ("tirx.RemoveNoOp", "s_tir.RenormalizeSplitPattern", "tirx.AnnotateEntryFunc")
# Passes for a GPU's threads and memories, a fiftieth of a kernel's compilation. Without them the
# machine code of 68 kernels is equal (every third of NASNet-A mobile's, every sixth of
# DenseNet-201's; AVX-512).
_FOR_GPUS = tuple(
    f"s_tir.{name}"
    for name in (
        "InferFragment",
        "InjectPermutedLayout",
        "InjectVirtualThread",
        "LowerAutoCopy",
        "LowerThreadAllreduce",
        "LowerVtcmAlloc",
        "ManifestSharedMemoryLocalStage",
        "MergeSharedMemoryAllocations",
        "ThreadSync",
        "TransformMmaBufferLayout",
        "UnifyThreadBinding",
    )
)
# LLVM finds common subexpressions itself. Without TVM's pass kernels take 0.90 to 1.01 of the time
# to compile, objects are 8 to 24 % smaller, six networks run 0.99 to 1.01 times as fast (Zen 3).
_LLVM_DOES_IT = ("tirx.CommonSubexprElim",)
NEEDLESS = (*_FINDS_NOTHING, *_FOR_GPUS, *_LLVM_DOES_IT)
# What is needless where :func:`.forget_locals` has run these two: the kernels of ResNet-50,
# MobileNet-v2 and GoogLeNet that it concerns have equal machine code without, for 6 to 12 % less
# time (Zen 3).
NEEDLESS_AGAIN = ("s_tir.CompactBufferAllocation", "s_tir.StmtSimplify")
# What TVM says where LLVM's own check of what it made fails. Level 3 joins scalars to vectors of
# which it reads one before it is made (LLVM's "does not dominate all uses"; a convolution to one
# channel, two pixels at once, AVX2: 1 in 200 random plans of one fuzzed network).
_INVALID_CODE = "LLVM module verification failed"
_LOWER_LEVELS = (2, 1)


def compile_kernels(
    kernels: Mapping[str, tirx.PrimFunc], target: Target, at_once: bool = False
) -> dict[tuple[str, ...], tvm.runtime.Module]:
    """Modules by the names of their functions, none of which checks its arguments.

    LLVM writes a module's machine code when somebody asks for one of its functions; ``at_once``: in
    these threads. The target is this machine then.
    """
    context = PassContext.current()

    def build(names: tuple[str, ...]) -> tvm.runtime.Module:
        module = build_module({name: kernels[name] for name in names}, target, context)
        if at_once:
            module.get_function(names[0])
        return module

    compacted = tuple(name for name, func in kernels.items() if is_compacted(func))
    others = tuple(name for name in kernels if name not in set(compacted))
    parts = [part for names in (compacted, others) for part in _parts(names, KERNELS_PER_MODULE)]
    with kernel_threads(min(len(parts), physical_cores())) as threads:
        return dict(zip(parts, threads.map(build, parts), strict=True))


def build_module(
    kernels: Mapping[str, tirx.PrimFunc], target: Target, context: PassContext
) -> tvm.runtime.Module:
    """One module of kernels that check nothing, in any thread; ``context`` is the caller's.

    Where LLVM makes invalid code of it, LLVM optimises the module less.
    """
    needless = NEEDLESS_AGAIN if all(map(is_compacted, kernels.values())) else ()
    mod = tvm.IRModule(dict(kernels))
    with unchecked(context, needless):
        for level in _LOWER_LEVELS:
            try:
                return tirx.build(mod, target)
            except InternalError as error:
                if _INVALID_CODE not in str(error):
                    raise
                target = Target({**dict(target.export()), "opt-level": level})
        return tirx.build(mod, target)


def _parts(names: tuple[str, ...], size: int) -> list[tuple[str, ...]]:
    """Lists of about equal work: neighbours are alike, so that each goes to another list."""
    count = -(-len(names) // size)
    return [names[first::count] for first in range(count)]


def unchecked(context: PassContext, needless: Sequence[str] = ()) -> PassContext:
    """The caller's options, in a thread of its own, and no checks of arguments.

    Passes that are ``needless`` beside :data:`NEEDLESS` do not run. Instruments are left out: they
    are the caller's thread's.
    """
    return PassContext(
        opt_level=context.opt_level,
        required_pass=list(context.required_pass),
        disabled_pass=[*context.disabled_pass, *NEEDLESS, *needless],
        config={**dict(context.config), **_NO_CHECKS},
    )
