"""Two ways to TVM's runtime: through `tvm_ffi`'s Python package, or through its C interface alone.

What was built in this process, or is handed to TVM's own classes, is the package's. A session
over a file needs none of it: the light way starts sooner.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from tvm_neocpu.runtime.ffi.light import c_abi

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Way(NamedTuple):
    """How a file becomes a module, and arrays and tensors each other.

    ``tensor_over`` gives ``None`` for an array that generated code cannot read where it is.
    ``followed_by`` makes of a function, and of tensors that are its last arguments, the function
    of its first. ``over`` makes of a function, and of all its arguments, one that drops its result.
    """

    load_module: Callable[[str], Any]
    tensor_over: Callable[[NDArray[Any]], Any | None]
    array_of: Callable[[Any], NDArray[Any]]
    followed_by: Callable[[Any, Sequence[Any]], Callable[..., Any]]
    over: Callable[[Any, Sequence[Any]], Callable[[], None]]


@cache
def whole() -> Way:
    """Through the package, whose objects users may see."""
    import tvm_ffi

    from tvm_neocpu.runtime.ffi import tensors

    if "tvm" not in sys.modules:
        from tvm_neocpu.runtime.ffi import tensor_class  # noqa: F401  # registers its class

    def followed_by(run: Callable[..., Any], last: Sequence[Any]) -> Callable[..., Any]:
        return lambda *first: run(*first, *last)

    def over(run: Callable[..., Any], arguments: Sequence[Any]) -> Callable[[], None]:
        def call() -> None:
            run(*arguments)

        return call

    return Way(
        lambda path: tvm_ffi.load_module(path, keep_module_alive=False),
        tensors.tensor_over,
        tensors.as_array,
        followed_by,
        over,
    )


@cache
def light() -> Way:
    """Through C, where `tvm_ffi`'s library is one that we know; else the whole way."""
    if not c_abi.is_available():
        return whole()
    from tvm_neocpu.runtime.ffi.light import objects

    return Way(
        objects.load_module,
        objects.tensor_over,
        objects.Tensor.array,
        objects.Function.followed_by,
        objects.Function.over,
    )
