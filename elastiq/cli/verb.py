"""One command of elastiqctl, as it is declared in `elastiq.cli.of_service`, `of_looking` and `of_acting`."""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError
from dataclasses import dataclass
from typing import Callable, Mapping


def _nothing(parser: ArgumentParser) -> None:
    """It takes no arguments of its own."""


@dataclass(frozen=True)
class Verb:
    """``run`` is "MODULE:FUNCTION" in `elastiq.cli`: it gets the paths and the arguments, and returns the exit code.

    ``more`` follows the first sentence in its --help, ``examples`` are lines of a command and what it is for,
    ``exits`` what an exit code means.
    """

    help: str
    run: str
    more: str = ""
    examples: str = ""
    exits: str = ""
    arguments: Callable[[ArgumentParser], None] = _nothing
    json: str = "for programs: the keys of docs/elastiqctl.md"

    @property
    def epilog(self) -> str:
        exits = f"exit codes: {self.exits}" if self.exits else ""
        return "\n\n".join(filter(None, (self.more, f"examples:\n{self.examples}", exits)))


Verbs = Mapping[str, Verb]


def count(text: str) -> int:
    """A number of lines, or of machines."""
    if not (text.isascii() and text.isdecimal()):
        raise ArgumentTypeError(f"{text!r} is not a number")
    return int(text)
