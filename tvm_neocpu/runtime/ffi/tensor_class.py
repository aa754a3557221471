"""What tensors can do in a process without TVM's Python package: become arrays, and be copied.

Importing this module registers the class for all tensors of `tvm_ffi`. TVM's package, imported
later, registers its own, which can do the same and more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import tvm_ffi

from tvm_neocpu.runtime.ffi.tensors import as_array

if TYPE_CHECKING:
    from numpy.typing import NDArray


@tvm_ffi.register_object("ffi.Tensor")
class Tensor(tvm_ffi.core.Tensor):
    """A tensor with the methods of ``tvm.runtime.Tensor`` that networks' users need."""

    __slots__ = ()  # tvm_ffi refuses a class with more fields than its own

    def numpy(self) -> NDArray[Any]:
        """A copy."""
        return as_array(self).copy()

    def copyto(self, target: Any) -> Any:
        """Copy into a tensor of the same shape and type; returns it."""
        np.copyto(as_array(target), as_array(self))
        return target


tvm_ffi.core._set_class_tensor(Tensor)  # for what from_dlpack and functions return; TVM does so too
