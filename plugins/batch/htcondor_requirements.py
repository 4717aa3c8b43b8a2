"""Requirements of a job that are more than what condor_submit writes by itself. Pure."""

from __future__ import annotations

import functools
import re
from typing import AbstractSet, Any, Optional

# What condor_submit appends by itself, without blanks, scopes and outer parentheses, in lower case.
DEFAULT_CLAUSES = frozenset(
    """
    true arch=="x86_64" opsys=="linux" disk>=requestdisk memory>=requestmemory cpus>=requestcpus gpus>=requestgpus
    countmatches(requiregpus,availablegpus)>=requestgpus (filesystemdomain==filesystemdomain)||(hasfiletransfer)
    hasfiletransfer
    """.split()
)


def requirements(value: Any, known: AbstractSet[str] = DEFAULT_CLAUSES) -> str:
    """The job's Requirements without the clauses that are ``known``. Where the text is not plainly a chain of
    ``&&`` it stays whole."""
    if value is None or isinstance(value, bool):
        return "false" if value is False else ""
    text = str(value).strip()
    return _without(known, text[6:-2].strip() if text.startswith("/Expr(") and text.endswith(")/") else text)


@functools.lru_cache(maxsize=512)  # a queue has few texts, in every row of every read
def _without(known: AbstractSet[str], text: str) -> str:
    outer = _outermost(text)
    if outer is None or "||" in outer or "?" in outer:
        return text
    ends = [found.start() for found in re.finditer("&&", outer)]
    starts = [0, *(end + 2 for end in ends)]
    clauses = [text[start:end].strip() for start, end in zip(starts, [*ends, len(text)])]
    return " && ".join(one for one in clauses if _canonical(one) not in known) if all(clauses) else text


QUOTED = re.compile(r"""(["'])(?:(?!\1|\\).|\\.)*(\1?)""", re.DOTALL)
INNERMOST = re.compile(r"\([^][(){}]*\)|\[[^][(){}]*\]|\{[^][(){}]*\}")
DEEPEST = 32  # brackets within brackets: deeper is nobody's, and would take long


def _outermost(text: str) -> Optional[str]:
    """The text with all that is in quotes or brackets blanked, None if they do not pair."""
    text = QUOTED.sub(lambda found: " " * len(found.group()) if found.group(2) else found.group(1), text)
    for _ in range(DEEPEST):
        text, found = INNERMOST.subn(lambda found: " " * len(found.group()), text)
        if not found:
            break
    return None if re.search(r"""[][(){}"']""", text) else text


def _canonical(clause: str) -> str:
    bare = re.sub(r"\b(target|my)\.|\s+", "", clause.lower())
    while bare.startswith("(") and bare.endswith(")") and _outermost(bare[1:-1]) is not None:
        bare = bare[1:-1]
    return bare
