"""Credentials that expired, and clocks that are wrong: what a person is told, and how what was renewed is taken up."""

from __future__ import annotations

import json
import re
import sys
import threading
import time
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest
from werkzeug.serving import make_server

from elastiq.interfaces import AuthError, SourceError
from tests.ec2_server import EC2Server, Rule, answer, cloud_at, error, instances, intent
from tests.integration.ec2_answers import MADE, NONE

NO_KEYS: dict[str, Any] = {"aws_access_key_id": None, "aws_secret_access_key": None}
EXPIRED = error("RequestExpired", "Request has expired.")
HINT = "(check the credentials, their rights and the head node's clock)"


@pytest.fixture(autouse=True)
def no_keys_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE", "BOTO_CONFIG"):
        monkeypatch.setenv(name, "/nonexistent")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


@pytest.fixture
def server(bare: EC2Server) -> EC2Server:
    return bare


def keys_used(server: EC2Server) -> list[str]:
    return [headers["AUTHORIZATION"].partition("Credential=")[2].partition("/")[0] for headers in server.headers]


def write(path: Path, key: str, profile: str = "default") -> None:
    """A file of credentials for a while, as tools renew them."""
    lines = (f"[{profile}]", f"aws_access_key_id={key}", f"aws_secret_access_key={key}S", f"aws_session_token={key}T")
    path.write_text("\n".join(lines) + "\n")


# --------------------------------------------------------------------------- what is told


@pytest.mark.parametrize(
    ("code", "message", "status"),
    [
        ("RequestExpired", "Request has expired.", 400),
        ("ExpiredToken", "The security token included in the request is expired", 400),
        ("ExpiredTokenException", "The security token included in the request is expired", 403),
        ("AuthFailure", "AWS was not able to validate the provided access credentials", 401),
        ("SignatureDoesNotMatch", "Signature not yet current: 20260101T000000Z is still later than 20251231T", 403),
        ("RequestTimeTooSkewed", "The difference between the request time and the current time is too large.", 403),
        ("InvalidSignatureException", "Signature expired: 20260101T000000Z is now earlier than 20260101T", 403),
        ("RequestInTheFuture", "", 400),
        ("InvalidClientTokenId", "The security token included in the request is invalid", 403),
    ],
)
def test_expired_keys_and_wrong_clocks_are_told_as_such_and_asked_once(
    server: EC2Server, code: str, message: str, status: int
) -> None:
    refusal = error(code, message, status)
    server.script("DescribeInstances", refusal)
    server.script("DescribeImages", answer("DescribeImages", "<imagesSet/>"))
    server.script("RunInstances", refusal, MADE)
    cloud = cloud_at(server.url)
    with pytest.raises(AuthError) as read:
        cloud.instances(NONE)
    with pytest.raises(AuthError) as launch:
        cloud.launch(intent())
    assert launch.value.launched_nothing
    assert str(read.value) == f"DescribeInstances at site: {code}: {message.rstrip('.')} {HINT}".replace(
        ":  (", " (HTTP 400) ("
    )
    assert len(server.requests) == 3, "neither without pages, nor a launch again"


def dated(date: str, message: str = "AWS was not able to validate the provided access credentials") -> Rule:
    """A refusal with this Date (werkzeug would add its own)."""
    body = str(error("AuthFailure", message).body)
    head = f"HTTP/1.1 401 X\r\nDate: {date}\r\nContent-Type: text/xml\r\nContent-Length: {len(body)}\r\n\r\n"
    return Rule(pieces=lambda: [head.encode(), body.encode()])


@pytest.mark.parametrize(("off_s", "word"), [(900, "fast"), (-900, "slow")])
def test_a_wrong_clock_is_told_with_how_wrong_it_is(server: EC2Server, off_s: int, word: str) -> None:
    cloud = cloud_at(server.url)
    server.script("DescribeInstances", dated(formatdate(time.time() - off_s, usegmt=True)))
    with pytest.raises(AuthError) as caught:
        cloud.instances(NONE)
    assert re.search(
        rf"credentials; by the cloud's clock, this machine's is (89|90)\d s {word} \(check the cred", str(caught.value)
    )


def test_a_wrong_clock_is_told_where_the_cloud_gives_no_reason(server: EC2Server) -> None:
    server.script("DescribeInstances", dated(formatdate(time.time() + 86400, usegmt=True), ""))
    with pytest.raises(AuthError, match=r"AuthFailure: by the cloud's clock, this machine's is 86\d{3} s slow \(check"):
        cloud_at(server.url).instances(NONE)


@pytest.mark.parametrize("date", ["", "yesterday", "right"])
def test_a_clock_that_is_right_or_that_nobody_tells_is_not_spoken_of(server: EC2Server, date: str) -> None:
    # Made here: the tests are collected long before this one runs.
    server.script("DescribeInstances", dated(formatdate(time.time() + 20, usegmt=True) if date == "right" else date))
    with pytest.raises(AuthError) as caught:
        cloud_at(server.url).instances(NONE)
    assert "clock, this" not in str(caught.value) and str(caught.value).endswith(HINT)


# --------------------------------------------------------------------------- what was renewed


@pytest.mark.parametrize("profile", [None, "cms"])
def test_credentials_that_were_renewed_in_their_file_are_taken_up_without_a_restart(
    server: EC2Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, profile: str | None
) -> None:
    file = tmp_path / "credentials"
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(file))
    write(file, "AKIAOLD", profile or "default")
    cloud = cloud_at(server.url, **NO_KEYS, profile=profile)
    server.script("DescribeInstances", instances(), EXPIRED, instances())
    cloud.instances(NONE)
    write(file, "AKIANEW", profile or "default")
    with pytest.raises(AuthError):
        cloud.instances(NONE)
    cloud.instances(NONE)
    assert keys_used(server) == ["AKIAOLD", "AKIAOLD", "AKIANEW"]
    assert server.headers[-1]["X_AMZ_SECURITY_TOKEN"] == "AKIANEWT"


# --------------------------------------------------------------------------- a file of keys that is named


@pytest.mark.parametrize("profile", [None, "cms"])
def test_a_file_of_keys_goes_before_those_of_the_environment(
    server: EC2Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, profile: str | None
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAOTHER")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "other")
    file = tmp_path / "elastiq-aws"
    write(file, "AKIAFILE", profile or "default")
    server.script("DescribeInstances", instances())
    cloud_at(server.url, **NO_KEYS, credentials_file=str(file), profile=profile).instances(NONE)
    assert keys_used(server) == ["AKIAFILE"]
    assert server.headers[-1]["X_AMZ_SECURITY_TOKEN"] == "AKIAFILET"


def test_a_file_of_keys_without_the_profile_is_told_and_nothing_else_is_tried(
    server: EC2Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAOTHER")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "other")
    file = tmp_path / "elastiq-aws"
    write(file, "AKIAFILE", "cms")
    with pytest.raises(SourceError, match=r"profile \(default\) could not be found") as caught:
        cloud_at(server.url, **NO_KEYS, credentials_file=str(file)).instances(NONE)
    assert not server.requests and "AKIAFILE" not in str(caught.value)


def test_a_launch_that_was_refused_for_its_keys_has_the_new_ones_next_time(
    server: EC2Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "credentials"
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(file))
    write(file, "AKIAOLD")
    cloud = cloud_at(server.url, **NO_KEYS)
    server.script("DescribeImages", *[answer("DescribeImages", "<imagesSet/>")] * 2)
    server.script("RunInstances", EXPIRED, MADE)
    with pytest.raises(AuthError):
        cloud.launch(intent())
    write(file, "AKIANEW")
    assert [one.id for one in cloud.launch(intent(name="i2"))] == ["i-1"]
    assert keys_used(server)[-1] == "AKIANEW"
    assert len(server.asked("RunInstances")) == 2


def test_credentials_that_come_after_the_start_are_taken_up(
    server: EC2Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "credentials"
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(file))
    cloud = cloud_at(server.url, **NO_KEYS)
    with pytest.raises(AuthError, match="NoCredentialsError"):
        cloud.instances(NONE)
    write(file, "AKIALATE")
    server.script("DescribeInstances", instances())
    cloud.instances(NONE)
    assert keys_used(server) == ["AKIALATE"]


def test_credentials_of_a_process_are_renewed_before_they_expire(
    server: EC2Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    count, script, config = tmp_path / "count", tmp_path / "keys.py", tmp_path / "config"
    script.write_text(
        "import json, sys, datetime, pathlib\n"
        "count = pathlib.Path(sys.argv[1])\n"
        "n = int(count.read_text()) + 1 if count.exists() else 1\n"
        "count.write_text(str(n))\n"
        "until = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=60 if n == 1 else 7200)\n"
        "keys = dict(AccessKeyId=f'AKIA{n}', SecretAccessKey='x', Expiration=until.isoformat())\n"
        "print(json.dumps(dict(Version=1, **keys)))\n"
    )
    config.write_text(f"[default]\ncredential_process = {sys.executable} -I {script} {count}\n")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(config))
    cloud = cloud_at(server.url, **NO_KEYS)
    server.script("DescribeInstances", *[instances()] * 3)
    for _ in range(3):
        cloud.instances(NONE)
    assert keys_used(server)[-1] == "AKIA2", "a minute is less than botocore's least (10 minutes)"
    assert int(count.read_text()) <= 3, "one for each client at most, and one that lasts"


class Metadata:
    """The metadata service of a head node that has a role: IMDS version 2."""

    def __init__(self) -> None:
        self.key, self.dead = "AKIAROLE1", False
        self.server = make_server("127.0.0.1", 0, self.answer, threaded=True)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def answer(self, environ: dict[str, Any], start: Any) -> list[bytes]:
        path = environ["PATH_INFO"]
        body = "a-token" if path.endswith("/api/token") else "the-role"
        if path.endswith("/the-role"):
            until = datetime.now(timezone.utc) + timedelta(hours=6)
            keys = {"Code": "Success", "AccessKeyId": self.key, "SecretAccessKey": "x", "Token": self.key + "T"}
            body = json.dumps({**keys, "Type": "AWS-HMAC", "Expiration": f"{until:%Y-%m-%dT%H:%M:%SZ}"})
        start("503 X" if self.dead else "200 OK", [("Content-Type", "text/plain")])
        return [body.encode()]


@pytest.fixture
def metadata(monkeypatch: pytest.MonkeyPatch) -> Iterator[Metadata]:
    service = Metadata()
    monkeypatch.delenv("AWS_EC2_METADATA_DISABLED")
    monkeypatch.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", f"{service.url}/")  # botocore 1.23 adds no slash
    yield service
    service.server.shutdown()
    service.server.server_close()


def test_the_keys_of_the_head_nodes_role_are_used_and_taken_anew_where_they_were_revoked(
    server: EC2Server, metadata: Metadata
) -> None:
    cloud = cloud_at(server.url, **NO_KEYS)
    server.script("DescribeInstances", instances(), error("ExpiredToken"), instances())
    cloud.instances(NONE)
    metadata.key = "AKIAROLE2"
    with pytest.raises(AuthError):
        cloud.instances(NONE)
    cloud.instances(NONE)
    assert keys_used(server) == ["AKIAROLE1", "AKIAROLE1", "AKIAROLE2"]
    assert server.headers[-1]["X_AMZ_SECURITY_TOKEN"] == "AKIAROLE2T"


def test_a_metadata_service_that_is_away_is_no_answer_and_asked_again(server: EC2Server, metadata: Metadata) -> None:
    metadata.dead = True
    cloud = cloud_at(server.url, **NO_KEYS)
    with pytest.raises(AuthError, match="NoCredentialsError"):
        cloud.instances(NONE)
    metadata.dead = False
    server.script("DescribeInstances", instances())
    cloud.instances(NONE)
    assert keys_used(server) == ["AKIAROLE1"]
