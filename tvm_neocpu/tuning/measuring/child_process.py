"""An object in a process of its own: its methods called over a pipe, its death survived."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pickle
import signal
import threading
import time
from collections.abc import Callable, Iterator
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from typing import Any

import cloudpickle

from tvm_neocpu.core.errors import NeoCpuError, first_line
from tvm_neocpu.core.messages.one_line import one_line_warnings

PATIENCE_SECONDS = 10.0
# An answer is waited for in steps of so many seconds.
STEP_SECONDS = 1.0


class ChildError(NeoCpuError):
    """The object raised; the text is its first line, ``kind`` the name of the exception's type."""

    def __init__(self, text: str, kind: str = "") -> None:
        super().__init__(text)
        self.kind = kind


class ChildDied(ChildError):
    """The process ended by itself, or was killed because it did not answer in time.

    ``hung`` says which.
    """

    def __init__(self, text: str, hung: bool = False) -> None:
        super().__init__(text, "ChildDied")
        self.hung = hung


class ChildProcess:
    """The object that ``load`` makes, in a fresh process; ``ask`` calls its methods.

    ``load`` is pickled, as everything that goes to and fro is, by cloudpickle: classes of scripts
    and of registered modules travel by value and come back as the same classes. Close it, or use it
    in a ``with``, to end the process. Ctrl-C does not reach the process; its owner does.
    ``begun`` is told of the process before it is waited for.
    """

    def __init__(
        self,
        load: Callable[[], Any],
        timeout: float | None = None,
        begun: Callable[[ChildProcess], None] | None = None,
    ) -> None:
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._process = context.Process(
            target=_serve, args=(cloudpickle.dumps(load), theirs), daemon=True
        )
        with _deaf_to_interrupts():
            self._process.start()
        theirs.close()
        if begun is not None:
            begun(self)
        try:
            self._answer(timeout)
        except BaseException:
            self.kill()
            self.close()
            raise

    def ask(self, name: str, *arguments: Any, timeout: float | None = None) -> Any:
        """The result of a method. ``timeout`` is in seconds.

        Raises ChildError for what the method raised, after which the process goes on, and
        ChildDied if there was no answer.
        """
        try:
            self._connection.send_bytes(cloudpickle.dumps((name, arguments)))
        except OSError:
            raise self._died() from None
        return self._answer(timeout)

    @property
    def alive(self) -> bool:
        """Whether it can still be asked."""
        return self._process.is_alive() and not self._connection.closed

    def kill(self) -> None:
        """End the process at once, from any thread: whoever waits for an answer gets ChildDied.

        The connection is left to that thread: two that close it at once would close it twice.
        """
        self._process.kill()
        self._process.join(PATIENCE_SECONDS)

    def end(self) -> None:
        """As :meth:`kill`, but a call to another machine (:mod:`.polite_end`) may come to its end
        first."""
        self._process.terminate()
        self._process.join(PATIENCE_SECONDS)
        self.kill()

    def close(self) -> None:
        """End the process; harmless when done twice."""
        self._connection.close()
        self._process.join(PATIENCE_SECONDS)
        if self._process.is_alive():
            self._process.kill()

    def __enter__(self) -> ChildProcess:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self._process.kill()  # nobody waits for its answer any more
        self.close()

    def _answer(self, timeout: float | None) -> Any:
        try:
            if not _heard(self._connection, timeout):
                self.kill()
                self.close()
                raise ChildDied(f"no answer within {timeout:.0f} s", hung=True)
            ok, value = pickle.loads(self._connection.recv_bytes())
        except (EOFError, OSError):  # the other end is closed, or ours by another thread
            raise self._died() from None
        if not ok:
            raise ChildError(*value)
        return value

    def _died(self) -> ChildDied:
        self.close()
        return ChildDied(f"its process ended with code {self._process.exitcode}")


def _heard(connection: Connection, timeout: float | None) -> bool:
    """Whether there is an answer within ``timeout`` seconds, or the other end is closed.

    The clock goes on while Ctrl-Z or a debugger has stopped both processes, and then the child
    would count as hung: a step counts as what was asked for, however long it took.
    """
    if timeout is None:
        return connection.poll(None)
    left = timeout
    while left > 0:
        step = min(STEP_SECONDS, left)
        if connection.poll(step):
            return True
        left -= step
    return connection.poll(0)


class Children:
    """Processes that several threads start and ask, and that one thread ends, all of them at once.

    Without it, whoever leaves while a thread waits for a process would wait with it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._processes: list[ChildProcess] = []
        self._ended = False

    def start(self, load: Callable[[], Any], timeout: float | None = None) -> ChildProcess:
        """A new process; raises ChildError as ChildProcess does, ChildDied after the end."""
        if self._ended:
            raise ChildDied("nobody asks any more")
        return ChildProcess(load, timeout, begun=self._add)

    def end(self) -> None:
        """End all processes, those that are starting too."""
        with self._lock:
            self._ended = True
            processes = list(self._processes)
        for process in processes:
            process._process.terminate()  # all of them, before one is waited for
        for process in processes:
            process.end()

    def _add(self, process: ChildProcess) -> None:
        with self._lock:
            self._processes = [known for known in self._processes if known.alive]
            self._processes.append(process)
            ended = self._ended
        if ended:
            process.kill()


@contextlib.contextmanager
def _deaf_to_interrupts() -> Iterator[None]:
    """Processes that start in here never see Ctrl-C: the terminal sends it to all of them, and the
    one that the user started ends the others. Here it waits until the end of the block.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    # Python starts it before the first process, and lets SIGINT through when it has.
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _serve(load: bytes, connection: Connection) -> None:
    """The process: load, say so, answer until nobody asks any more."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    with contextlib.suppress(EOFError, ConnectionError):
        try:
            with one_line_warnings():
                served = pickle.loads(load)()
        except Exception as error:  # whatever it raises is its answer
            _send(connection, (False, _as_arguments(error)))
            return
        _send(connection, (True, None))
        while True:
            name, arguments = pickle.loads(connection.recv_bytes())
            try:
                answer = (True, getattr(served, name)(*arguments))
            except Exception as error:
                answer = (False, _as_arguments(error))
            _send(connection, answer)


def _end_with_parent() -> None:
    """End this process when the one that started it is gone, killed even: a build takes a minute,
    and nobody would wait for its answer."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(PATIENCE_SECONDS)  # where it is ignored, or a call has not come to its end
        os._exit(1)


def _send(connection: Connection, answer: tuple[bool, Any]) -> None:
    connection.send_bytes(cloudpickle.dumps(answer))


def _as_arguments(error: Exception) -> tuple[str, str]:
    """What makes a ChildError of it on the other side."""
    return first_line(error), type(error).__name__
