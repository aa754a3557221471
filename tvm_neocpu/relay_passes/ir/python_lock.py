"""The lock that makes importing and building safe in threads."""

from __future__ import annotations

from tvm_neocpu.runtime.forking import fork_lock

# TVM's Python keeps what is under construction in class attributes, one for all threads: the stack
# of BlockBuilder and the tag of te.tag_scope. Two threads that build at once take each other's.
# A fork waits for the pass that another thread runs: its child could not build.
PYTHON_LOCK = fork_lock()
