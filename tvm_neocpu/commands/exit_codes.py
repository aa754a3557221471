"""The exit codes of all commands, besides 0 and 1 (a comparison found a difference)."""

from __future__ import annotations

USER_ERROR = 2
INTERRUPTED = 130
