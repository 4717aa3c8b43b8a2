"""What can be found wrong with PBS before the first drain: `elastiqctl check`. Only reads."""

from __future__ import annotations

import fnmatch
import os
import pwd
import socket
from functools import partial
from typing import TYPE_CHECKING, Callable, Iterable, Iterator

from elastiq.errors import SourceError
from elastiq.interfaces import Check, Looks
from elastiq.plugins.batch import pbs_jobs, pbs_rows
from elastiq.plugins.batch.pbs_rows import Record

if TYPE_CHECKING:
    from elastiq.plugins.batch.pbs import PBS

DOCS = "docs/batch/pbs.md"
RUNS = "see that pbs_server runs, and that this machine and user may ask it (acl_hosts)"


def looks(pbs: PBS) -> Looks:
    """The checks of a server, each by its subject."""
    found: dict[str, Callable[[PBS, str], Iterable[Check]]] = {
        "server": _server,
        "nodes": _nodes,
        "queue": _queue,
        "queues": _queues,
        "drain": _drain,
        "records": _records,
    }
    return {
        "commands": partial(_commands, pbs, "commands"),
        **{subject: partial(_with_commands, pbs, look, subject) for subject, look in found.items()},
    }


def _absent(pbs: PBS) -> str:
    wanted = ("qstat", "pbsnodes", *(("qmgr",) if pbs.values.get("register", True) else ()))
    return pbs.tools.absent(*wanted, key="command_folder")


def _commands(pbs: PBS, subject: str) -> Iterator[Check]:
    if absent := _absent(pbs):
        remedy = f"install them, or set command_folder in [{pbs.section}]"
        yield Check(subject, "error", absent, remedy)
    else:
        yield Check(subject, "ok", f"found: {pbs.tools.where('qstat')}")


def _with_commands(pbs: PBS, look: Callable[[PBS, str], Iterable[Check]], subject: str) -> Iterator[Check]:
    if absent := _absent(pbs):
        raise SourceError(f"not looked at: {absent}")
    yield from look(pbs, subject)


def _read_server(pbs: PBS) -> Record:
    found = pbs_rows.from_text(pbs.tools.ask("qstat", "-B", "-f"), "qstat -B -f")
    if not found:
        raise SourceError("qstat -B -f tells of no server")
    return found[0]


def _server(pbs: PBS, subject: str) -> Iterator[Check]:
    try:
        server = _read_server(pbs)
    except SourceError as error:
        yield Check(subject, "error", str(error), RUNS)
        return
    text = f"{server.name} answers, version {server.get('pbs_version') or 'not told'}"
    yield Check(subject, "ok", text)
    if server.get("scheduling").lower() == "false":
        remedy = "qmgr -c 'set server scheduling = True', unless another scheduler starts the jobs"
        yield Check(subject, "warning", "scheduling is off: PBS starts no job by itself", remedy)


def _nodes(pbs: PBS, subject: str) -> Iterator[Check]:
    try:
        found = pbs.workers().workers
    except SourceError as error:
        yield Check(subject, "error", str(error), RUNS)
        return
    yield Check(subject, "ok", f"{_count(len(found), 'host')} with a MOM that is heard")
    nameless = [worker.name for worker in found if not worker.addresses]
    if nameless:
        text = f"no address is known of {nameless[0]}" + (f" and {len(nameless) - 1} more" if nameless[1:] else "")
        remedy = f"let this machine resolve the names of nodes (/etc/hosts, DNS), see {DOCS}"
        yield Check(subject, "warning", f"{text}: which machine it is cannot be told", remedy)


def _queue(pbs: PBS, subject: str) -> Iterator[Check]:
    try:
        jobs = pbs.jobs()
    except SourceError as error:
        yield Check(subject, "error", str(error), RUNS)
        return
    server = _read_server(pbs)
    seen = sum(group.waiting + (group.running or 0) for group in jobs.groups)
    sees_all = user_here() == "root" or _among(server, ("managers", "operators"))
    if server.get("query_other_jobs").lower() != "true" and not sees_all:
        text = "query_other_jobs is not set: only jobs of elastiq's own user may be shown"
        yield Check(
            subject, "warning", text, "qmgr -c 'set server query_other_jobs = True', or make elastiq an operator"
        )
        return
    yield Check(subject, "ok", f"{_count(seen, 'job')} waiting or running")


def _queues(pbs: PBS, subject: str) -> Iterator[Check]:
    queues = pbs.ask_queues()
    names = {queue.name for queue in queues}
    for name in pbs.values.get("queues") or ():
        if name not in names:
            yield Check(subject, "error", f"there is no queue {name}", f"mend `queues` in [{pbs.section}]")
    closed = pbs_jobs.closed_queues(queues)
    stopped = [name for name in closed if "stopped" in closed[name]]
    if stopped:
        text = f"stopped, their jobs are no demand: {', '.join(sorted(stopped))}"
        yield Check(subject, "warning", text, f"qstart {sorted(stopped)[0]}, if its jobs are to run")
    else:
        yield Check(subject, "ok", f"{_count(len(names), 'queue')}, {len(closed)} of them for routing")


def user_here() -> str:
    """Its number where it has no name."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())


def _among(server: Record, lists: Iterable[str]) -> bool:
    """Whether our user is in one of these lists of the server: ``root@*``, ``elastiq@head.example.org``."""
    user = user_here()
    here = {f"{user}@{name}".lower() for name in (socket.gethostname(), socket.getfqdn())}
    patterns = [one.strip().lower() for name in lists for one in server.get(name).split(",") if one.strip()]
    return any(fnmatch.fnmatchcase(who, pattern) for who in here for pattern in patterns)


def _drain(pbs: PBS, subject: str) -> Iterator[Check]:
    if not pbs.can_drain:
        text = "drain = no: a job that starts right before a machine's end is lost with it"
        yield Check(subject, "warning", text, f"let elastiq drain, if you can ({DOCS})")
        return
    yield _right(_read_server(pbs), subject, ("managers", "operators"), "operators", "drain workers")


def _right(server: Record, subject: str, lists: tuple[str, ...], wanted: str, what: str) -> Check:
    user, host = user_here(), socket.getfqdn()
    if _among(server, lists):
        return Check(subject, "ok", f"{user} may {what}")
    if user == "root":
        return Check(subject, "unknown", f"root may {what} on the server's own host, elsewhere if it is in {wanted}")
    remedy = f"qmgr -c 'set server {wanted} += {user}@{host}' ({DOCS})"
    return Check(subject, "error", f"{user} is not in the server's {wanted}, and may not {what}", remedy)


def _records(pbs: PBS, subject: str) -> Iterator[Check]:
    """Whether new machines can be made known."""
    if not pbs.values.get("register", True):
        yield Check(subject, "ok", "register = no: nodes are created by somebody else")
        return
    server = _read_server(pbs)
    yield _right(server, subject, ("managers",), "managers", "create and delete nodes")
    attributes = [line.partition("=")[0].strip() for line in pbs.values.get("node_attributes") or ()]
    if pbs.section == "torque" and server.get("auto_node_np").lower() != "true" and "np" not in attributes:
        remedy = "qmgr -c 'set server auto_node_np = True', or np in node_attributes"
        yield Check(subject, "warning", "a new node has np = 1, however many cores its machine has", remedy)


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
