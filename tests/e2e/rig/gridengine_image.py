"""What an instance of the rig's cloud is in a Grid Engine cluster: a host with sge_execd, as an image would have it.

User data may write EXECD=no into /etc/default/gridengine: then it never joins.
"""

from __future__ import annotations

from tests.e2e.rig import gridengine, hosts
from tests.e2e.rig.condor_config import WorkerOptions

# execd gives up where the master does not know its host (yet): the recipe of docs/batch/gridengine.md.
_START = """
while :; do
    /usr/sbin/sge_execd
    sleep 1
done
"""
_SPOOL = "/var/spool/gridengine/execd"


def boot(host: hosts.Host, options: WorkerOptions) -> None:
    assert host.beside is not None
    gridengine.prepare(host, host.beside)
    host.run("install", "-d", "-o", "sgeadmin", "-g", "sgeadmin", _SPOOL)
    host.start_program(["sh", "-c", _START], "/var/log/execd.out", environment=gridengine.ENVIRONMENT)
