"""A built network and how to run it: the classic graph executor's interface over Relax's VM.

lib = relay.build(mod, target="llvm", params=params)
module = lib["default"](tvm.cpu())
module.set_input("data", image); module.run(); scores = module.get_output("scores").numpy()
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tvm_neocpu.core.errors import ModuleFileError, TargetError
from tvm_neocpu.runtime.calls.functions import Functions, Library, OnDemand
from tvm_neocpu.runtime.ffi.tensors import cpu
from tvm_neocpu.runtime.files.module_file import read_module
from tvm_neocpu.runtime.files.module_info import ModuleInfo
from tvm_neocpu.runtime.process.fork_gate import building

if TYPE_CHECKING:
    from pathlib import Path

    import tvm_ffi
    from _typeshed import StrPath

    from tvm_neocpu.runtime.calls.graph_module import GraphModule  # sessions run without it

# Writes a module: itself, its description, the file, and the options of TVM's `export_library`.
Write = Callable[
    ["tvm_ffi.Module", ModuleInfo, "Path", Callable[..., Any] | None, Mapping[str, Any], str], None
]
_FORMATS = {"asm": "s", "s": "s", "llvm": "ll", "ll": "ll"}


def load(path: StrPath, check_weights: bool = False) -> BuiltModule:
    """Read what `BuiltModule.export_library` wrote.

    Weights are mapped: what a run does not touch is never read. ``check_weights`` reads them all
    and compares their checksum; code and description are checked always. Raises ModuleFileError for
    a file that is missing, broken or not this package's.
    """
    found = read_module(path, check_weights)
    return BuiltModule(found.module, found.info, weights=found.weights_by_function)


class BuiltModule:
    """What `relay.build` returns and `tvm_neocpu.load` reads: code, weights and their description.

    ``lib[name](device)`` makes a module to run; each has its own inputs, all share the weights. Any
    number of threads may make modules of one library, run them at the same time, and export it.
    """

    def __init__(
        self,
        module: tvm_ffi.Module,
        info: ModuleInfo,
        on_demand: OnDemand | None = None,
        write: Write | None = None,
        weights: Mapping[str, Sequence[tvm_ffi.Tensor]] | None = None,
        original: Callable[[], BuiltModule] | None = None,
    ) -> None:
        """``on_demand`` compiles the network for shapes that it has no code for.

        ``write`` exports it; a loaded library has neither. ``weights`` are what its functions take
        after their inputs. ``original`` compiles what came from a cache: a file has machine code
        only.
        """
        self.module = module
        self.info = info
        self._write = write
        self._compiled_again = original
        self.library = Library(module, info.entries, on_demand, weights)

    def __getitem__(self, name: str) -> Callable[[Any], GraphModule]:
        if name != self.info.name:
            raise ModuleFileError(f"no module {name!r} in this library; it has {self.info.name!r}")
        return self.create

    def create(self, device: Any | None = None) -> GraphModule:
        """A module to run; raises TargetError where this machine cannot execute the code."""
        if device is not None and device.dlpack_device_type() != cpu().dlpack_device_type():
            raise TargetError(f"the library is for CPUs, not for {device}; pass tvm.cpu()")
        if self.info.missing:
            lacks = ", ".join(self.info.missing)
            raise TargetError(f"built for {self.info.cpu}, but this machine lacks {lacks}")
        from tvm_neocpu.runtime.calls.graph_module import GraphModule

        return GraphModule(Functions(self.library), self.info)

    def export_library(
        self,
        file_name: StrPath,
        fcompile: Callable[..., Any] | None = None,
        weights: str = "inside",
        **options: Any,
    ) -> None:
        """Write one file, ``.so`` or ``.tar``, with code, weights and description.

        ``weights="separate"`` puts the weights of a ``.so`` into a file ``NAME.weights`` beside it,
        which must stay there.

        ``fcompile`` links it, as in TVM. Without one it is this machine's C compiler; for another
        architecture ``CXX`` or ``<arch>-linux-gnu-g++``. A ``.tar`` is linked where it is loaded.
        Functions that were compiled on demand are left out.
        Raises ModuleFileError.
        """
        if self._write is None:
            raise ModuleFileError(
                f"cannot write {file_name}: a loaded module has no objects; copy its file"
            )
        from pathlib import Path  # 7 ms, which loading a file has not

        # A fork waits for the library's lock, so that no pause is allowed.
        with building(pauses=False), self.library.lock:
            self._write(self.module, self.info, Path(file_name), fcompile, options, weights)

    def get_lib(self) -> tvm_ffi.Module:
        """TVM's runtime module, for `relax.VirtualMachine`.

        The functions of a loaded ``.so`` take their weights after the inputs. A library from the
        cache is compiled for this.
        """
        return self._original.module

    def inspect_source(self, fmt: str = "asm") -> str:
        """The generated code, as assembly (``"asm"``) or LLVM IR (``"ll"``).

        Raises ModuleFileError for a library that was loaded: it has machine code only. What came
        out of the cache is compiled for this.
        """
        if fmt not in _FORMATS:
            raise ModuleFileError(f"no source format {fmt!r}; there are {', '.join(_FORMATS)}")
        sources = [part for part in self._original.module.imports if part.kind == "llvm"]
        if not sources and self._write is not None:
            raise ModuleFileError("the network moves no data, so that it has no machine code")
        if not sources:
            raise ModuleFileError("a loaded library has no source; try objdump -d on the file")
        return "\n".join(str(part.inspect_source(_FORMATS[fmt])) for part in sources)

    @property
    def _original(self) -> BuiltModule:
        return self._compiled_again() if self._compiled_again is not None else self

    @property
    def input_names(self) -> tuple[str, ...]:
        return tuple(tensor.name for tensor in self.info.inputs)

    @property
    def output_names(self) -> tuple[str, ...]:
        """The importer's names; numbers (``"0"``, ``"1"``) where there were none."""
        return tuple(tensor.name for tensor in self.info.outputs)

    def __repr__(self) -> str:
        inputs = ", ".join(map(str, self.info.inputs))
        outputs = ", ".join(map(str, self.info.outputs))
        name, cpu = self.info.name, self.info.cpu
        return f"BuiltModule({name!r}, inputs=[{inputs}], outputs=[{outputs}], cpu={cpu!r})"
