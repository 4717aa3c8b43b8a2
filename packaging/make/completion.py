"""Completion for shells, made by shtab from elastiqctl's own parser."""

from __future__ import annotations

import argparse

import shtab

from elastiq.cli.parser import VERBS, parser_of_all

FILES = {  # by the package, the shell's own place
    "bash": "/usr/share/bash-completion/completions/elastiqctl",
    "fish": "/usr/share/fish/vendor_completions.d/elastiqctl.fish",
}
ZSH = {"deb": "/usr/share/zsh/vendor-completions/_elastiqctl", "rpm": "/usr/share/zsh/site-functions/_elastiqctl"}
_COMPLETED = {"FILE": shtab.FILE, "DIR": shtab.DIRECTORY}


def script(shell: str) -> str:
    """The completion of elastiqctl for this shell."""
    parser = parser_of_all()
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            # The parser tells of the commands in its description, and hides them here: shtab would skip them.
            action.help = "what to do"
            hidden = [action._ChoicesPseudoAction(name, (), verb.help) for name, verb in VERBS.items()]
            action._choices_actions = hidden
            for verb in action.choices.values():
                _complete_paths(verb)
    _complete_paths(parser)
    return str(shtab.complete(parser, shell, root_prefix="elastiqctl"))


def _complete_paths(parser: argparse.ArgumentParser) -> None:
    for action in parser._actions:
        if action.metavar in _COMPLETED:
            action.complete = _COMPLETED[action.metavar]  # type: ignore[attr-defined]
