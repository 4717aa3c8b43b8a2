"""A proxy between us and the cloud: by key or by environment, with a password, and when it says no."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from elastiq.interfaces import AuthError, SourceError, TransientError
from tests.ec2_server import EC2Server, answer, cloud_at, instances, intent
from tests.integration.certificates import Authority
from tests.integration.ec2_answers import MADE, NONE
from tests.integration.proxies import Proxy
from tests.waiting import PATIENCE_S

PASSWORD = "PLANTED/pass%word"
IN_URL = "PLANTED%2Fpass%25word"
HINT = "(check proxy, its user name and its password)"


@pytest.fixture(autouse=True)
def no_proxy_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    running = Proxy()
    yield running
    running.close()


@pytest.fixture
def guarded() -> Iterator[Proxy]:
    running = Proxy("elastiq", PASSWORD)
    yield running
    running.close()


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def both(authority: Authority) -> Iterator[dict[str, EC2Server]]:
    servers = {"http": EC2Server(), "https": EC2Server(tls=authority.server("127.0.0.1"))}
    yield servers
    for server in servers.values():
        server.close()


@pytest.fixture(params=["http", "https"])
def server(both: dict[str, EC2Server], request: pytest.FixtureRequest) -> EC2Server:
    found = both[request.param]
    found.forget()
    found.script("DescribeInstances", *[instances()] * 3)
    found.script("DescribeImages", answer("DescribeImages", "<imagesSet/>"))
    found.script("RunInstances", MADE)
    return found


def way(server: EC2Server) -> str:
    """What the proxy is asked for one request to this server."""
    return f"CONNECT {server.url[8:]}" if server.tls else f"POST {server.url}/"


# --------------------------------------------------------------------------- there is a way


def test_the_proxy_of_the_configuration_is_used(server: EC2Server, proxy: Proxy, authority: Authority) -> None:
    cloud = cloud_at(server.url, proxy=f"http://{proxy.address}", ca_bundle=authority.bundle)
    assert cloud.instances(NONE).owned == ()
    assert [one.id for one in cloud.launch(intent())] == ["i-1"]
    assert set(proxy.asked) == {way(server)}
    assert len(server.asked("RunInstances")) == 1


@pytest.mark.parametrize("lower", [False, True])
def test_the_proxy_of_the_environment_is_used(
    server: EC2Server, proxy: Proxy, authority: Authority, monkeypatch: pytest.MonkeyPatch, lower: bool
) -> None:
    name = "HTTPS_PROXY" if server.tls else "HTTP_PROXY"
    monkeypatch.setenv(name.lower() if lower else name, f"http://{proxy.address}")
    assert cloud_at(server.url, ca_bundle=authority.bundle).instances(NONE).owned == ()
    assert proxy.asked == [way(server)]


@pytest.mark.parametrize("exempt", ["127.0.0.1", "example.org, 127.0.0.1", "*"])
def test_what_no_proxy_names_is_asked_directly(
    server: EC2Server, proxy: Proxy, authority: Authority, monkeypatch: pytest.MonkeyPatch, exempt: str
) -> None:
    for name in ("HTTPS_PROXY", "HTTP_PROXY"):
        monkeypatch.setenv(name, f"http://{proxy.address}")
    monkeypatch.setenv("NO_PROXY", exempt)
    assert cloud_at(server.url, ca_bundle=authority.bundle).instances(NONE).owned == ()
    assert proxy.asked == [] and len(server.requests) == 1


def test_the_configuration_outweighs_the_environment(
    server: EC2Server, proxy: Proxy, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTPS_PROXY", "HTTP_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    cloud = cloud_at(server.url, proxy=f"http://{proxy.address}", ca_bundle=authority.bundle)
    assert cloud.instances(NONE).owned == ()
    assert proxy.asked == [way(server)]


def test_a_proxy_gets_the_password_of_its_url(server: EC2Server, guarded: Proxy, authority: Authority) -> None:
    cloud = cloud_at(server.url, proxy=f"http://elastiq:{IN_URL}@{guarded.address}", ca_bundle=authority.bundle)
    assert cloud.instances(NONE).owned == ()
    assert len(guarded.asked) == len(server.requests) == 1
    assert "PROXY_AUTHORIZATION" not in server.headers[0], "it is not the cloud's to know"


# --------------------------------------------------------------------------- there is none


def refusals(server: EC2Server, url: str | None) -> tuple[SourceError, SourceError]:
    """What a read and a launch say; neither came to the cloud."""
    cloud = cloud_at(server.url, proxy=url)
    with pytest.raises(SourceError) as read:
        cloud.instances(NONE)
    with pytest.raises(SourceError) as launch:
        cloud.launch(intent())
    assert server.requests == []
    for said in (str(read.value), str(launch.value), repr(read.value), repr(launch.value)):
        assert "\n" not in said
        for secret in (PASSWORD, IN_URL, "PLANTED", "wrong-word"):
            assert secret not in said
    return read.value, launch.value


@pytest.mark.parametrize("named", ["", "elastiq:wrong-word@", f"nobody:{IN_URL}@"])
def test_a_proxy_that_wants_another_password_is_named_and_its_password_is_not(
    server: EC2Server, guarded: Proxy, named: str
) -> None:
    read, launch = refusals(server, f"http://{named}{guarded.address}")
    assert type(read) is AuthError and type(launch) is AuthError and launch.launched_nothing
    assert "407" in str(read) and str(read).endswith(HINT)
    assert "407" in str(launch) and str(launch).endswith(HINT)


@pytest.mark.parametrize("status", [502, 503, 504])
def test_a_proxys_own_error_page_is_unknown_and_not_empty(server: EC2Server, guarded: Proxy, status: int) -> None:
    guarded.answers = status
    read, launch = refusals(server, f"http://elastiq:{IN_URL}@{guarded.address}")
    assert type(read) is SourceError and type(launch) is TransientError
    assert f"{status}" in str(read)
    assert launch.launched_nothing, "what was asked first, for the image, did not come through"
    assert len(guarded.asked) <= 6, "three tries each"


def test_a_proxys_page_in_the_place_of_a_launch_leaves_it_open(both: dict[str, EC2Server], guarded: Proxy) -> None:
    server = both["http"]
    server.forget()
    cloud = cloud_at(server.url, proxy=f"http://elastiq:{IN_URL}@{guarded.address}")
    cloud._images["ami-12c6146b"] = {}
    guarded.answers = 502
    with pytest.raises(TransientError) as caught:
        cloud.launch(intent())
    assert not caught.value.launched_nothing, "the proxy may have lost the answer only"
    assert guarded.asked == [way(server)], "a launch is asked once"


def test_a_tunnel_that_was_not_made_carried_no_launch(both: dict[str, EC2Server], guarded: Proxy) -> None:
    server = both["https"]
    server.forget()
    cloud = cloud_at(server.url, proxy=f"http://elastiq:{IN_URL}@{guarded.address}")
    cloud._images["ami-12c6146b"] = {}
    guarded.answers = 502
    with pytest.raises(TransientError, match="Tunnel connection failed: 502 Bad Gateway") as caught:
        cloud.launch(intent())
    assert caught.value.launched_nothing and str(caught.value).endswith(HINT)
    assert guarded.asked == [way(server)]


def test_a_proxy_that_forbids_the_cloud_is_told_with_its_reason(both: dict[str, EC2Server], guarded: Proxy) -> None:
    both["https"].forget()
    guarded.answers = 403
    read, launch = refusals(both["https"], f"http://elastiq:{IN_URL}@{guarded.address}")
    assert "Tunnel connection failed: 403 Forbidden" in str(read) and str(read).endswith(HINT)
    assert type(launch) is AuthError


def test_a_proxys_login_page_is_no_empty_listing(both: dict[str, EC2Server], proxy: Proxy) -> None:
    both["http"].forget()
    proxy.answers = 200
    cloud = cloud_at(both["http"].url, proxy=f"http://{proxy.address}")
    with pytest.raises(SourceError, match="no Reservations in the answer: is a login page in between"):
        cloud.instances(NONE)


def test_a_proxy_that_is_not_there_is_named_and_launched_nothing(server: EC2Server) -> None:
    read, launch = refusals(server, f"http://elastiq:{IN_URL}@127.0.0.1:9")
    assert 'Failed to connect to proxy URL: "http://***@127.0.0.1:9"' in str(read) and str(read).endswith(HINT)
    assert type(launch) is TransientError and launch.launched_nothing


def test_a_proxy_that_never_answers_ends_at_the_time_out(server: EC2Server, proxy: Proxy) -> None:
    proxy.hangs_s = 300.0
    cloud = cloud_at(server.url, proxy=f"http://{proxy.address}", connect_timeout_s=0.3, read_timeout_s=0.3)
    cloud._images["ami-12c6146b"] = {}
    began = time.monotonic()
    with pytest.raises(TransientError):
        cloud.launch(intent())
    assert time.monotonic() - began < PATIENCE_S
    assert len(proxy.asked) == 1 and server.requests == []


@pytest.mark.parametrize(
    "value",
    [
        "socks5://elastiq:PLANTED@127.0.0.1:9",
        "http://elastiq:PLANTED@127.0.0.1:99999",
        "http://elastiq:PLANTED#word@127.0.0.1:9",
        "http://elas tiq:PLANTED@127.0.0.1:9",
        "http://elastiq:PLANTED@[127.0.0.1:9",
        "elastiq:PLANTED@127.0.0.1:9",
    ],
)
def test_a_proxy_of_the_environment_that_is_none_is_told_without_its_password(
    server: EC2Server, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    for name in ("HTTPS_PROXY", "HTTP_PROXY"):
        monkeypatch.setenv(name, value)
    refusals(server, None)
