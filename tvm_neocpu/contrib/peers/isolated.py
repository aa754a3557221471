"""An engine in a process of its own, so that nothing of the others runs on its cores.

In one process they slow each other down: MobileNet-v2 took 4.6 ms where it takes 2.7 ms alone.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import signal
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from typing import Any

from numpy.typing import NDArray

from tvm_neocpu.contrib.peers.converter import ConversionError, silence_stdout
from tvm_neocpu.contrib.peers.runner import Runner
from tvm_neocpu.core.errors import NeoCpuError
from tvm_neocpu.core.one_line import one_line_warnings

PATIENCE_SECONDS = 10.0
FAILED = "failed"
CANNOT_CONVERT = "cannot convert"


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
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(load, theirs), daemon=True)
        with _deaf_to_interrupts():
            self._process.start()
        theirs.close()
        self._answer()

    def burst(self, count: int) -> list[float]:
        """Seconds of ``count`` runs in a row, after one that is not counted."""
        seconds: list[float] = self._ask(("burst", count))
        return seconds

    def outputs(self) -> list[NDArray[Any]]:
        """The outputs of the last run."""
        arrays: list[NDArray[Any]] = self._ask(("outputs",))
        return arrays

    def close(self) -> None:
        """End the process; harmless when done twice."""
        self._connection.close()
        self._process.join(PATIENCE_SECONDS)
        if self._process.is_alive():
            self._process.kill()

    def __enter__(self) -> IsolatedRunner:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self._process.kill()  # nobody waits for its answer any more
        self.close()

    def _ask(self, request: tuple[Any, ...]) -> Any:
        self._connection.send(request)
        return self._answer()

    def _answer(self) -> Any:
        try:
            ok, value = self._connection.recv()
        except EOFError:
            self.close()
            raise EngineError(f"its process ended with code {self._process.exitcode}") from None
        if not ok:
            self.close()
            raise EngineError(*value)
        return value


@contextlib.contextmanager
def _deaf_to_interrupts() -> Iterator[None]:
    """Processes that start in here never see Ctrl-C: the terminal sends it to all of them, and the
    one that the user started ends the others. Here it waits until the end of the block.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _serve(load: Callable[[], Runner], connection: Connection) -> None:
    """The process: load, say so, answer until nobody asks any more."""
    silence_stdout()
    try:
        with one_line_warnings():
            runner = load()
        connection.send((True, None))
        while True:
            name, *arguments = connection.recv()
            connection.send((True, getattr(runner, name)(*arguments)))
    except EOFError:
        return
    except ConversionError as error:
        connection.send((False, (str(error), CANNOT_CONVERT)))
    except Exception as error:  # whatever an engine raises is its answer
        text = (str(error).strip() or "no text").splitlines()[0]
        connection.send((False, (f"{type(error).__name__}: {text}", FAILED)))
