"""A batch system's own commands, each in a child process with a deadline."""

from __future__ import annotations

import os
import shutil
from typing import Mapping, Optional, Sequence

from elastiq.command import CommandError, CommandNotFound, CommandResult, run
from elastiq.errors import SourceError

MAX_OUTPUT = 64_000_000  # bytes


class Tools:
    """Runs the commands of one batch system.

    ``timeout_s`` is for each command. ``folder`` is where they lie, if not on the PATH; ``environment`` is set beside
    ours, of which those that begin with one of ``but`` are left out; ``hint`` is told where a command is not there:
    what is to be installed.
    """

    def __init__(
        self,
        timeout_s: float,
        hint: str,
        folder: Optional[str] = None,
        environment: Mapping[str, str] = {},
        but: tuple[str, ...] = (),
    ) -> None:
        self._timeout_s, self._hint, self._folder = timeout_s, hint, folder
        ours = {name: value for name, value in os.environ.items() if not name.startswith(but)}
        self._environment = {**ours, "LC_ALL": "C", **environment}
        if folder:
            self._environment["PATH"] = f"{folder}:{os.environ.get('PATH', os.defpath)}"

    def where(self, tool: str) -> Optional[str]:
        """The path of a command, None if there is none that we may execute."""
        return shutil.which(tool, path=self._folder)

    def absent(self, *tools: str, key: str) -> str:
        """Which of these are not there and, if ``key`` names their folder, that it is to be found there; or nothing."""
        if not (missing := ", ".join(tool for tool in tools if self.where(tool) is None)):
            return ""
        if not self._folder:
            return f"{missing} not found"
        gone = "" if os.path.isdir(self._folder) else ", which is no directory"
        return f"{missing} not found in {key} {self._folder}{gone}"

    def run(self, tool: str, *args: str, stdin: bytes = b"", timeout_s: Optional[float] = None) -> CommandResult:
        """What it left behind, whatever its exit code. Raises `SourceError` if it did not end by itself."""
        # Popen looks a name up on our own PATH, not on the child's.
        argv = (os.path.join(self._folder, tool) if self._folder else tool, *args)
        limit_s = self._timeout_s if timeout_s is None else timeout_s
        try:
            return run(argv, timeout_s=limit_s, max_output=MAX_OUTPUT, stdin=stdin, env=self._environment)
        except CommandError as error:
            hint = f" ({self._hint})" if isinstance(error, CommandNotFound) else ""
            raise SourceError(f"{error}{hint}") from None

    def ask(self, tool: str, *args: str, stdin: bytes = b"") -> str:
        """What it printed. Raises `SourceError` also if it failed: what it printed is then no answer."""
        result = self.run(tool, *args, stdin=stdin)
        if result.returncode != 0:
            raise failed(result, [tool, *args])
        return result.text


def failed(result: CommandResult, argv: Sequence[str]) -> SourceError:
    """Says which command failed, and with what."""
    said = "" if result.complaint == result.ending else f": {result.complaint}"
    shown = " ".join(argv)
    return SourceError(f"{shown if len(shown) <= 60 else argv[0]} failed with {result.ending}{said}")
