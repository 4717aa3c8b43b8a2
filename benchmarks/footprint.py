#!/usr/bin/env python3
"""What a daemon costs the head node: memory with and without its extras, and processor time while nothing happens.

    python3 benchmarks/footprint.py            in less than a minute
    python3 benchmarks/footprint.py --real     the processor time of ten real minutes

Memory (VmRSS, MB): the daemon of benchmarks/daemon.py, alone, with metrics that are scraped, with the page that is
looked at, with a hook, and with all of them. One that does not start, or serves nothing, fails the benchmark.

Processor time (user and system of the daemon's process and all its threads, from /proc/PID/stat): 100 idle machines
that min_vms keeps, an empty queue, an EC2 API over HTTP, HTCondor's commands as scripts. With --real at the default
periods for ten minutes. Without, all periods (also the loop's longest pause and the heartbeat) are shortened by
FASTER: so many reads as in ten minutes come in a few seconds, and their cost is divided by ten minutes. Both ways gave
0.16 % where they were compared. What the commands themselves take is not elastiq's and printed beside it; these
scripts take less than the real ones.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Callable, Iterator
from urllib.parse import parse_qs

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.daemon import CONFIG, command, fake_condor, moto  # noqa: E402
from benchmarks.memory import machine  # noqa: E402
from elastiq.identity import owner  # noqa: E402

GOAL_MB = 45.0  # of the daemon alone
GOAL_PERCENT = 0.5  # of one core
NODES = 100
WINDOW_S = 600.0
FASTER = 40.0
PERIODS_S = {"queue": 15.0, "vms": 45.0, "errors": 20.0, "sleep": 5.0}  # the defaults
READS = 10  # of the queue, in which nothing new is said

EXTRAS = {
    "core": "",
    "+ metrics": "[metrics]\nlisten = 127.0.0.1:{port}\n",
    "+ web": "[web]\nlisten = 127.0.0.1:{port}\n",
    "+ hooks": "[hooks]\non_launch = /bin/true\n",
}
VISITED = {"+ metrics": "/metrics", "+ web": "/"}

IDLE = """\
[elastiq]
cluster_name = idle
check_queue_every_s = {queue}
check_vms_every_s = {vms}
check_vms_in_error_every_s = {errors}
sleep_s = {sleep}
batch_settle_s = 1
[quota]
min_vms = 100
max_vms = 100
[ec2]
api_url = {url}
region = us-east-1
aws_access_key_id = A
aws_secret_access_key = S
image_id = ami-12345678
flavour = c5.xlarge
cpus = 4
memory_mb = 8000
dialect = aws
"""
DAEMON = """
import sys
from elastiq import daemon, service
from elastiq.plugins.batch import htcondor
htcondor.has_bindings = lambda: False  # as on a head node without them
daemon.HEARTBEAT_S /= float(sys.argv.pop(1))
sys.exit(service.main(sys.argv[1:]))
"""


def wait_for(condition: Callable[[], object], what: str, limit_s: float = 90.0) -> None:
    deadline = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < deadline, f"not within {limit_s:g} s: {what}"
        time.sleep(0.1)


# --------------------------------------------------------------------------- memory


def memory(folder: Path) -> dict[str, float]:
    """Of a daemon with each of the extras and one with all, beside each other; MB."""
    wanted = [*([name] for name in EXTRAS), list(EXTRAS)]
    ports = iter(free_ports(sum(map(len, wanted))))
    with moto() as site, ThreadPoolExecutor(len(wanted)) as threads:
        found = {}
        for number, extras in enumerate(wanted):
            place = folder / f"memory-{number}"
            place.mkdir()
            fake_condor(place)
            config, urls = CONFIG.format(port=site).replace("= benchmark", f"= footprint-{number}"), []
            for extra, port in zip(extras, ports):
                config += EXTRAS[extra].format(port=port)
                urls += [f"http://127.0.0.1:{port}{VISITED[extra]}"] if extra in VISITED else []
            name = extras[0] if len(extras) == 1 else "+ all of them"
            found[name] = threads.submit(measured, place, config, urls)
        return {name: future.result() for name, future in found.items()}


def measured(place: Path, config: str, urls: list[str]) -> float:
    """MB of a daemon after many reads, whose pages are looked at."""
    log, asked = place / "log", place / "asked"
    (place / "condor_q").write_text(f"#!/bin/sh\necho >>{asked}\nexec cat {place}/jobs\n")
    with running(place, config, 1.0) as pid:
        wait_for(lambda: re.search(r" i-\w+ \(", log.read_text()), f"a launch:\n{log}")
        for url in urls * 3:
            with urllib.request.urlopen(url, timeout=60) as answer:
                assert answer.read(), url
        wait_for(lambda: asked.stat().st_size >= READS, "many reads")
        return resident(pid)


@contextlib.contextmanager
def running(place: Path, config: str, faster: float) -> Iterator[int]:
    """The process id of a daemon; what it says is in the file log."""
    argv, environment = command(place, config, DAEMON, str(faster))
    with open(place / "log", "w") as sink:
        process = subprocess.Popen(argv, env=environment, stdout=sink, stderr=sink)
    try:
        yield process.pid
    except BaseException:
        print((place / "log").read_text()[-3000:], file=sys.stderr)
        raise
    finally:
        process.terminate()
        process.wait(30)


def free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [int(one.getsockname()[1]) for one in sockets]


# --------------------------------------------------------------------------- processor time


ITEM = """<item><instanceId>i-{n:017x}</instanceId><imageId>ami-12345678</imageId><instanceState><code>16</code>
<name>running</name></instanceState><privateDnsName>ip-10-9-0-{n}.ec2.internal</privateDnsName><dnsName/><reason/>
<keyName>key</keyName><amiLaunchIndex>{n}</amiLaunchIndex><productCodes/><instanceType>c5.xlarge</instanceType>
<launchTime>2026-01-01T00:00:00.000Z</launchTime><placement><availabilityZone>us-east-1a</availabilityZone><groupName/>
<tenancy>default</tenancy></placement><monitoring><state>disabled</state></monitoring><subnetId>subnet-1</subnetId>
<vpcId>vpc-1</vpcId><privateIpAddress>10.9.0.{n}</privateIpAddress><sourceDestCheck>true</sourceDestCheck>
<groupSet><item><groupId>sg-1</groupId><groupName>workers</groupName></item></groupSet><architecture>x86_64</architecture>
<rootDeviceType>ebs</rootDeviceType><rootDeviceName>/dev/xvda</rootDeviceName><blockDeviceMapping><item>
<deviceName>/dev/xvda</deviceName><ebs><volumeId>vol-{n:017x}</volumeId><status>attached</status>
<attachTime>2026-01-01T00:00:01.000Z</attachTime><deleteOnTermination>true</deleteOnTermination></ebs></item>
</blockDeviceMapping><virtualizationType>hvm</virtualizationType><clientToken>token-{n}</clientToken><tagSet>
<item><key>elastiq:cluster</key><value>idle</value></item><item><key>elastiq:head</key><value>{head}</value></item>
<item><key>elastiq:pool</key><value>ec2</value></item><item><key>elastiq:intent</key><value>intent{n}</value></item>
<item><key>Name</key><value>idle-worker</value></item></tagSet><hypervisor>xen</hypervisor><networkInterfaceSet><item>
<networkInterfaceId>eni-{n:017x}</networkInterfaceId><subnetId>subnet-1</subnetId><vpcId>vpc-1</vpcId><description/>
<ownerId>123456789012</ownerId><status>in-use</status><macAddress>02:00:00:00:00:{n:02x}</macAddress>
<privateIpAddress>10.9.0.{n}</privateIpAddress><sourceDestCheck>true</sourceDestCheck><groupSet><item>
<groupId>sg-1</groupId><groupName>workers</groupName></item></groupSet><attachment>
<attachmentId>eni-attach-{n:017x}</attachmentId><deviceIndex>0</deviceIndex><status>attached</status>
<attachTime>2026-01-01T00:00:00.000Z</attachTime><deleteOnTermination>true</deleteOnTermination></attachment>
<privateIpAddressesSet><item><privateIpAddress>10.9.0.{n}</privateIpAddress><primary>true</primary></item>
</privateIpAddressesSet></item></networkInterfaceSet><ebsOptimized>false</ebsOptimized></item>
"""


def serve(head: str) -> None:
    """An EC2 API that lists NODES running machines of a head node, whatever is asked; prints its URL."""
    items = "".join(ITEM.format(n=n, head=head) for n in range(1, NODES + 1))
    listed = f"<reservationSet><item><instancesSet>{items}</instancesSet></item></reservationSet>"
    answers = {"DescribeInstances": listed, "DescribeInstanceStatus": "<instanceStatusSet/>"}

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"  # as EC2, which keeps connections open

        def do_POST(self) -> None:
            asked = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
            action = asked["Action"][0]
            xmlns = "http://ec2.amazonaws.com/doc/2016-11-15/"
            text = f'<{action}Response xmlns="{xmlns}"><requestId>1</requestId>{answers[action]}</{action}Response>'
            self.send_response(200)
            self.send_header("Content-Type", "text/xml")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    print(f"http://127.0.0.1:{server.server_port}/", flush=True)
    server.serve_forever()


@contextlib.contextmanager
def site(head: str) -> Iterator[str]:
    """The URL of that API, in a process of its own."""
    program = f"from benchmarks.footprint import serve; serve({head!r})"
    argv, environment = [sys.executable, "-c", program], {**os.environ, "PYTHONPATH": str(ROOT)}
    server = subprocess.Popen(argv, env=environment, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    try:
        yield server.stdout.readline().strip()
    finally:
        server.kill()
        server.wait()


def idle_condor(folder: Path) -> None:
    """An empty queue, and an idle worker on each of the machines. Each call of condor_q leaves a mark."""
    fake_condor(folder)
    slots = [
        {
            "MyType": "Machine", "Name": f"slot1@w{n}", "Machine": f"w{n}", "State": "Unclaimed", "Activity": "Idle",
            "SlotType": "Partitionable", "PartitionableSlot": True, "Cpus": 4, "Memory": 8000, "TotalSlotCpus": 4,
            "TotalSlotMemory": 8000, "NumDynamicSlots": 0, "MyAddress": f"<10.9.0.{n}:9618>", "JobStarts": 3,
            "DaemonStartTime": int(time.time()) - 10,
        }
        for n in range(1, NODES + 1)
    ]  # fmt: skip
    pool = [{"MyType": "Collector", "Name": "c", "StatsLifetime": 100000}, *slots]
    (folder / "slots").write_text(json.dumps(slots))
    (folder / "pool").write_text(json.dumps(pool))
    (folder / "condor_q").write_text(f"#!/bin/sh\necho >>{folder}/asked\n")


def percent(folder: Path, faster: float) -> tuple[float, float, float, float]:
    """Of one core, in ten minutes at the default periods: the daemon and its commands, both in percent; its memory
    in MB, and how many reads of the queue there were."""
    idle_condor(folder)
    asked, log = folder / "asked", folder / "log"
    periods = {name: round(seconds / faster, 3) for name, seconds in PERIODS_S.items()}
    with site(owner("idle", folder).head) as url, running(folder, IDLE.format(url=url, **periods), faster) as pid:
        wait_for(lambda: log.read_text().count(" -> idle: ") == NODES, "all machines at work")
        wait_for(lambda: asked.exists() and asked.stat().st_size > 2, "the queue read")
        time.sleep(3.0)
        lines, reads, before = len(log.read_text().splitlines()), asked.stat().st_size, seconds_of(pid)
        time.sleep(WINDOW_S / faster)
        own, of_commands = (now - then for now, then in zip(seconds_of(pid), before))
        reads = asked.stat().st_size - reads
        said = log.read_text().splitlines()[lines:]
        megabytes = resident(pid)
    assert not said, f"an idle daemon said something: {said[:5]}"
    return own / WINDOW_S * 100, of_commands / WINDOW_S * 100, megabytes, reads


def seconds_of(pid: int) -> tuple[float, float]:
    """Processor time so far: of a process, and of its children that have ended (proc_pid_stat(5))."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    ticks = os.sysconf("SC_CLK_TCK")
    return (int(fields[11]) + int(fields[12])) / ticks, (int(fields[13]) + int(fields[14])) / ticks


def resident(pid: int) -> float:
    """MB of a process."""
    found = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
    assert found is not None
    return int(found[1]) / 1000


def main() -> int:
    began = time.monotonic()
    real = "--real" in sys.argv[1:]
    print(f"{machine()}; Python {sys.version.split()[0]}")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "idle").mkdir()
        figures = {} if real else memory(folder)
        own, of_commands, megabytes, reads = percent(folder / "idle", 1.0 if real else FASTER)
    for what, rss in figures.items():
        print(f"{rss:6.1f} MB resident  {what if what == 'core' else f'core {what}'}")
    print(f"{megabytes:6.1f} MB resident  core with {NODES} machines")
    way = "ten real minutes" if real else f"{WINDOW_S / FASTER:g} s with all periods {FASTER:g} times shorter"
    print(f"{own:6.2f} %  of one core: {NODES} idle machines, default periods ({way}, {reads} reads of the queue)")
    print(f"{of_commands:6.2f} %  of one core: the commands that it ran, which are scripts here")
    expected = WINDOW_S / 15
    too_few = reads < 0.7 * expected
    if too_few:
        print(f"MISSED: {expected:.0f} reads of the queue were to come, the machine is too busy for this measurement")
    verdicts = {f"idle at most {GOAL_PERCENT:g} % of one core": own <= GOAL_PERCENT}
    if figures:
        verdicts[f"core at most {GOAL_MB:g} MB"] = figures["core"] <= GOAL_MB
    for goal, reached in verdicts.items():
        print(f"goal: {goal}: {'reached' if reached else 'MISSED'}")
    print(f"{time.monotonic() - began:.0f} s")
    return 0 if all(verdicts.values()) and not too_few else 1


if __name__ == "__main__":
    sys.exit(main())
