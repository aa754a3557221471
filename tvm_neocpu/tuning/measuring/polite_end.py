"""How a process ends that may be in the midst of a call to another machine."""

from __future__ import annotations

import os
import signal
import socket
import threading

# A call takes less, but for uploads of large networks over slow lines.
CALL_SECONDS = 8.0

# A socket that nobody holds is closed.
_kept: list[socket.socket] = []


def end_between(calling: threading.RLock) -> None:
    """Let SIGTERM end this process once nobody holds ``calling``, or after ``CALL_SECONDS``.

    Call it in the main thread. Another thread listens: Python runs no handler while the main
    thread waits for TVM.
    """
    told, tells = socket.socketpair()
    tells.setblocking(False)
    _kept.append(tells)
    signal.signal(signal.SIGTERM, lambda *_: None)
    signal.set_wakeup_fd(tells.fileno(), warn_on_full_buffer=False)

    def listen() -> None:
        while signal.SIGTERM not in told.recv(64):
            pass
        calling.acquire(timeout=CALL_SECONDS)
        os._exit(0)

    threading.Thread(target=listen, daemon=True).start()
