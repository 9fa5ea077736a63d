"""Processes that may be killed at any moment, for code that came with a workflow: Python conditions and jq programs.

Nothing here decides or stores anything. A process gets JSON and gives JSON; it has no environment, cannot open files or
sockets, and is limited in time and memory. What goes wrong in one costs the call that was made, and nothing else.
"""

from perdure.sandbox.python import Sandbox, SandboxUnavailable

__all__ = ["Sandbox", "SandboxUnavailable"]
