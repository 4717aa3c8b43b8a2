"""What both ends of the control socket know (docs/control-protocol.md)."""

from __future__ import annotations

from typing import Any, Mapping

VERSION = 1
LONGEST_REASON = 200  # characters
COMMAND_S = 60.0  # for the loop to do what it was asked

Answer = Mapping[str, Any]


class Refused(Exception):
    """A request that is not done: ``code`` is one of docs/control-protocol.md, the text is for a person."""

    def __init__(self, code: str, message: str) -> None:
        self.code = code
        super().__init__(message)
