"""Where everything of the rig is: one directory, one private network, fixed user ids."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

DIRECTORY_VARIABLE = "ELASTIQ_E2E_DIR"

NAMESPACE_PREFIX = "eqe-"
HUB = NAMESPACE_PREFIX + "hub"
BRIDGE = "eqe-br0"
HUB_IP = "172.31.0.1"
PREFIX_LENGTH = 16
NETS_EACH = 20


@dataclass(frozen=True)
class Endpoint:
    """One EC2 endpoint, a process with instances of its own; those have addresses from 172.31.``first_net``.2 on."""

    name: str
    port: int
    region: str
    first_net: int

    @property
    def url(self) -> str:
        return f"http://{HUB_IP}:{self.port}"

    def holds(self, address: str) -> bool:
        """Whether an instance with this address is of this endpoint."""
        return 0 <= int(address.split(".")[2]) - self.first_net < NETS_EACH


FIRST = Endpoint("ec2", 5000, "us-east-1", 200)
SECOND = Endpoint("ec2-second", 5001, "eu-west-1", 200 + NETS_EACH)  # runs once a test asks for it
ENDPOINTS = (FIRST, SECOND)
EC2_URL = FIRST.url
REGION = FIRST.region

# No host needs to know these users: they exist in the unpacked root only, the last one nowhere at all.
CONDOR_UID = 64001
JOB_UID = 64010
DAEMON_UID = 64020

REPOSITORY = Path(__file__).resolve().parents[3]


def base() -> Path:
    """The rig's directory: the environment variable's, else one under the temporary directory."""
    given = os.environ.get(DIRECTORY_VARIABLE)
    return Path(given).resolve() if given else Path(tempfile.gettempdir()).resolve() / "elastiq-e2e"


def root() -> Path:
    """The unpacked Debian system in which HTCondor's daemons run."""
    return base() / "root"


def pool() -> Path:
    """The pool's files as the host sees them; inside the root they are at `POOL_INSIDE`."""
    return root() / "pool"


POOL_INSIDE = "/pool"


def tools() -> Path:
    """HTCondor's commands for use on the host: a directory for PATH."""
    return base() / "bin"


def client_config() -> Path:
    """CONDOR_CONFIG of a client of the pool, which also the daemon under test uses."""
    return base() / "client_config"


def daemon_tokens() -> Path:
    """Where the daemon's user has its token."""
    return base() / "tokens"


def ec2_socket(endpoint: Endpoint = FIRST) -> Path:
    """Where the EC2 server is controlled from outside of its namespace."""
    return base() / f"{endpoint.name}.sock"


def worker_namespace(address: str) -> str:
    """The namespace of the worker with this address."""
    return NAMESPACE_PREFIX + address.replace(".", "-")
