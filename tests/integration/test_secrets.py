"""No secret in anything that is written or shown: a whole run with planted secrets, and one in which all goes wrong.

Looked through: log files, standard error and output, the answers of elastiqctl and of the control socket, every
byte of the state and run directories, and the command line of every process while it ran. Looked for: the secrets, any
part of them that is long enough to be one, and their forms in base64, URLs, XML, JSON and hexadecimal.
"""

from __future__ import annotations

import base64
import html
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Callable, Optional
from urllib.parse import quote, quote_plus
from uuid import uuid4

import boto3
import pytest

from elastiq import client
from elastiq.interfaces import SourceError
from tests.ec2_server import EC2Server, Rule, answer, cloud_at, error, intent, moto_reservations, moto_server
from tests.integration.fake_htcondor import FakePool
from tests.waiting import PATIENCE_S, until

ROOT = Path(__file__).resolve().parents[2]
PART = 12  # letters of a secret in a row are a part of it

SECRETS = {
    "secret key": "Pl4nted/Secret+Key9xQzvT7bLmW2eRfYdHs0uJ",
    "session token": "FwoGZXIvYXdzEPlantedToken//////////wEaDHx5k3mQ8tN2+vB7rS1uWcYzXf==",
    "proxy password": "planted:pr0xy/p@ss w0rd&more",
    "user data": "joinKey=planted-9f8e7d6c5b4a39281706-pool-password",
    "HTCondor token": "eyJhbGciOiJIUzI1NiIsImtpZCI6IlBPT0wifQ.eyJwbGFudGVkIjoxfQ.Zm9yLXRlc3RzLW9ubHk",
}
USER_DATA = f"#!/bin/sh\necho '{SECRETS['user data']}' > /etc/condor/passwords.d/POOL\n"

CONFIG = """\
[elastiq]
cluster_name = {cluster}
check_queue_every_s = 0.5
check_vms_every_s = 0.5
check_vms_in_error_every_s = 0.5
waiting_jobs_time_s = 0
idle_for_time_s = 0
batch_settle_s = 0
log_level = debug
log_format = {log_format}
[quota]
max_vms = 2
[ec2]
api_url = http://ec2.us-east-1.cloud.invalid/
region = us-east-1
proxy = http://squid:{proxy_password}@127.0.0.1:{port}
aws_access_key_id = AKIAPLANTED
aws_secret_access_key = {secret_key}
aws_session_token = {session_token}
image_id = ami-12c6146b
flavour = m5.small
user_data_file = worker.sh
"""

# The daemon, but what it decides with fails, and says all that it holds.
CRASHING = """
import sys
from elastiq import daemon, service
def plan_and_act(self):
    core = self.core
    pools = [vars(pool) for pool in ()] or core.settings.pools
    raise RuntimeError(f"planted fault: {core.settings!r} {pools!r} {core.clouds!r} {core.batch!r} {vars(core)!r}")
daemon.Daemon._plan_and_act = plan_and_act
sys.exit(service.main())
"""


# ------------------------------------------------------------------ looking for secrets


def forms(secret: str) -> set[str]:
    """A secret as it may have been written by a library, a shell, a URL, an XML or JSON answer, or a store."""
    raw = secret.encode()
    found = {
        secret,
        quote(secret, safe=""),
        quote(secret),
        quote_plus(secret),
        quote(quote(secret, safe=""), safe=""),
        html.escape(secret),
        json.dumps(secret)[1:-1],
        repr(secret)[1:-1],
        raw.hex(),
    }
    for before in range(3):  # base64 of a text around it: the alignment is not known, nor the letters at the ends
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            found.add(encode(b"x" * before + raw).decode().rstrip("=")[4 if before else 0 : -2])
    return found


def parts(text: str) -> set[str]:
    return {text[at : at + PART] for at in range(max(1, len(text) - PART + 1))}


def planted() -> dict[str, str]:
    """What to look for, and which secret it is."""
    whole = {**SECRETS, "user data, whole": USER_DATA, "proxy's credentials": f"squid:{SECRETS['proxy password']}"}
    innocent = parts(USER_DATA.replace(SECRETS["user data"], "\0")) | parts("echo '") | {"AAAAAAAAAAAA", "////////////"}
    return {
        part: name
        for name, secret in whole.items()
        for form in forms(secret)
        for part in parts(form)
        if part not in innocent
    }


def found_in(text: bytes, wanted: dict[str, str]) -> set[str]:
    """The names of the secrets that are in it, with what was found."""
    decoded = text.decode("utf-8", "replace")
    there = parts(decoded) | parts(decoded.replace("\n", ""))  # base64 may be wrapped
    return {f"{wanted[part]}: {part}" for part in there & wanted.keys()}


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize(
    "write",
    [
        str,
        lambda secret: secret[5:19],
        lambda secret: quote_plus(f"a={secret}"),
        lambda secret: base64.b64encode(f"{secret}\n".encode()).decode(),
        lambda secret: base64.b64encode(f"ab{USER_DATA}{secret}".encode()).decode(),
        lambda secret: base64.encodebytes(f"{secret * 3}".encode()).decode(),
        lambda secret: json.dumps({"key": [secret]}),
        lambda secret: f"<Message>{html.escape(secret)}</Message>",
        lambda secret: secret.encode().hex(),
    ],
)
def test_a_secret_would_be_found(secret: str, write: Callable[[str], str]) -> None:
    text = f"2026-01-01 INFO elastiq: something {write(SECRETS[secret])} else"
    assert found_in(text.encode(), planted())


def test_what_is_no_secret_is_not_taken_for_one() -> None:
    assert not found_in(b"RunInstances at cloud#AKIAPLANTED: AuthFailure (check the credentials)", planted())
    assert not found_in(CONFIG.encode(), planted())


# ------------------------------------------------------------------ a daemon, and all that can be seen of it


class Run:
    """A real daemon in a directory, and a watch over the command lines of all its processes."""

    def __init__(self, path: Path, server: EC2Server, log_format: str) -> None:
        self.path, self.server = path, server
        self.cluster = f"secrets-{uuid4().hex[:12]}"  # a name that no other test of this machine has just now
        self.pool = FakePool(path / "pool")
        self.socket = path / "run" / "elastiq.sock"
        self.command_lines: set[bytes] = set()
        self.shown: dict[str, bytes] = {}  # what was told to a person
        (path / "worker.sh").touch(0o600)
        (path / "worker.sh").write_text(USER_DATA)
        (path / "tokens.d").mkdir()
        (path / "tokens.d" / "elastiq").write_text(SECRETS["HTCondor token"])
        config = path / "elastiq.conf"
        config.touch(0o600)
        config.write_text(
            CONFIG.format(
                cluster=self.cluster,
                log_format=log_format,
                port=server.url.rpartition(":")[2],
                proxy_password=quote(SECRETS["proxy password"], safe=""),
                secret_key=SECRETS["secret key"],
                session_token=SECRETS["session token"],
            )
        )
        self.places = ["--config", str(config), "--logdir", str(path / "log")]
        self.places += ["--statedir", str(path / "state"), "--rundir", str(path / "run")]
        self.environment = {
            **{key: value for key, value in os.environ.items() if not key.lower().endswith("_proxy")},
            "PATH": f"{self.pool.bin}:{os.environ['PATH']}",
            "PYTHONPATH": os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH")))),
            "_CONDOR_SEC_TOKEN_DIRECTORY": str(path / "tokens.d"),
        }

    @contextmanager
    def daemon(self, *program: str) -> Iterator[subprocess.Popen[bytes]]:
        argv = [sys.executable, *(program or ("-m", "elastiq.service")), *self.places]
        with open(self.path / "stdout", "wb") as out, open(self.path / "stderr", "wb") as err:
            process = subprocess.Popen(argv, env=self.environment, stdin=subprocess.DEVNULL, stdout=out, stderr=err)
        watch = threading.Thread(target=self._watch, args=(process,), daemon=True)
        watch.start()
        try:
            yield process
        finally:
            process.kill()
            process.wait(PATIENCE_S)
            watch.join(PATIENCE_S)

    def _watch(self, process: subprocess.Popen[bytes]) -> None:
        while process.poll() is None:
            family = [process.pid]
            for pid in family:  # which grows meanwhile
                with suppress(OSError):
                    self.command_lines.add(Path(f"/proc/{pid}/cmdline").read_bytes())
                    for children in Path(f"/proc/{pid}/task").glob("*/children"):
                        family += map(int, children.read_text().split())
            time.sleep(0.03)

    def ctl(self, *words: str) -> None:
        done = self.python("-m", "elastiq", *self.places, *words)
        self.shown[f"elastiqctl {' '.join(words)} {len(self.shown)}"] = done.stdout + done.stderr

    def python(self, *words: str) -> subprocess.CompletedProcess[bytes]:
        argv, nothing = [sys.executable, *words], subprocess.DEVNULL
        return subprocess.run(argv, env=self.environment, stdin=nothing, capture_output=True, timeout=PATIENCE_S)

    def look_from_outside(self) -> None:
        """Everything that a person can ask for."""
        for words in ("status", "status --json", "conf", "log --no-follow --lines 10000", "adopt"):
            self.ctl(*words.split())
        for request in (b'{"v": 1, "verb": "status"}\n', b'{"v": 1, "verb": "nonsense"}\n', b"no JSON\n"):
            with socket.socket(socket.AF_UNIX) as asking:
                asking.settimeout(PATIENCE_S)
                asking.connect(str(self.socket))
                asking.sendall(request)
                self.shown[f"socket {request!r} {len(self.shown)}"] = asking.makefile("rb").readline()

    def status(self) -> dict[str, Any]:
        with suppress(client.NotRunning, client.NoAnswer):
            return dict(client.ask(self.socket, "status")["status"])
        return {}

    def leaks(self) -> list[str]:
        """Where a secret is, and which."""
        wanted = planted()
        texts = dict(self.shown)
        for folder in ("log", "state", "run"):
            for path in (self.path / folder).rglob("*"):
                if path.is_file():
                    texts[str(path.relative_to(self.path))] = path.read_bytes()
        for name in ("stdout", "stderr", "pool/calls"):  # `calls`: every argument of every command
            texts[name] = (self.path / name).read_bytes()
        texts |= {f"command line {number}": line for number, line in enumerate(self.command_lines)}
        assert {"log/elastiq.log", "state/elastiq.db", "stderr"} <= set(texts), "looked at nothing"
        return sorted(f"{where}: {what}" for where, text in texts.items() for what in found_in(text, wanted))


def instances() -> dict[str, tuple[str, str]]:
    """The address and the state of each that moto has, by id."""
    return {
        one.id: (one.private_ip, one._state.name)
        for region in moto_reservations()
        for reservation in region.values()
        for one in reservation.instances
    }


def all_secrets_were_used(server: EC2Server) -> bool:
    """The daemon really had them: the requests are signed, and carry them."""
    launch = server.asked("RunInstances")[0]
    headers = server.headers[0]
    proxy = base64.b64encode(f"squid:{SECRETS['proxy password']}".encode()).decode()
    return (
        base64.b64decode(launch["UserData"]).decode() == USER_DATA
        and headers["X_AMZ_SECURITY_TOKEN"] == SECRETS["session token"]
        and headers["PROXY_AUTHORIZATION"] == f"Basic {proxy}"
    )


# ------------------------------------------------------------------ the runs


@pytest.fixture
def moto() -> Iterator[EC2Server]:
    server = moto_server()
    for reservations in moto_reservations():
        reservations.clear()
    yield server
    server.close()


def add_other_heads_instance(server: EC2Server, cluster: str) -> str:
    keys = {"aws_access_key_id": "a", "aws_secret_access_key": "b"}
    ec2 = boto3.client("ec2", region_name="us-east-1", endpoint_url=server.url, **keys)
    made = ec2.run_instances(ImageId="ami-12c6146b", MinCount=1, MaxCount=1)
    name = str(made["Instances"][0]["InstanceId"])
    tags = {"elastiq:cluster": cluster, "elastiq:head": "f" * 64}
    ec2.create_tags(Resources=[name], Tags=[{"Key": key, "Value": value} for key, value in tags.items()])
    server.forget()
    return name


def test_a_whole_run_shows_no_secret(tmp_path: Path, moto: EC2Server) -> None:
    """From the launch to the end of a machine. Beside it is one of another head node of the same cluster: it is
    named, and not touched."""
    run = Run(tmp_path, moto, "text")
    other = add_other_heads_instance(moto, run.cluster)
    with run.daemon() as daemon:
        run.pool.submit(1)
        until(lambda: len(instances()) == 2, "a launch")
        (ours,) = set(instances()) - {other}
        run.look_from_outside()
        run.pool.add_worker("w1", instances()[ours][0])
        run.pool.load()["jobs"].clear()
        run.pool.save()
        until(lambda: instances()[ours][1] == "terminated", "the idle machine's end")
        assert any(other in notice for notice in run.status()["notices"]), "the other head's instance is named"
        os.kill(daemon.pid, signal.SIGHUP)  # the file is read and told again
        until(lambda: b"configuration reloaded" in (tmp_path / "log/elastiq.log").read_bytes(), "the reload")
        run.look_from_outside()
        daemon.terminate()
        assert daemon.wait(PATIENCE_S) == 0
    assert all_secrets_were_used(moto)
    assert run.pool.calls("condor_drain") and len(run.command_lines) > 1, "commands were run, and seen"
    assert run.leaks() == []
    assert instances()[other][1] == "running"
    assert other not in str(moto.asked("TerminateInstances"))


def echo(environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
    """A cloud, or what stands before it, that fails in all ways and quotes what it was sent and what it knows."""
    body = environ["wsgi.input"].read().decode()
    headers = "; ".join(f"{key[5:]}: {value}" for key, value in environ.items() if key.startswith("HTTP_"))
    text = f"{body} {headers} signed with {SECRETS['secret key']} by {SECRETS['proxy password']} for {USER_DATA}"
    echo_count[0] += 1
    rules = (
        error("AuthFailure", text, 401),
        error("UnauthorizedOperation", f"Encoded authorization failure message: {text}", 403),
        error("InternalError", text, 500),
        error(text[:300], "the code is strange", 400),
        error("InvalidParameterValue", f"Value ({text}) is invalid", 400),
        Rule(f"<html><body>Bad gateway: {html.escape(text)}</body></html>", 502),
        Rule(f"<html><body>Please log in: {html.escape(text)}</body></html>"),
        Rule(f"<Response><{text}", 200),
        Rule(text.encode()[::-1] + text.encode(), 400),
        answer("DescribeInstances", f"<reservationSet>{text}</reservationSet>"),
        error("SignatureDoesNotMatch", f"The canonical string should have been '{quote(text)}'", 403),
        error("RequestExpired", base64.b64encode(text.encode()).decode(), 400),
    )
    assert len(rules) == FAILURES
    rule = rules[echo_count[0] % len(rules)]
    data = rule.body.encode() if isinstance(rule.body, str) else rule.body
    start(f"{rule.status} X", [*rule.headers, ("Content-Length", str(len(data)))])
    return [data]


echo_count = [0]
FAILURES = 12  # as many as `echo` has


@pytest.fixture
def echoing() -> Iterator[EC2Server]:
    server = EC2Server(echo)
    yield server
    server.close()


@pytest.mark.parametrize("program", [None, CRASHING], ids=["failures", "a fault of our own"])
def test_a_run_in_which_all_fails_shows_no_secret(tmp_path: Path, echoing: EC2Server, program: Optional[str]) -> None:
    """The cloud's answers quote the secrets, commands fail, the decisions crash, and the watchdog ends the process."""
    run = Run(tmp_path, echoing, "json")
    run.pool.submit(3)
    for kind in ("jobs", "workers", "schedds"):
        run.pool.once(kind, "fail")
    if program is None:  # a site is launched at when it was listed
        empty = answer("DescribeInstances", "<reservationSet/>")
        echoing.script("DescribeInstances", *[empty] * 6)
    with run.daemon(*(("-c", program) if program else ())) as daemon:
        until(lambda: run.status(), "an answer")
        if program is None:
            until(lambda: echoing.asked("RunInstances"), "a launch that fails")
            until(lambda: len(echoing.asked("DescribeInstances")) > 26, "listings that fail in many ways")
        else:
            until(lambda: len(echoing.asked("DescribeInstances")) > 14, "listings that fail in many ways")
            until(lambda: run.status().get("faults"), "the planted fault")
        run.look_from_outside()
        daemon.send_signal(signal.SIGABRT)  # as systemd's watchdog: every thread's traceback is written
        # or by what Python's own dump meets in a thread that goes on meanwhile
        assert daemon.wait(PATIENCE_S) in (-signal.SIGABRT, -signal.SIGSEGV)
    assert b"Fatal Python error" in (tmp_path / "stderr").read_bytes()
    if program:
        assert b"planted fault" in (tmp_path / "log/elastiq.log").read_bytes()
    else:
        assert all_secrets_were_used(echoing)
    assert run.leaks() == []


@pytest.mark.parametrize("call", ["instances", "launch", "terminate", "adopt", "problems", "find", "checks"])
def test_no_exception_of_the_plugin_holds_a_secret(
    echoing: EC2Server, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    """Not in its text, its arguments, its causes or its traceback, for each way in which a call can fail."""
    keys = {"aws_secret_access_key": SECRETS["secret key"], "aws_session_token": SECRETS["session token"]}
    proxy = f"http://squid:{quote(SECRETS['proxy password'], safe='')}@{echoing.url.rpartition('/')[2]}"
    arguments = {"instances": frozenset(), "launch": intent(), "find": intent()}.get(call, ["i-1", "i-2"])
    told: list[str] = []
    monkeypatch.setattr("botocore.retries.standard.ExponentialBackoff.delay_amount", lambda *_: 0)
    made = cloud_at("http://ec2.cloud.invalid/", proxy=proxy, user_data=USER_DATA.encode(), **keys)
    for _ in range(FAILURES):
        cloud = cloud_at("http://ec2.cloud.invalid/", proxy=proxy, user_data=USER_DATA.encode(), **keys)
        cloud._client = made._client  # which takes long to make
        act: Any = getattr(cloud, call)
        for asked in cloud.checks().values() if call == "checks" else [partial(act, arguments)]:
            try:
                answered: Any = asked()
                told.append(repr(list(answered) if call == "checks" else answered))
            except SourceError as failure:
                told += [repr(failure), *traceback.format_exception(type(failure), failure, failure.__traceback__)]
                told.append(repr((failure.args, vars(failure), failure.__cause__, failure.__suppress_context__)))
    assert len(echoing.requests) >= FAILURES and len(told) >= FAILURES
    assert found_in("\n".join([*told, caplog.text, repr(vars(cloud))]).encode(), planted()) == set()


def test_what_is_wrong_with_a_secret_is_told_without_it(tmp_path: Path, moto: EC2Server) -> None:
    """Mistakes in the configuration, right beside the secrets."""
    run = Run(tmp_path, moto, "text")
    config = tmp_path / "elastiq.conf"
    good = config.read_text()
    bad = {
        "the key of the key": good.replace("aws_access_key_id = AKIAPLANTED\n", ""),
        "a name that is none": good.replace("aws_secret_access_key =", "aws_secret_acces_key ="),
        "no equals sign": good.replace("aws_session_token = ", ""),
        "base64 that is none": good.replace("user_data_file = worker.sh", f"user_data_b64 = {SECRETS['user data']}!"),
        "a file that is none": good.replace("user_data_file = worker.sh", f"user_data_file = {USER_DATA[:20].strip()}"),
        "twice": f"{good}aws_secret_access_key = {SECRETS['secret key']}\n",
    }
    for name, text in bad.items():
        config.write_text(text)
        done = run.python("-m", "elastiq.service", *run.places)
        assert done.returncode == 78, (name, done.stderr)
        run.shown[name] = done.stdout + done.stderr
    run.ctl("start")
    run.ctl("conf")
    assert [f"{where}: {what}" for where, text in run.shown.items() for what in found_in(text, planted())] == []
