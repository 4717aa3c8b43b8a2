"""One command of elastiqctl, as it is declared in `elastiq.cli.of_service`, `of_looking` and `of_acting`."""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError
from dataclasses import dataclass
from typing import Callable, Mapping

from elastiq.protocol import LONGEST_REASON


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
        raise ArgumentTypeError(f"{text!r} is no whole number, 0 or more")
    return int(text)


def name(text: str) -> str:
    """A name of something."""
    if not text.strip():
        raise ArgumentTypeError("it is empty: most likely a variable that is not set")
    return text


def reason(text: str) -> str:
    """Why a person does something: one short line."""
    if len(" ".join(text.split())) > LONGEST_REASON:
        raise ArgumentTypeError(f"it is too long, write at most {LONGEST_REASON} characters")
    return text
