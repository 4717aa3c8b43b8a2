"""The manual pages, made from what the code declares: the parsers, the commands of elastiqctl, the keys of the file.

roff is escaped in one place (`text`), so that a word of the code can never be taken for a request.
"""

from __future__ import annotations

import argparse
import re
from typing import Iterator, Sequence

import reference

from elastiq import __version__, service
from elastiq.cli.parser import EPILOG, GROUPS, parser_of_all
from elastiq.cli.verb import Verb

SEE_ALSO = {"elastiq": 8, "elastiqctl": 8, "elastiq.conf": 5}


def pages(date: str) -> dict[str, str]:
    """Each page by its file name, as `elastiq.8`; ``date`` is that of the change that it describes."""
    made = {"elastiq": _daemon, "elastiqctl": _control, "elastiq.conf": _configuration}
    return {
        f"{name}.{SEE_ALSO[name]}": "\n".join([*_head(name, date), *body(), *_see_also(name)]) + "\n"
        for name, body in made.items()
    }


# --------------------------------------------------------------------------- roff


def text(words: str) -> str:
    """Words that mean themselves; what stands between backquotes becomes bold."""
    words = words.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq").replace("^", "\\(ha")
    words = words.replace("~", "\\(ti").replace('"', "\\(dq")
    words = re.sub(r"`([^`]*)`", r"\\fB\1\\fP", words)
    return re.sub(r"^(?=\.)", r"\\&", words, flags=re.MULTILINE).replace("`", "\\(ga")


def _bold(words: str) -> str:
    return f"\\fB{text(words)}\\fP"


def _head(name: str, date: str) -> Iterator[str]:
    yield ".\\\" Made from elastiq's code by packaging/make/manual.py."
    yield f'.TH {name.upper()} {SEE_ALSO[name]} "{date}" "elastiq {__version__}" "elastiq"'
    yield ".nh"


def _see_also(name: str) -> Iterator[str]:
    yield ".SH SEE ALSO"
    first, last = (f".BR {other} ({section})" for other, section in SEE_ALSO.items() if other != name)
    yield from (f"{first},", last, ".P")
    yield text("The whole documentation: /usr/share/doc/elastiq")


def _paragraphs(words: str) -> Iterator[str]:
    """Prose; a block whose lines are indented or in columns stays as it is."""
    for block in words.strip("\n").split("\n\n"):
        lines = block.splitlines()
        if any(re.search(r"\S {2,}\S", line) or line.startswith("  ") for line in lines):
            if not lines[0].startswith(" ") and lines[0].endswith(":"):
                yield from (".P", text(lines.pop(0)))
            yield from (".P", ".nf", ".RS 2", *(text(line) for line in lines), ".RE", ".fi")
        else:
            yield from (".P", *(text(line) for line in lines))


def _options(parser: argparse.ArgumentParser) -> Iterator[str]:
    for action in parser._actions:
        if action.help is argparse.SUPPRESS or isinstance(action, argparse._SubParsersAction):
            continue
        value = action.metavar or (action.dest.upper() if action.nargs != 0 else "")
        if isinstance(value, tuple):
            value = " ".join(value)
        names = ", ".join(_bold(name) for name in action.option_strings)
        shown = f"\\fI{text(value)}\\fP" if value and action.nargs != 0 else ""
        yield from (".TP", f"{names} {shown}".strip(), text(_helped(action, parser)))


def _helped(action: argparse.Action, parser: argparse.ArgumentParser) -> str:
    """An action's help with its `%(default)s` filled in, as argparse itself does it."""
    return (action.help or "") % {**vars(action), "prog": parser.prog}


# --------------------------------------------------------------------------- the three pages


def _daemon() -> Iterator[str]:
    parser = service._parser()
    yield from (".SH NAME", text("elastiq - launch and end cloud machines as a batch queue needs them"))
    yield from (".SH SYNOPSIS", ".B elastiq", text("[options]"), ".SH DESCRIPTION")
    yield from _paragraphs(
        "When jobs wait in the batch queue, elastiq launches machines through the cloud's EC2 API; when machines stay"
        " idle, it drains and ends them. It stays inside the limits that are set, and ends no machine that runs a job."
        "\n\nIt runs as the service `elastiq`, as the user of that name, and is controlled by `elastiqctl`; its log is"
        " in the journal. The service is not started until /etc/elastiq.conf was changed."
    )
    yield ".SH OPTIONS"
    yield from _options(parser)
    for block in service.EPILOG.strip().split("\nexit codes: "):
        title, words = ("SIGNALS", block.partition(": ")[2]) if block.startswith("signals") else ("EXIT STATUS", block)
        yield f".SH {title}"
        yield from _columns(words)
    yield ".SH FILES"
    for path, what in _FILES.items():
        yield from (".TP", _bold(path), text(what))


_FILES = {
    "/etc/elastiq.conf": "the configuration",
    "/var/lib/elastiq": "the durable state; tokens.d in it has the token that lets elastiq drain HTCondor's workers",
    "/run/elastiq/elastiq.sock": "the control socket",
    "/usr/share/elastiq/elastiq.conf.example": "every key with its default, as elastiq.conf is installed",
}


def _columns(words: str) -> Iterator[str]:
    """`0 done   1 failed`, over several lines: one row each."""
    for entry in re.split(r" {3,}|\n\s*(?=\d+ )", words.strip()):
        name, _, what = re.sub(r"\s*\n\s*", " ", entry).partition(" ")
        if re.fullmatch(r"[A-Z]+,", name):
            second, _, what = what.partition(" ")
            name = f"{name} {second}"
        yield from (".TP", _bold(name), text(what.strip()))


def _control() -> Iterator[str]:
    parser = parser_of_all()
    yield from (".SH NAME", text("elastiqctl - control elastiq, look at it, try it out"))
    yield from (".SH SYNOPSIS", ".B elastiqctl", text("[options]"), ".I command", text("..."))
    yield ".SH DESCRIPTION"
    yield text("It talks to the running elastiq over its control socket, and starts and ends it.")
    for title, verbs in GROUPS.items():
        yield from (f".SS {text(title[0].upper() + title[1:])}",)
        for name, verb in verbs.items():
            yield from _command(name, verb)
    yield ".SH OPTIONS"
    yield from _options(parser)
    for part in re.split(r"\n\n(?=\S)", EPILOG.strip()):
        title, _, words = part.partition(":")
        if title == "exit codes":
            yield ".SH EXIT STATUS"
            yield from _columns(words)
        elif title == "examples":
            yield ".SH EXAMPLES"
            yield from _paragraphs(words)
        else:
            yield ".SH FILES"
            yield from _paragraphs(part)


def _command(name: str, verb: Verb) -> Iterator[str]:
    parser = argparse.ArgumentParser(add_help=False)
    verb.arguments(parser)
    usage = [name]
    for action in parser._actions:
        word = action.option_strings[-1] if action.option_strings else str(action.metavar or action.dest)
        if action.option_strings and action.nargs != 0:
            word += f" {action.metavar or action.dest.upper()}"
        usage.append(f"[{word}]" if action.option_strings or action.nargs == "?" else word)
    yield from (".TP", _bold(" ".join(usage)), text(verb.help[0].upper() + verb.help[1:] + "."))
    yield ".RS"
    if verb.more:
        yield from _paragraphs(verb.more)
    yield from _options(parser)
    if verb.examples:
        yield from _paragraphs(verb.examples)
    if verb.exits:
        yield from _paragraphs("Exit codes: " + re.sub(r"\s{2,}", "; ", verb.exits.strip()))
    yield ".RE"


def _configuration() -> Iterator[str]:
    yield from (".SH NAME", text("elastiq.conf - the configuration of elastiq"))
    yield from (".SH SYNOPSIS", text("/etc/elastiq.conf"), ".SH DESCRIPTION")
    yield from _paragraphs(
        "Sections in brackets, then `key = value`. Times are in seconds, sizes in MB. A % is a %. Comments begin with #"
        " or ;, on a line of their own or after a blank. An indented line continues the value above it. A mistake is"
        " named with its line, section and key, and nothing is started; a reload then keeps the old settings."
        "\n\nThe file may hold secrets: it belongs to root, and the group elastiq may read it."
    )
    for section in reference.sections():
        yield f".SH [{text(section.name)}]"
        for paragraph in section.about:
            yield from _paragraphs(paragraph)
        for key in section.keys:
            yield from _key(key)


def _key(key: reference.Key) -> Iterator[str]:
    default = f"default {key.default}" if key.default else ""
    about = "; ".join(filter(None, (key.values, default)))
    yield from (".TP", f"{_bold(key.name)} ({text(about)})")
    yield text(" ".join(filter(None, (key.meaning, *key.notes))) or key.values)


def described(page: str) -> Sequence[str]:
    """The options, commands and keys that a page has an entry for: for tests."""
    entries = re.findall(r"^\.TP\n(.+)$", page, flags=re.MULTILINE)
    return [re.sub(r"\\f[BIP]|\\&", "", entry).replace("\\-", "-") for entry in entries]
