"""Networks that threads shorten by less than it takes to wake them: these run on one core.

The worker threads of an application that calls now and then are asleep when a run begins. Its first
parallel loop wakes them, which takes as long as some small networks. (LeNet on AMD Zen 4, one
thread against two: 22.8 and 28.1 us in a loop, 34.8 and 34.8 with 2 ms between calls; on Zen 3
48-49 and 57-62 us with 2 ms between calls.)
"""

from __future__ import annotations

import math

import tvm
from tvm import relax, tirx

from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.relay_passes.ir.exprs import op_name, static_shape
from tvm_neocpu.relay_passes.ir.regions import bindings_of, relax_functions

# The PrimFunc attribute of what runs on one core.
ON_ONE_CORE = "neocpu_on_one_core"
# What a user is told of such a network, behind its name.
SAID = "runs on one core: all of them would save less than it takes to wake their threads"
# A network that takes longer than so many wake-ups on all cores gains more than one.
MANY_WAKE_UPS = 10
# What a lone operation must save: called in a loop it gains as much as it loses asleep then.
LONE_SHARE = 0.5
# Instructions of a vector in an operation that no plan prices, at most: an exponential function.
VECTOR_INSTRUCTIONS = 20
# A longer one. Zen 3, 200,704 elements, us, one core and two: 408, 208.
LONGER_INSTRUCTIONS = {"relax.mod": 100}
# Operations that are no vectors: rows too short for one, places looked up. Instructions of each
# element that they read or make (Zen 4: softmax over 21 classes 8, a linear resize 11).
_BY_ELEMENT = ("relax.nn.softmax", "relax.nn.log_softmax", "relax.image.")
ELEMENT_INSTRUCTIONS = 8
# Operations that read more than they make: windows, reductions.
_READ_MORE = (
    "relax.nn.max_pool",
    "relax.nn.avg_pool",
    *(
        f"relax.{name}"
        for name in ("argmax", "argmin", "max", "mean", "min", "prod", "std", "sum", "variance")
    ),
)
# Instructions that a core completes in a cycle.
A_CYCLE = 2


def may_be_small(seconds: float, cpu: Cpu) -> bool:
    """Whether a network of so many predicted seconds on all cores might not be worth a wake-up."""
    return cpu.cores > 1 and seconds < MANY_WAKE_UPS * cpu.wake_up


def gains_less_than_waking(mod: tvm.IRModule, together: float, alone: float, cpu: Cpu) -> bool:
    """Whether all cores save less than one wake-up of the folded network.

    Half a wake-up is enough for a lone operation. ``together`` and ``alone``: the seconds of its
    plans for all cores and for one.
    """
    saved = alone - together + elementwise_seconds(mod, cpu) * (1 - 1 / cpu.cores)
    return saved < cpu.wake_up * (LONE_SHARE if is_lone(mod) else 1.0)


def is_lone(mod: tvm.IRModule) -> bool:
    """Whether the network is one operation: it forks once, and no core waits for the last kernel's.

    Zen 4, us, 26x1x512->97, one core and two: 28.8, 17.3 in a loop; 56, 48 with 2 ms between calls.
    """
    functions = relax_functions(mod)
    return len(functions) == 1 and len(list(bindings_of(functions[0][1]))) == 1


def elementwise_seconds(mod: tvm.IRModule, cpu: Cpu) -> float:
    """About what one core takes for operations that no plan prices, at most; infinite where loops
    repeat them or a run alone knows how many elements there are.
    """
    functions = relax_functions(mod)
    if len(functions) != 1 or any(isinstance(f, tirx.PrimFunc) for f in mod.functions.values()):
        return math.inf
    instructions = 0.0
    for binding in bindings_of(functions[0][1]):
        shape, value = static_shape(binding.var), getattr(binding, "value", None)
        if shape is None or isinstance(value, relax.If):
            return math.inf
        elements = math.prod(shape)
        if op_name(value).startswith((*_BY_ELEMENT, *_READ_MORE)):
            elements = max(elements, math.prod(static_shape(value.args[0]) or ()))
        if op_name(value).startswith(_BY_ELEMENT):
            instructions += elements * ELEMENT_INSTRUCTIONS
        else:
            each = LONGER_INSTRUCTIONS.get(op_name(value), VECTOR_INSTRUCTIONS)
            instructions += elements / cpu.lanes("float32") * each
    return instructions / A_CYCLE / (cpu.ghz * 1e9)


def on_one_core(mod: tvm.IRModule) -> tvm.IRModule:
    """The module with every PrimFunc marked to run on one core."""
    marked = mod.clone()
    for name, func in mod.functions_items():
        if isinstance(func, tirx.PrimFunc):
            marked.update_func(name, func.with_attr(ON_ONE_CORE, True))
    return marked
