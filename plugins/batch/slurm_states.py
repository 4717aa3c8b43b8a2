"""The words by which Slurm says how a node is, of all versions and in all forms -> a base state and flags. Pure.

Sources: slurm.h (NODE_STATE_*), node_state_string() and node_state_string_compact() of slurm_protocol_defs.c, the
section NODE STATE CODES of sinfo(1), and scontrol(1). What is said in one word (``drained``, ``drng``) stands for a
base and flags; before 21.08 a symbol at the word's end does (``idle*``), and sinfo still prints it.
"""

from __future__ import annotations

from typing import Iterable

SUFFIXES = {
    "*": "NOT_RESPONDING",
    "~": "POWERED_DOWN",
    "#": "POWERING_UP",
    "!": "POWER_DOWN",
    "%": "POWERING_DOWN",
    "$": "MAINT",
    "@": "REBOOT_REQUESTED",
    "^": "REBOOT_ISSUED",
    "-": "PLANNED",
}
BASES = frozenset({"UNKNOWN", "DOWN", "IDLE", "ALLOCATED", "ERROR", "MIXED", "FUTURE"})
# One word for several things, an abbreviation, or an older name of a flag; "" is no base of its own.
WORDS: dict[str, tuple[str, tuple[str, ...]]] = {
    "ALLOC": ("ALLOCATED", ()),
    "ALLOCATED+": ("ALLOCATED", ("COMPLETING",)),
    "COMP": ("", ("COMPLETING",)),
    "MIX": ("MIXED", ()),
    "FUTR": ("FUTURE", ()),
    "UNK": ("UNKNOWN", ()),
    "ERR": ("ERROR", ()),
    "DRAINED": ("IDLE", ("DRAIN",)),
    "DRAINING": ("ALLOCATED", ("DRAIN",)),
    "DRNG": ("ALLOCATED", ("DRAIN",)),
    "FAILING": ("ALLOCATED", ("FAIL",)),
    "FAILG": ("ALLOCATED", ("FAIL",)),
    "RESV": ("", ("RESERVED",)),
    "PLND": ("", ("PLANNED",)),
    "NPC": ("", ("PERFCTRS",)),
    "NO_RESPOND": ("", ("NOT_RESPONDING",)),
    "NORESP": ("", ("NOT_RESPONDING",)),
    "POWER": ("", ("POWERED_DOWN",)),  # before 21.08; "POWER_SAVE" in its JSON
    "POWER_SAVE": ("", ("POWERED_DOWN",)),
    "POWERED_OFF": ("", ("POWERED_DOWN",)),
    "POW_DN": ("", ("POWERING_DOWN",)),
    "POW_UP": ("", ("POWERING_UP",)),
    "POWERUP": ("", ("POWERING_UP",)),
    "INVAL": ("", ("INVALID_REG",)),
    "REBOOT": ("", ("REBOOT_REQUESTED",)),
    "BOOT": ("", ("REBOOT_ISSUED",)),
    "BLOCK": ("", ("BLOCKED",)),
}
# What says where a node comes from, or what it has been, and nothing of whether it takes jobs.
NO_MATTER = frozenset({"CLOUD", "DYNAMIC_NORM", "DYNAMIC_FUTURE", "RESUME", "UNDRAIN", "CLOUD_REG", "BACKFILL"})


def parse(words: Iterable[str]) -> tuple[str, frozenset[str]]:
    """The base, UNKNOWN where none is named, and the flags. A word that nobody knows is a flag."""
    base, flags = "", set()
    for word in (part for text in words for part in text.upper().split("+")):
        while word and word[-1] in SUFFIXES:
            flags.add(SUFFIXES[word[-1]])
            word = word[:-1]
        of_word, more = WORDS.get(word, (word if word in BASES else "", () if word in BASES else (word,)))
        # "MIXED+DRAINING": what is said of itself counts before what a word only implies.
        base = of_word if of_word and (not base or word in BASES) else base
        flags.update(more)
    flags.discard("")
    return base or ("IDLE" if flags & {"RESERVED", "PLANNED", "MAINT"} else "UNKNOWN"), frozenset(flags)
