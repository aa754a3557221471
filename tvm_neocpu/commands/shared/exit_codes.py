"""The exit codes of all commands besides 0, and 1 where a comparison found a difference.

This module imports nothing: the list of commands prints without what the commands import.
"""

USER_ERROR = 2
INTERRUPTED = 130
# As of a process that the signal of a closed pipe ends.
CLOSED_PIPE = 141
