"""The lock that makes importing safe in threads."""

from __future__ import annotations

import threading

# TVM's Python BlockBuilder keeps the functions under construction on one stack for all threads:
# two threads that build functions at once take each other's, and fail.
BUILDER_LOCK = threading.RLock()
