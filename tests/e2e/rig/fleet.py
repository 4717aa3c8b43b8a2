"""A cloud whose instances become hosts (`hosts.Host`) beside a head; `python -m tests.e2e.rig.fleet LABEL ...`.

Its EC2 server runs in the head's network and ends with the test run. An image is a module with a function
``boot(host, options)``, which starts in a new host what its image would start; user data that is a script ("#!") has
run before, as root, as cloud-init does it. A terminated instance's host is killed: nobody is told.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
import threading
from pathlib import Path

from tests.e2e.rig import ec2_server, hosts, places
from tests.e2e.rig.client import Ec2
from tests.e2e.rig.condor_config import WorkerOptions
from tests.e2e.rig.process import RigError, poll, start

PORT = 5000


def endpoint(head: hosts.Host) -> places.Endpoint:
    """Of the cloud beside this head, whose address is `places.HUB_IP`. Its files are the head's."""
    return places.Endpoint(f"hosts/{head.label}/ec2", PORT, places.REGION, places.FIRST.first_net)


def url(head: hosts.Host) -> str:
    return endpoint(head).url


def start_cloud(head: hosts.Host, root: Path, image: str) -> Ec2:
    """Start the cloud and wait until it answers; ``image`` is the name of a module. `RigError` if it never does."""
    cloud = Ec2(endpoint(head))
    words = [sys.executable, "-m", "tests.e2e.rig.fleet", head.label, head.name, head.address, head.root, root, image]
    environment = {
        **os.environ,
        "PYTHONPATH": str(places.REPOSITORY),
        "PYTHONDONTWRITEBYTECODE": "1",
        places.DIRECTORY_VARIABLE: str(places.base()),
    }
    log = places.ec2_socket(cloud.endpoint).with_suffix(".log")
    argv = ["setpriv", "--pdeathsig", "KILL", *head.in_its_network(words)]
    start(argv, log, log.with_suffix(".pid"), environment)

    def answers() -> bool:
        try:
            cloud.log()
        except RigError:  # its socket is there a moment before it listens
            return False
        return True

    if not poll(answers, 30):
        raise RigError(f"the EC2 server does not start: {log.read_text(errors='replace')[-2000:]}")
    return cloud


def host_at(head: hosts.Host, root: Path, address: str) -> hosts.Host:
    """The host of the instance with this address."""
    name = "ip-" + address.replace(".", "-")
    return hosts.Host(root, name, address, beside=head, names=f"{head.address} {head.name}\n")


class Fleet:
    """The hosts of all instances (`ec2_machines.Workers`)."""

    def __init__(self, head: hosts.Host, root: Path, image: str) -> None:
        self._head, self._root, self._image = head, root, importlib.import_module(image)
        self._there: dict[str, hosts.Host] = {}
        self._lock = threading.Lock()

    def boot(self, address: str, options: WorkerOptions) -> None:
        host = host_at(self._head, self._root, address)
        with self._lock:
            self._there[address] = host
        host.start()
        if options.user_data.startswith("#!"):
            host.put("/var/lib/cloud/user-data", options.user_data, 0o700)
            host.run("/var/lib/cloud/user-data")
        self._image.boot(host, options)

    def halt(self, address: str, silently: bool) -> None:
        with self._lock:
            host = self._there.pop(address, None)
        if host is not None:
            host.kill()

    def addresses(self) -> list[str]:
        with self._lock:
            return list(self._there)


def main() -> None:
    parser = argparse.ArgumentParser()
    for name in ("label", "head_name", "head_address", "head_root", "root", "image"):
        parser.add_argument(name)
    given = parser.parse_args()
    head = hosts.Host(Path(given.head_root), given.head_name, given.head_address, label=given.label)
    ec2_server.serve(endpoint(head), Fleet(head, Path(given.root), given.image))


if __name__ == "__main__":
    main()
