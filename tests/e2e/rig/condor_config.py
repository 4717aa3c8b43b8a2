"""The configuration files of the rig's HTCondor: the head, a worker, a client."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tests.e2e.rig import places

DAEMON_IDENTITY = "elastiq@rig"
POOL_IDENTITY = "condor@rig"

_COMMON = f"""\
RELEASE_DIR = /usr
LIB = /usr/lib/condor
LIBEXEC = /usr/libexec/condor
SBIN = /usr/sbin
BIN = /usr/bin
CONDOR_HOST = {places.HUB_IP}
COLLECTOR_HOST = {places.HUB_IP}:9618
CONDOR_IDS = {places.CONDOR_UID}.{places.CONDOR_UID}
UID_DOMAIN = rig
FILESYSTEM_DOMAIN = rig
TRUST_DOMAIN = rig
TRUST_UID_DOMAIN = True
# no name server here: names are made from addresses, as 172.31.0.1 -> 172-31-0-1.DOMAIN
NO_DNS = True
SEC_DEFAULT_AUTHENTICATION = REQUIRED
SEC_READ_AUTHENTICATION = OPTIONAL
SEC_CLIENT_AUTHENTICATION = OPTIONAL
SEC_DEFAULT_AUTHENTICATION_METHODS = FS, IDTOKENS
SEC_DEFAULT_ENCRYPTION = PREFERRED
SEC_DEFAULT_INTEGRITY = PREFERRED
ALLOW_READ = *
ALLOW_WRITE = *
CONDOR_ADMIN =
LINUX_KERNEL_TUNING_SCRIPT =
"""


def _directories(local: str) -> str:
    return f"""\
LOCAL_DIR = {local}
LOG = {local}/log
SPOOL = {local}/spool
EXECUTE = {local}/execute
LOCK = {local}/lock
RUN = {local}/run
SEC_PASSWORD_DIRECTORY = {local}/passwords.d
SEC_PASSWORD_FILE = {local}/passwords.d/POOL
SEC_TOKEN_SYSTEM_DIRECTORY = {local}/tokens.d
SEC_TOKEN_DIRECTORY = {local}/tokens.d
"""


def head(local: str) -> str:
    """Central manager and schedd, with short periods so that the tests need not wait."""
    return f"""\
{_COMMON}{_directories(local)}
DAEMON_LIST = MASTER COLLECTOR NEGOTIATOR SCHEDD
NETWORK_INTERFACE = {places.HUB_IP}
NETWORK_HOSTNAME = head.rig
DEFAULT_DOMAIN_NAME = rig
SCHEDD_NAME = head.rig
ALLOW_DAEMON = condor@rig root@rig condor@*/*
ALLOW_NEGOTIATOR = condor@rig root@rig
# the two lines that docs/htcondor.md asks for
ALLOW_ADMINISTRATOR = condor@rig root@rig {DAEMON_IDENTITY}
ALLOW_ADVERTISE_STARTD = condor@rig {DAEMON_IDENTITY}
ALLOW_ADVERTISE_SCHEDD = condor@rig root@rig
ALLOW_ADVERTISE_MASTER = condor@rig root@rig
NEGOTIATOR_INTERVAL = 1
NEGOTIATOR_CYCLE_DELAY = 1
NEGOTIATOR_MIN_INTERVAL = 1
SCHEDD_INTERVAL = 5
SCHEDD_MIN_INTERVAL = 1
COLLECTOR_UPDATE_INTERVAL = 15
UPDATE_INTERVAL = 15
MASTER_UPDATE_INTERVAL = 15
NEGOTIATOR_UPDATE_INTERVAL = 15
CLASSAD_LIFETIME = 60
# of a licence that jobs may ask for (concurrency_limits = licence) there is one
LICENCE_LIMIT = 1
# a collector that was stopped is not started again behind a test's back
MASTER_BACKOFF_CONSTANT = 1
MASTER_BACKOFF_CEILING = 2
"""


@dataclass(frozen=True)
class WorkerOptions:
    """What differs between workers. ``published_id`` is the instance id in the ad, empty for none; ``user_data``
    are further lines of configuration."""

    published_id: str = ""
    cpus: int = 4
    memory_mb: int = 8192
    gpus: int = 0
    retirement_s: int = 0
    user_data: str = ""


def worker(local: str, address: str, options: WorkerOptions) -> str:
    """One machine with a partitionable slot, as an image in a cloud would have it."""
    published = (
        f'EC2InstanceID = "{options.published_id}"\nSTARTD_ATTRS = EC2InstanceID\n' if options.published_id else ""
    )
    # GPUs that nobody has, by name; those that exist would be found by condor_gpu_discovery
    gpus = ", ".join(f"GPU-{number}" for number in range(options.gpus))
    return f"""\
{_COMMON}{_directories(local)}
DAEMON_LIST = MASTER STARTD
NETWORK_INTERFACE = {address}
NETWORK_HOSTNAME = ip-{address.replace(".", "-")}.ec2.internal
DEFAULT_DOMAIN_NAME = ec2.internal
SEC_CLIENT_AUTHENTICATION_METHODS = IDTOKENS
ALLOW_DAEMON = *
ALLOW_NEGOTIATOR = *
ALLOW_ADMINISTRATOR = condor@rig root@rig
{published}
NUM_CPUS = {options.cpus}
MEMORY = {options.memory_mb}
{f"MACHINE_RESOURCE_GPUS = {gpus}" if gpus else ""}
NUM_SLOTS = 1
NUM_SLOTS_TYPE_1 = 1
SLOT_TYPE_1 = 100%
SLOT_TYPE_1_PARTITIONABLE = True
START = True
SUSPEND = False
PREEMPT = False
KILL = False
WANT_SUSPEND = False
# 0 is HTCondor's default: a drain without -check then evicts what runs, which the tests must be able to see
MAXJOBRETIREMENTTIME = {options.retirement_s}
UPDATE_INTERVAL = 5
RUNBENCHMARKS = False
USE_SHARED_PORT = False
# what a container does not allow or the rig does not need
USE_PROCD = False
BASE_CGROUP =
CREATE_CGROUP_WITHOUT_ROOT = False
# else every job is held: a chroot has no mount of its own
MOUNT_PRIVATE_DEV_SHM = False
MOUNT_UNDER_SCRATCH =
# else the start takes 3.8 s, not 1.1 s: each is tried out
ENABLE_URL_TRANSFERS = False
JAVA =
DOCKER =
SINGULARITY =
{options.user_data}
"""


def client(release: Path, spool: Path) -> str:
    """For commands on the host. Reads need no rights; acts need a token (`htcondor.daemon_token`). ``spool`` is the
    head's."""
    return f"""\
RELEASE_DIR = {release}/usr
BIN = {release}/usr/bin
SBIN = {release}/usr/sbin
LIB = {release}/usr/lib/condor
LIBEXEC = {release}/usr/libexec/condor
LOCAL_DIR = /nonexistent
LOG = /tmp
SPOOL = {spool}
CONDOR_HOST = {places.HUB_IP}
COLLECTOR_HOST = {places.HUB_IP}:9618
SCHEDD_NAME = head.rig
SCHEDD_HOST = head.rig
NETWORK_INTERFACE = {places.HUB_IP}
NO_DNS = True
DEFAULT_DOMAIN_NAME = rig
UID_DOMAIN = rig
TRUST_DOMAIN = rig
# a tool that root runs asks for the ids of a user condor, which the host does not have
CONDOR_IDS = 0.0
SEC_CLIENT_AUTHENTICATION = OPTIONAL
SEC_CLIENT_AUTHENTICATION_METHODS = IDTOKENS
SEC_DEFAULT_ENCRYPTION = PREFERRED
SEC_DEFAULT_INTEGRITY = PREFERRED
"""
