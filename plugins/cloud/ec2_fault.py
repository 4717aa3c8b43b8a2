"""One failed call. What it means is for `ec2_errors` to say, which is imported once there is one."""

from __future__ import annotations

from typing import Any

from elastiq.errors import LaunchError

LONGEST = 4000  # what is looked at of a cloud's words


class Fault(Exception):
    """One failed call. ``status`` is 0 without an answer; ``sent`` is False if surely nothing was asked."""

    def __init__(self, operation: str, code: str, message: str, status: int = 0, sent: bool = True) -> None:
        super().__init__(f"{operation}: {code}")  # the message may hold secrets: `told` takes them out
        self.operation = "".join(part[:1].upper() + part[1:] for part in operation.split("_"))
        self.message, self.status, self.sent = message[:LONGEST], status, sent
        self.code = code if len(code) <= 100 else "Unknown"

    def _judged(self, question: str) -> Any:
        from elastiq.plugins.cloud import ec2_errors

        return getattr(ec2_errors, question)(self)

    @property
    def kind(self) -> type[LaunchError]:
        """The kind of `elastiq.interfaces` that this is, were it a launch."""
        return self._judged("kind_of")  # type: ignore[no-any-return]

    @property
    def refused(self) -> bool:
        """Whether EC2 turned down this very request, not its rate or whoever asks."""
        return bool(self._judged("is_refused"))

    @property
    def denied(self) -> bool:
        """Whether it is of no use to ask that again: it was refused, or is not allowed."""
        return bool(self._judged("is_denied"))
