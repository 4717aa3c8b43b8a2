"""What the suite of clouds asks of the one who tests a plugin: situations, made in his cloud or in a fake of it.

The methods that are not abstract belong to abilities, named in each docstring.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod

from elastiq.interfaces import Cloud, Instance, InstanceState, Intent, LaunchError, Offer, Owner

GONE = (InstanceState.TERMINATED, InstanceState.SHUTTING_DOWN)


class CloudBench(ABC):
    """A site in a state that the test chooses. It starts without any instance but, perhaps, the head node."""

    cloud: Cloud
    owner: Owner
    offers: tuple[Offer, ...]  # at least one, of a pool that the cloud was made with

    @abstractmethod
    def add_foreign(self) -> str:
        """An instance of somebody else in the same account (none of our tags or tokens); returns its id."""

    @abstractmethod
    def add_other_head(self) -> str:
        """An instance of the same cluster name that another head node owns; returns its id."""

    @abstractmethod
    def add_head_node(self) -> str:
        """The head node itself, tagged as if it were ours; returns its id, which is `owner.instance_id`."""

    @abstractmethod
    def run(self, instance_id: str) -> None:
        """Let a pending instance come to run (nothing to do where it does so by itself)."""

    @abstractmethod
    def vanish(self, instance_id: str) -> None:
        """Let the cloud know the instance no more."""

    @abstractmethod
    def refuse_next_launch(self, error: type[LaunchError]) -> None:
        """Let the next launch be refused, the way the cloud says this kind of error; nothing is launched."""

    @abstractmethod
    def lose_next_launch_answer(self) -> None:
        """Let the next launch take effect but its answer not arrive (time-out, connection cut, 5xx)."""

    @abstractmethod
    def fail_next(self, call: str) -> None:
        """Let the next "instances", "find", "terminate", "stop" or "flavours" fail as a cloud fails that cannot
        be reached."""

    @abstractmethod
    def garble_next(self, call: str) -> None:
        """Let the next "instances" or "launch" be answered with success and nonsense; a launch so
        answered may or may not have made instances."""

    def rest(self, instance_id: str) -> None:
        """Let a stopping instance come to be stopped ("stop")."""
        raise NotImplementedError

    def refuse_next_start(self, error: type[LaunchError]) -> None:
        """Let the next start be refused, the way the cloud says this kind of error ("stop")."""
        raise NotImplementedError

    def take_back(self, instance_id: str) -> None:
        """Let the cloud begin to end a spot machine because it needs it ("notice")."""
        raise NotImplementedError

    def is_spot(self, instance_id: str) -> bool:
        """Whether it was bought as a spot machine ("market")."""
        raise NotImplementedError

    def limit_next_launch(self, count: int) -> None:
        """Let the next launch make at most ``count`` instances and succeed ("limit")."""
        raise NotImplementedError

    # ---- conveniences of the suite

    _numbers = itertools.count(1)

    def intent(self, count: int = 1, offer: int = 0) -> Intent:
        number = next(self._numbers)
        name = f"i{number:06d}"
        return Intent(name, f"{self.owner.token_prefix}{name}", self.offers[offer], count, 1_700_000_000.0)

    def owned(self, known: frozenset[str] = frozenset()) -> dict[str, Instance]:
        """Our instances that are not ended, by id; fails on an id listed twice."""
        listed = self.cloud.instances(known).owned
        assert len({instance.id for instance in listed}) == len(listed)
        return {instance.id: instance for instance in listed if instance.state not in GONE}

    def launch(self, count: int = 1) -> list[str]:
        """Launch, and let all come to run; returns the ids."""
        ids = [instance.id for instance in self.cloud.launch(self.intent(count))]
        for instance_id in ids:
            self.run(instance_id)
        return ids
