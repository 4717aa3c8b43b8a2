"""A cloud behind a command, as small as one can be: docs/plugins.md explains it.

    TOOL list                                 all machines of the account, a JSON list
    TOOL launch '{"flavour": ..., "image": ..., "count": ..., "tags": {...}}'
    TOOL terminate ID...                      the ids of those that it ends, a JSON list

A machine is {"id": "m-1", "state": "running", "addresses": ["10.0.0.7"], "launched_at": 1700000000, "flavour": "small",
"tags": {...}}, with the states of EC2. Exit codes of `launch`: 0 done, and 10 to 14 that surely nothing was launched,
for the reasons in REFUSED; any other leaves it open what was.
"""

from __future__ import annotations

import json
from typing import Any, Iterator, Mapping, Optional, Sequence

from elastiq.command import CommandError, run
from elastiq.interfaces import (
    AuthError,
    CapacityError,
    Check,
    Cloud,
    CloudCapabilities,
    ConfigurationError,
    EndAnswer,
    EndOutcome,
    Instance,
    Instances,
    InstanceState,
    Intent,
    LaunchError,
    Looks,
    Owner,
    Pool,
    QuotaError,
    SourceError,
    ThrottledError,
    TransientError,
)
from elastiq.options import Kind, Option, above_zero

REFUSED: Mapping[int, type[LaunchError]] = {
    10: CapacityError,
    11: QuotaError,
    12: ThrottledError,
    13: ConfigurationError,
    14: AuthError,
}


class ToolCloud(Cloud):
    """The pools are the sections [tool] and [tool:NAME]."""

    kind = "tool"
    OPTIONS = (
        Option("command", Kind.PATH, required=True, site=True),
        Option("timeout_s", Kind.SECONDS, 60.0, unit="seconds", check=above_zero, site=True),
        Option("image", Kind.TEXT, build=True),
    )
    capabilities = CloudCapabilities(instance_problems=False)

    def __init__(self, pools: Sequence[Pool], owner: Owner) -> None:
        self._images = {pool.name: pool.options["image"] for pool in pools}
        self._command, self._timeout_s = pools[0].options["command"], pools[0].options["timeout_s"]
        self._owner, self.call_deadline_s = owner, self._timeout_s

    @classmethod
    def site_of(cls, values: Mapping[str, Any]) -> str:
        return values.get("command") or cls.kind

    @classmethod
    def from_config(cls, pools: Sequence[Pool], owner: Owner) -> ToolCloud:
        return cls(pools, owner)

    # ------------------------------------------------------------------ reads

    def instances(self, known: frozenset[str]) -> Instances:
        owned: list[Instance] = []
        others: list[Instance] = []  # of this cluster, but another head node's
        foreign: list[Instance] = []
        for one, cluster in self._list():
            if one.id == self._owner.instance_id or one.addresses & self._owner.addresses:
                foreign.append(one)  # the head node itself, whatever its tags say
            elif (cluster, one.head) == (self._owner.cluster, self._owner.head) or (one.id in known and not one.head):
                owned.append(one)
            elif one.state is not InstanceState.TERMINATED:
                (others if cluster == self._owner.cluster else foreign).append(one)
        addresses = frozenset(address for one in foreign for address in one.addresses)
        return Instances(tuple(owned), tuple(others), len(foreign), addresses)

    def find(self, intent: Intent) -> tuple[Instance, ...]:
        return tuple(one for one, _ in self._list() if (one.intent, one.head) == (intent.id, self._owner.head))

    def checks(self) -> Looks:
        return {"cloud tool": self._look}

    def _look(self) -> Iterator[Check]:
        yield Check("cloud tool", "ok", f"lists the machines of the account ({len(self._list())})")

    # ------------------------------------------------------------------ acts

    def launch(self, intent: Intent) -> tuple[Instance, ...]:
        pool, flavour = intent.offer.pool, intent.offer.flavour
        tags = {"cluster": self._owner.cluster, "head": self._owner.head, "pool": pool, "intent": intent.id}
        wanted = {"flavour": flavour, "image": self._images[pool], "count": intent.count, "tags": tags}
        try:
            return tuple(_machine(row)[0] for row in self._tool("launch", json.dumps(wanted)))
        except LaunchError:
            raise
        except SourceError as error:  # it may have launched all the same: elastiq looks for it with `find`
            raise TransientError(str(error)) from error

    def terminate(self, ids: Sequence[str]) -> Mapping[str, EndAnswer]:
        if not ids:
            return {}
        ended = self._tool("terminate", *ids)
        return {one: EndAnswer(EndOutcome.ENDING if one in ended else EndOutcome.NOT_FOUND) for one in ids}

    # ------------------------------------------------------------------ inside

    def _list(self) -> list[tuple[Instance, str]]:
        return [_machine(row) for row in self._tool("list")]

    def _tool(self, *arguments: str) -> list[Any]:
        """What the tool prints. Raises `SourceError`; of a launch that surely launched nothing, its kind."""
        what = f"{self._command} {arguments[0]}"
        try:
            done = run([self._command, *arguments], timeout_s=self._timeout_s)
        except CommandError as error:
            raise SourceError(str(error)) from error
        refusal: Optional[type[LaunchError]] = REFUSED.get(done.returncode)
        if refusal and arguments[0] == "launch":
            raise refusal(f"{what}: {done.complaint}")
        if done.returncode:
            raise SourceError(f"{what}: {done.complaint}")
        try:
            answer = json.loads(done.stdout)
        except ValueError as error:
            raise SourceError(f"{what} printed no JSON: {error}") from error
        if not isinstance(answer, list):
            raise SourceError(f"{what} printed no list")
        return answer


def _machine(row: Any) -> tuple[Instance, str]:
    """One machine, and the cluster in its tags."""
    try:
        tags = row["tags"]
        state = next((state for state in InstanceState if state.value == row["state"]), InstanceState.UNKNOWN)
        one = Instance(
            id=row["id"],
            state=state,
            addresses=frozenset(row["addresses"]),
            launched_at=row["launched_at"],
            flavour=row["flavour"],
            pool=tags.get("pool", ""),
            intent=tags.get("intent", ""),
            head=tags.get("head", ""),
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise SourceError(f"a machine in the list makes no sense: {error!r}") from error
    return one, tags.get("cluster", "")
