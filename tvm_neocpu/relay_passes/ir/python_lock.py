"""The lock that makes importing and building safe in threads."""

from __future__ import annotations

import threading

# TVM's Python keeps what is under construction in class attributes, one for all threads: the stack
# of BlockBuilder and the tag of te.tag_scope. Two threads that build at once take each other's.
PYTHON_LOCK = threading.RLock()
