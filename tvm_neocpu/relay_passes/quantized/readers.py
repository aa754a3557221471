"""Who reads a tensor of a region, and in which encoding all of its readers want it."""

from __future__ import annotations

from tvm import relax

from tvm_neocpu.relay_passes.ir.exprs import dtype_of, op_name
from tvm_neocpu.relay_passes.ir.regions import Region
from tvm_neocpu.relay_passes.operators.new.quantize import DEQUANTIZE, QUANTIZE, read_scaling
from tvm_neocpu.relay_passes.quantized.encoding import Encoding

# What moves a tensor's elements, or picks some: codes take the same way as what they stand for.
# A max pool picks by order, which a positive scale keeps.
MOVES = frozenset(
    f"relax.{name}"
    for name in (
        "broadcast_to",
        "expand_dims",
        "flatten",
        "layout_transform",
        "nn.max_pool2d",
        "permute_dims",
        "repeat",
        "reshape",
        "squeeze",
        "strided_slice",
        "take",
        "tile",
    )
)


class Readers:
    """The readers of a region's variables, by the region's own bindings."""

    def __init__(self, region: Region) -> None:
        self._outputs = frozenset(region.outputs)
        self._readers = region.readers
        self._wanted: dict[relax.Var, Encoding | None] = {}
        for binding in reversed(region.bindings):
            self._wanted[binding.var] = self._agreed(binding.var)

    def of(self, var: relax.Expr) -> tuple[relax.VarBinding, ...]:
        """The bindings that read a variable."""
        return self._readers.get(var, ())

    def wanted(self, var: relax.Expr) -> Encoding | None:
        """The encoding in which all readers quantise it, perhaps behind moves; ``None``: none."""
        return self._wanted.get(var)

    def is_private(self, var: relax.Expr) -> bool:
        """Whether one binding of the region reads it and nothing else does."""
        return var not in self._outputs and len(self.of(var)) == 1

    def _agreed(self, var: relax.Var) -> Encoding | None:
        if var in self._outputs:
            return None
        found = {self._through(binding) for binding in self.of(var)}
        return found.pop() if len(found) == 1 else None

    def _through(self, binding: relax.VarBinding) -> Encoding | None:
        value, name = binding.value, op_name(binding.value)
        if name == QUANTIZE:
            return Encoding.of(read_scaling(value), dtype_of(value))
        if name in MOVES or name == "relax.concat" or isinstance(value, relax.Tuple):
            return self._wanted.get(binding.var)
        return None


def is_dequantized(binding: relax.VarBinding) -> bool:
    """Whether a binding dequantises."""
    return op_name(binding.value) == DEQUANTIZE
