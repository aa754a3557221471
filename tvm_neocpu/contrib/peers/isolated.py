"""An engine in a process of its own, so that nothing of the others runs on its cores.

In one process they slow each other down: MobileNet-v2 took 4.6 ms where it takes 2.7 ms alone.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from numpy.typing import NDArray

from tvm_neocpu.contrib.peers.converter import ConversionError, silence_stdout
from tvm_neocpu.contrib.peers.runner import Runner
from tvm_neocpu.core import errors
from tvm_neocpu.core.errors import NeoCpuError
from tvm_neocpu.tuning.measuring.child_process import ChildDied, ChildError, ChildProcess

FAILED = "failed"
CANNOT_CONVERT = "cannot convert"
_OURS = frozenset(name for name in vars(errors) if name.endswith("Error"))


class EngineError(NeoCpuError):
    """The engine refused the network, or its process died; the text is its own.

    ``state`` says in two words which: ``CANNOT_CONVERT`` or ``FAILED``.
    """

    def __init__(self, text: str, state: str = FAILED) -> None:
        super().__init__(text)
        self.state = state


class IsolatedRunner:
    """A runner made by ``load`` in a fresh process; raises EngineError with what ``load`` raised.

    ``load`` is pickled: a module-level function, or a partial of one, over plain data. Close it, or
    use it in a ``with``, to end the process.
    """

    def __init__(self, load: Callable[[], Runner]) -> None:
        try:
            self._process = ChildProcess(partial(_load_in_silence, load))
        except ChildError as error:
            raise _engine_error(error) from None

    def burst(self, count: int) -> list[float]:
        """Seconds of ``count`` runs in a row, behind some that are not counted."""
        seconds: list[float] = self._ask("burst", count)
        return seconds

    def outputs(self) -> list[NDArray[Any]]:
        """The outputs of the last run."""
        arrays: list[NDArray[Any]] = self._ask("outputs")
        return arrays

    def close(self) -> None:
        """End the process; harmless when done twice."""
        self._process.close()

    def __enter__(self) -> IsolatedRunner:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self._process.kill()
        self.close()

    def _ask(self, name: str, *arguments: Any) -> Any:
        try:
            return self._process.ask(name, *arguments)
        except ChildError as error:
            self.close()
            raise _engine_error(error) from None


def _load_in_silence(load: Callable[[], Runner]) -> Runner:
    silence_stdout()
    return load()


def _engine_error(error: ChildError) -> EngineError:
    if isinstance(error, ChildDied):
        return EngineError(str(error))
    if error.kind == ConversionError.__name__:
        return EngineError(str(error), CANNOT_CONVERT)
    if error.kind in _OURS:  # a sentence for people
        return EngineError(str(error))
    return EngineError(f"{error.kind}: {str(error) or 'no text'}")
