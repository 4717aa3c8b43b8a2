"""Network namespaces: a hub with a bridge, one for each worker. The host's network is not touched."""

from __future__ import annotations

import os
import shlex
import signal
from typing import Sequence

from tests.e2e.rig import places
from tests.e2e.rig.process import poll, run, send


def namespaces() -> list[str]:
    """The rig's namespaces that exist now."""
    try:
        names = os.listdir("/run/netns")
    except FileNotFoundError:
        return []
    return sorted(name for name in names if name.startswith(places.NAMESPACE_PREFIX))


def within(namespace: str, argv: Sequence[object]) -> list[str]:
    """The command line that runs ``argv`` in a namespace's network, with the host's files.

    nsenter, since `ip netns exec` makes a mount namespace in which a later `ip netns add` would be lost.
    """
    return ["nsenter", f"--net=/run/netns/{namespace}", *(str(word) for word in argv)]


def in_root(namespace: str, argv: Sequence[object], user: int = 0) -> list[str]:
    """The command line that runs ``argv`` inside the unpacked root, in a namespace's network.

    /proc and /dev are mounted in a mount namespace that ends with the process: nothing to clean up.
    """
    root = shlex.quote(str(places.root()))
    script = f"mount -t proc proc {root}/proc && mount --rbind /dev {root}/dev && exec chroot"
    script += f" --userspec={user}:{user} {root} " + ' "$@"'
    return within(namespace, ["unshare", "--mount", "--propagation", "private", "sh", "-c", script, "sh", *argv])


def make_hub() -> None:
    """The namespace of the head node, with the bridge that joins all."""
    if places.HUB in namespaces():
        return
    run(["ip", "netns", "add", places.HUB])
    for command in (
        ["link", "set", "lo", "up"],
        # with an address of its own: else it takes one of its ports', and when that worker goes, the others
        # send to nobody until their ARP entries expire (up to 30 s in which no update reaches the collector)
        ["link", "add", places.BRIDGE, "address", "02:00:00:00:00:01", "type", "bridge"],
        ["address", "add", f"{places.HUB_IP}/{places.PREFIX_LENGTH}", "dev", places.BRIDGE],
        ["link", "set", places.BRIDGE, "up"],
    ):
        _ip(places.HUB, *command)


def make_worker(address: str) -> str:
    """A namespace with this address, on the hub's bridge; returns its name."""
    name = places.worker_namespace(address)
    link = _link(name)
    run(["ip", "netns", "add", name])
    _ip(places.HUB, "link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", name)
    _ip(places.HUB, "link", "set", link, "master", places.BRIDGE, "up")
    _ip(name, "link", "set", "lo", "up")
    _ip(name, "address", "add", f"{address}/{places.PREFIX_LENGTH}", "dev", "eth0")
    _ip(name, "link", "set", "eth0", "up")
    return name


def _ip(namespace: str, *arguments: str, check: bool = True) -> None:
    run(within(namespace, ["ip", *arguments]), check=check)


def _link(namespace: str) -> str:
    """The hub's end of a worker's link: at most 15 characters."""
    return "v" + "".join(f"{int(part):02x}" for part in namespace[len(places.NAMESPACE_PREFIX) :].split("-"))


def processes(namespace: str) -> list[int]:
    """Everything that runs in a namespace of the rig; all of it was started by the rig or its tests."""
    return [int(pid) for pid in run(["ip", "netns", "pids", namespace], check=False).split()]


def remove(namespace: str) -> None:
    """End what runs there and delete the namespace."""
    if namespace not in namespaces():
        return

    def emptied() -> bool:
        left = [pid for pid in processes(namespace) if pid != os.getpid()]
        for pid in left:
            send(pid, signal.SIGKILL)
        return not left

    poll(emptied, 10)
    if namespace != places.HUB and places.HUB in namespaces():
        # the kernel takes down a namespace some time after its end, and then its links
        _ip(places.HUB, "link", "delete", _link(namespace), check=False)
    run(["ip", "netns", "delete", namespace], check=False)
