"""What an instance of the rig's cloud is in a Slurm cluster: a host with munged and slurmd, as an image would have it.

User data may write `FEATURES=a,b` into /etc/default/slurmd, or `PREDECLARED=yes`: then it is the node of slurm.conf
that has its address.
"""

from __future__ import annotations

from tests.e2e.rig import hosts, places, slurm
from tests.e2e.rig.condor_config import WorkerOptions

_DEFAULTS = "/etc/default/slurmd"
# Of the machine that all this runs on, slurmd would tell other things than of the instance.
_START = f"""
. {_DEFAULTS}
if [ -z "$PREDECLARED" ]; then
    exec slurmd -D -Z --conf-server "$HEAD" --conf "CPUs=$CPUS RealMemory=$MEMORY Feature=${{FEATURES:-cloud}}"
fi
while :; do
    NODE=$(scontrol --oneliner show node | sed -n "s/^NodeName=\\([^ ]*\\) .* NodeAddr=$ADDRESS .*/\\1/p")
    [ -z "$NODE" ] || exec slurmd -D -N "$NODE" --conf-server "$HEAD"
    sleep 0.5
done
"""
_CLIENT = f"ClusterName=rig\nSlurmctldHost=head({places.HUB_IP})\nAuthType=auth/munge\n"


def boot(host: hosts.Host, options: WorkerOptions) -> None:
    assert host.beside is not None
    slurm.prepare(host, host.beside.path("/etc/munge/munge.key").read_bytes())
    said = host.read(_DEFAULTS) if host.path(_DEFAULTS).exists() else ""
    known = f"HEAD={places.HUB_IP}:6817\nADDRESS={host.address}\nCPUS={options.cpus}\nMEMORY={options.memory_mb}\n"
    host.put(_DEFAULTS, known + said)
    host.put("/etc/slurm/slurm.conf", _CLIENT)
    host.start_program(["sh", "-c", _START], "/var/log/slurmd.out")
