"""Kill switches by a person: `elastiqctl pause` and `resume`. They outlive a restart. What would have been done
meanwhile is logged, and shown in the status.
"""

from __future__ import annotations

import logging
from typing import Any, Mapping

from elastiq.core import Core
from elastiq.protocol import LONGEST_REASON, Refused

ACTS = ("launch", "terminate")


def change(core: Core, verb: str, args: Mapping[str, Any]) -> dict[str, Any]:
    """Carry out ``pause`` or ``resume``, of what is named or of both; the next plan goes by it. Raises `Refused`."""
    if not all(isinstance(args.get(act, False), bool) for act in ACTS):
        raise Refused("malformed", '"launch" and "terminate" are true or false')
    acts = [act for act in ACTS if args.get(act)] or list(ACTS)
    why = f"paused: {reason}" if (reason := reason_in(args)) else "paused by elastiqctl"
    kept = {act: text for act, text in core.paused.items() if act not in acts}
    paused = {**kept, **dict.fromkeys(acts, why)} if verb == "pause" else kept
    if paused != core.paused:
        if not core.stored(lambda: core.store.remember("paused", paused)):
            raise Refused("impossible", "the state cannot be written (see elastiqctl status): nothing was changed")
        core.paused = paused
        for subject in [one for one in core._told if one.startswith("dry run")]:
            del core._told[subject]  # what would be done is told anew
        text = f"{verb} {' and '.join(acts)}" + (f": {reason}" if reason else "")
        core.record(verb, "", "", f"elastiqctl {text}")
        core.say("command", f"elastiqctl {text}: done", logging.WARNING, verb=verb, acts=acts, reason=reason)
    off = {act: why for act in ACTS if act not in paused and (why := core.off(act))}
    return {"paused": dict(paused), "configured": off}


def reason_in(args: Mapping[str, Any]) -> str:
    """What a person gives as the reason, as one short line; empty if nothing. Raises `Refused`."""
    reason = args.get("reason") or ""
    if not isinstance(reason, str):
        raise Refused("malformed", '"reason" is a text')
    return " ".join("".join(letter if letter.isprintable() else " " for letter in reason).split())[:LONGEST_REASON]
