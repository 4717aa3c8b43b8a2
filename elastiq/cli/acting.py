"""The commands of `elastiq.cli.of_acting`: each asks the running elastiq for something, and says what became of it."""

from __future__ import annotations

from argparse import Namespace
from typing import Any, Mapping

from elastiq.cli.asking import FAILED, agreed, answer, ask
from elastiq.cli.table import Screen
from elastiq.paths import Paths
from elastiq.wording import counted


def reload(paths: Paths, args: Namespace) -> int:
    done = ask(paths, "reload")
    if isinstance(done, int):
        return done
    answer(args, "the configuration was read again", done["result"])
    return 0


def pause(paths: Paths, args: Namespace) -> int:
    return _switch(paths, args, {"reason": args.reason or ""})


def resume(paths: Paths, args: Namespace) -> int:
    return _switch(paths, args, {})


_OFF = {"launch": "no machine is launched", "terminate": "none is drained or ended"}


def _switch(paths: Paths, args: Namespace, more: Mapping[str, str]) -> int:
    done = ask(paths, args.verb, {"launch": args.launch, "terminate": args.terminate, **more})
    if isinstance(done, int):
        return done
    paused: Mapping[str, str] = done["result"]["paused"]
    text = "elastiq launches and ends as it is configured"
    if configured := done["result"].get("configured"):
        text = f"nothing is paused, but the configuration holds all the same: {', '.join(configured.values())}"
    if paused:
        off = ", ".join(f"{_OFF[act]} ({why})" for act, why in paused.items())
        text = f"{off}: what would be done is logged, until elastiqctl resume"
    answer(args, Screen().line(text), done["result"])
    return 0


def scale(paths: Paths, args: Namespace) -> int:
    done = ask(paths, "scale", {"vms": args.vms, "pool": args.pool or ""})
    if isinstance(done, int):
        return done
    what, option = (f"pool {args.pool}", f" --pool {args.pool}") if args.pool else ("the cluster", "")
    text = f"{what} is held at {args.vms} or more machines, until elastiqctl scale auto{option}"
    if args.vms is None:
        text = f"{what} is as large as jobs and min_vms ask for"
    answer(args, Screen().line(text), done["result"])
    return 0


def drain(paths: Paths, args: Namespace) -> int:
    done = ask(paths, "drain", {"node": args.node, "reason": args.reason or ""})
    if isinstance(done, int):
        return done
    answer(args, Screen().line(_drained(done["result"])), done["result"])
    return 0


def _drained(node: Mapping[str, Any]) -> str:
    name, jobs, undo = node["node"], node["jobs"], f"(undone by: elastiqctl undrain {node['node']})"
    if not node["worker"]:
        return f"{name} ({node['state']}) ends when it has joined, before jobs start there {undo}"
    after = f" once its {counted(jobs, 'job')} {'has' if jobs == 1 else 'have'} ended" if jobs else ""
    if not node["can_drain"]:
        return f"{name} ends once it is idle; this batch system cannot keep jobs off it until then {undo}"
    return f"{name} is being drained, and ends{after}: see elastiqctl status {undo}"


def undrain(paths: Paths, args: Namespace) -> int:
    done = ask(paths, "undrain", {"node": args.node})
    if isinstance(done, int):
        return done
    answer(args, Screen().line(f"{done['result']['node']} takes jobs again"), done["result"])
    return 0


def drain_pool(paths: Paths, args: Namespace) -> int:
    after = f"nothing is launched there, and what is idle there ends (undone by: elastiqctl undrain-pool {args.pool})"
    return _serve(paths, args, f"pool {args.pool} is out of service: {after}")


def undrain_pool(paths: Paths, args: Namespace) -> int:
    return _serve(paths, args, f"pool {args.pool} is in service")


def _serve(paths: Paths, args: Namespace, text: str) -> int:
    done = ask(paths, args.verb, {"pool": args.pool})
    if isinstance(done, int):
        return done
    answer(args, text, done["result"])
    return 0


def adopt(paths: Paths, args: Namespace) -> int:
    """List what would be taken over, ask, and take it over."""
    listed = ask(paths, "adopt")
    if isinstance(listed, int):
        return listed
    found: list[str] = listed["result"]["instances"]
    if not found:
        answer(args, "no instance of this cluster belongs to another head node: nothing to adopt", {"adopted": []})
        return 0
    if not args.json:
        which = counted(len(found), "instance") + f" of this cluster belong{'s' if len(found) == 1 else ''}"
        print(f"{which} to another head node:", *(Screen().line(f"  {instance}") for instance in found), sep="\n")
    if not agreed(args, "Is that head node gone for good, and shall they all be adopted?"):
        return FAILED
    done = ask(paths, "adopt", {"ids": found})  # what was shown, and nothing that came since
    if isinstance(done, int):
        return done
    text = "adoption has begun: `elastiqctl status` shows them as nodes when the cloud has confirmed it"
    answer(args, text, done["result"])
    return 0
