"""Where everything of the rig is: one directory, one private network, fixed user ids."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

DIRECTORY_VARIABLE = "ELASTIQ_E2E_DIR"

NAMESPACE_PREFIX = "eqe-"
HUB = NAMESPACE_PREFIX + "hub"
BRIDGE = "eqe-br0"
HUB_IP = "172.31.0.1"
PREFIX_LENGTH = 16
EC2_PORT = 5000
EC2_URL = f"http://{HUB_IP}:{EC2_PORT}"
REGION = "us-east-1"

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


def ec2_socket() -> Path:
    """Where the EC2 server is controlled from outside of its namespace."""
    return base() / "ec2.sock"


def worker_namespace(address: str) -> str:
    """The namespace of the worker with this address."""
    return NAMESPACE_PREFIX + address.replace(".", "-")
