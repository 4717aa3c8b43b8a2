"""The commands of `elastiq.cli.of_acting`: each asks the running elastiq for something, and says what became of it."""

from __future__ import annotations

from argparse import Namespace

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
