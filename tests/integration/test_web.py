"""The page's server: what it sends to whom, what it refuses, and that no client holds up another or the loop."""

from __future__ import annotations

import contextlib
import gzip
import http.client
import logging
import os
import socket
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path
from typing import Any, Iterator

import pytest

from elastiq import web
from elastiq.web import page, server
from elastiq.web.feed import Pace
from elastiq.web.page import FILES, Page
from elastiq.web.server import CLIENTS, HEADERS, PageServer
from tests.waiting import PATIENCE_S, free_port, until
from tests.web_daemon import fetch, on_loop, running, section

SCRIPTS = ("page.js", "chart.js", "dom.js", "sections.js", "tiles.js", "words.js")
BIG = b"x" * 8_000_000


class Served:
    """A server with a few resources of the test's."""

    def __init__(self, host: str = "127.0.0.1", hosts: tuple[str, ...] = ()) -> None:
        self.calls: list[Any] = []

        def told(parameters: Any) -> bytes:
            self.calls.append(dict(parameters))
            return b"{}"

        def fault(parameters: Any) -> bytes:
            raise RuntimeError("a fault of the page's")

        self.server = PageServer(
            host,
            0,
            {
                "/": ("text/html", lambda parameters: b"<p>"),
                "/now.json": ("application/json", told),
                "/none": ("text/plain", lambda parameters: None),
                "/big": ("text/plain", lambda parameters: BIG),
                "/fault": ("text/plain", fault),
            },
            hosts,
        )
        self.host, self.port = "127.0.0.1" if host == "0.0.0.0" else host, self.server.port

    def ask(self, method: str = "GET", path: str = "/", **headers: str) -> tuple[http.client.HTTPResponse, bytes]:
        connection = http.client.HTTPConnection(self.host, self.port, timeout=PATIENCE_S)
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        return answer, answer.read()

    def say(self, data: bytes) -> bytes:
        """What comes back for these bytes, until the server closes."""
        with self.connect() as client:
            with contextlib.suppress(OSError):
                client.sendall(data)
            return until_closed(client)

    def connect(self) -> socket.socket:
        return socket.create_connection((self.host, self.port), timeout=PATIENCE_S)


def until_closed(client: socket.socket) -> bytes:
    found = b""
    with contextlib.suppress(ConnectionResetError):
        while data := client.recv(65_536):
            found += data
    return found


@pytest.fixture
def served() -> Iterator[Served]:
    made = Served()
    yield made
    made.server.close()


# --------------------------------------------------------------------------- what is sent


def test_an_answer_has_what_was_asked_for_and_ends_the_connection(served: Served) -> None:
    answer, body = served.ask()
    assert (answer.status, body, answer.headers["Content-Type"]) == (200, b"<p>", "text/html")
    assert answer.headers["Content-Length"] == "3" and answer.headers["Connection"] == "close"


def test_head_is_answered_as_get_without_the_body(served: Served) -> None:
    answer, body = served.ask("HEAD")
    assert (answer.status, body, answer.headers["Content-Length"]) == (200, b"", "3")


@pytest.mark.parametrize(("accepted", "packed"), [
    ("gzip", True), ("br, gzip;q=0.5", True), ("gzip;q=0", False), ("br, gzip;q=0.0, *", False), ("identity", False),
])  # fmt: skip
def test_what_is_long_is_packed_for_those_who_can_unpack_it(served: Served, accepted: str, packed: bool) -> None:
    answer, body = served.ask(path="/big", **{"Accept-Encoding": accepted})
    assert (answer.headers["Content-Encoding"] == "gzip") is packed and answer.headers["Content-Length"] == str(
        len(body)
    )
    assert (gzip.decompress(body) if packed else body) == BIG and (len(body) < len(BIG)) is packed
    answer, body = served.ask(**{"Accept-Encoding": accepted})
    assert answer.headers["Content-Encoding"] is None and body == b"<p>"


def test_parameters_go_to_the_resource(served: Served) -> None:
    served.ask(path="/now.json?range=3600&range=7&x=%3Cb%3E")
    assert served.calls == [{"range": "7", "x": "<b>"}]


@pytest.mark.parametrize(
    "path", ["/none", "/nothing", "/index.html", "/../now.json", "/files/../now.json", "/%6eow.json", "/now.json/"]
)
def test_a_path_is_one_that_is_listed_letter_by_letter(served: Served, path: str) -> None:
    answer, body = served.ask(path=path)
    assert answer.status == 404 and body == b"404 Not Found\n"


# --------------------------------------------------------------------------- security


@pytest.mark.parametrize(
    ("method", "path", "headers", "status"),
    [
        ("GET", "/", {}, 200),
        ("HEAD", "/now.json", {}, 200),
        ("GET", "/nothing", {}, 404),
        ("GET", "/", {"Host": "evil.example"}, 421),
        ("POST", "/", {}, 405),
        ("GET", "/?" + "&".join("abcdefghij"), {}, 400),
    ],
)
def test_every_answer_says_what_a_browser_may_not_do_with_it(
    served: Served, method: str, path: str, headers: dict[str, str], status: int
) -> None:
    answer, _ = served.ask(method, path, **headers, Origin="http://evil.example")
    assert answer.status == status
    assert {name: answer.headers[name] for name in HEADERS} == HEADERS
    assert not [name for name in answer.headers if name.lower().startswith("access-control")]


def test_the_policy_lets_the_page_run_and_load_its_own_files_only() -> None:
    policy = HEADERS["Content-Security-Policy"]
    for part in (
        "default-src 'none'", "script-src 'self'", "style-src 'self'", "frame-ancestors 'none'", "form-action 'none'",
        "base-uri 'none'",
    ):  # fmt: skip
        assert part in policy
    assert "unsafe" not in policy and "*" not in policy and "http" not in policy


def test_the_pages_files_hold_no_inline_script_or_style_and_load_nothing_from_elsewhere() -> None:
    found = {file.name: file.read_text("utf-8") for file in FILES.iterdir()}
    assert set(found) == {"index.html", "style.css", "icon.svg", *SCRIPTS}
    for name, text in found.items():
        foreign = text.replace("http://www.w3.org/2000/svg", "")
        assert "http:" not in foreign and "https:" not in foreign and "//cdn" not in foreign, name
    for forbidden in (" style=", "<style", "javascript:", " onclick", " onload"):
        assert forbidden not in found["index.html"]
    assert found["index.html"].count("<script") == found["index.html"].count('<script type="module" src="page.js">')
    for name in SCRIPTS:
        for forbidden in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "DOMParser"):
            assert forbidden not in found[name], name


LOOPBACK = ("localhost", "LOCALHOST", "localhost.", "127.0.0.1", "127.8.9.10", "[::1]")
FOREIGN = (
    "evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "10.0.0.5", "[fe80::1]", "", "localhost@evil",
    "evil.example:127.0.0.1", "127.0.0.1/evil", "localhost:port", "1.0.0.127.in-addr.arpa", "0x7f000001.evil", "[::1",
)  # fmt: skip


@pytest.mark.parametrize("host", [*LOOPBACK, *(f"{name}:9000" for name in LOOPBACK)])
def test_requests_for_this_machine_are_answered_at_whatever_port_a_tunnel_has(served: Served, host: str) -> None:
    assert served.ask(path="/now.json", Host=host)[0].status == 200


@pytest.mark.parametrize("host", FOREIGN)
def test_a_page_of_another_site_whose_name_leads_here_gets_nothing(served: Served, host: str) -> None:
    answer, body = served.ask(path="/now.json", Host=host)
    assert answer.status == 421 and b"hosts" in body and not served.calls
    assert not host or host.encode() not in body


def test_names_that_are_configured_are_answered() -> None:
    made = Served(hosts=("status.example.org", "HEAD1", "10.0.0.5"))
    for host, status in (
        ("status.example.org", 200), ("STATUS.example.org:443", 200), ("head1", 200), ("10.0.0.5:80", 200),
        ("example.org", 421), ("x.status.example.org", 421),
    ):  # fmt: skip
        assert made.ask(Host=host)[0].status == status, host
    made.server.close()


def test_at_all_addresses_all_addresses_are_answered_but_no_name() -> None:
    made = Served("0.0.0.0")
    for host, status in (("10.0.0.5", 200), ("[fe80::1]:8642", 200), ("localhost", 200), ("evil.example", 421)):
        assert made.ask(Host=host)[0].status == status, host
    made.server.close()


@pytest.mark.parametrize("head", [b"", b"Host: localhost\r\nHost: evil.example\r\n", b"Host: localhost\r\nHost: a\r\n"])
def test_a_request_says_once_for_whom_it_is(served: Served, head: bytes) -> None:
    assert b" 421 " in served.say(b"GET /now.json HTTP/1.1\r\n" + head + b"\r\n").split(b"\r\n")[0]
    assert not served.calls


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "get", "__init__"])
def test_what_is_neither_get_nor_head_is_refused_and_nothing_is_looked_at(served: Served, method: str) -> None:
    answer, _ = served.ask(method, "/now.json")
    assert (answer.status, answer.headers["Allow"]) == (405, "GET, HEAD") and not served.calls


def test_one_that_sends_a_body_gets_its_answer(served: Served) -> None:
    head = b"POST / HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 500000\r\n\r\n"
    assert served.say(head + b"x" * 500_000).startswith(b"HTTP/1.1 405 ")


@pytest.mark.parametrize(
    "data",
    [
        b"\0\1\2\3\r\n\r\n",
        b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03" + b"x" * 200 + b"\r\n\r\n",  # one that speaks TLS
        b"GET\r\n\r\n",
        b"GET / HTTP/9.9.9\r\n\r\n",
        b"GET / HTTP/1.1 <script>alert(1)</script>\r\n\r\n",
        b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 2000 + b"\r\n",
        b"GET / HTTP/1.1\r\na: " + b"b" * 70_000 + b"\r\n\r\n",
        b"GET http://evil.example/now.json HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"\r\n\r\n\r\n",
        b"",
    ],
)
def test_what_is_no_request_does_no_harm_and_nothing_of_it_comes_back(
    served: Served, data: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    with served.connect() as client:
        with contextlib.suppress(OSError):
            client.sendall(data)
            client.shutdown(socket.SHUT_WR)
        got = until_closed(client)
    assert b" 200 " not in got[:20] and b"alert" not in got and b"evil" not in got and not served.calls
    assert not caplog.records
    assert served.ask()[0].status == 200


def test_a_fault_is_logged_and_the_next_is_answered(served: Served, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(http.client.HTTPException):
        served.ask(path="/fault")
    until(lambda: caplog.records)
    assert [record.message for record in caplog.records] == ["web: fault in a request"]
    assert served.ask()[0].status == 200


# --------------------------------------------------------------------------- clients that are slow, or many


def is_closed(client: socket.socket) -> bool:
    """Without an answer, and before the client has lost its patience."""
    client.settimeout(PATIENCE_S)
    try:
        return not until_closed(client)
    except socket.timeout:
        return False


def test_one_that_sends_its_request_too_slowly_is_dropped(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "REQUEST_S", 2.0)
    with served.connect() as client:
        stop = threading.Event()

        def drip() -> None:
            with contextlib.suppress(OSError):
                for byte in b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Slow: " + b"x" * 1000:
                    client.send(bytes([byte]))
                    if stop.wait(0.05):
                        return

        dripping = threading.Thread(target=drip)
        dripping.start()
        assert served.ask()[0].status == 200
        assert is_closed(client), "although a byte came every 50 ms"
        stop.set()
        dripping.join()


def test_one_that_does_not_take_its_answer_is_dropped(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "REQUEST_S", 2.0)
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.settimeout(PATIENCE_S)
        client.connect((served.host, served.port))
        client.sendall(b"GET /big HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert client.recv(1, socket.MSG_PEEK), "it is being answered"
        until(lambda: not threads(), "it is given up")
        assert len(until_closed(client)) < len(BIG)


def threads() -> list[str]:
    return [one.name for one in threading.enumerate() if one.name == "elastiq web client"]


def test_of_too_many_the_oldest_is_dropped_and_a_new_one_is_answered_at_once(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "REQUEST_S", 3600.0)  # their time is not what makes room
    silent = [served.connect() for _ in range(3 * CLIENTS)]
    assert served.ask()[0].status == 200
    until(lambda: len(threads()) <= CLIENTS, "no more threads than clients")
    assert is_closed(silent[0])
    for client in silent:
        client.close()


def test_one_that_asks_without_a_pause_is_slowed_down(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "A_SECOND", 20)
    began = time.monotonic()
    for _ in range(60):
        assert served.ask()[0].status == 200
    assert time.monotonic() - began > 0.5


def test_when_it_is_closed_its_port_is_free(served: Served) -> None:
    served.ask()
    served.server.close()
    with pytest.raises(ConnectionRefusedError):
        served.connect().close()
    PageServer(served.host, served.port, {}).close()


# --------------------------------------------------------------------------- as a part of the daemon


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """What comes every few seconds, in a fraction of one."""
    monkeypatch.setattr(page, "AGAIN_S", 0.1)
    monkeypatch.setattr(Page.__init__, "__defaults__", (Pace(tick_s=0.05),))


def test_the_daemon_serves_the_page_its_files_and_what_it_does(quick: None) -> None:
    port = free_port()
    with running(section(port)) as daemon:
        assert b"<!doctype html>" in fetch(port, "/")
        for file in FILES.iterdir():
            path = "/" if file.name == "index.html" else f"/{file.name}"
            assert fetch(port, path) == file.read_bytes()
        first = fetch(port)
        assert first["status"]["cluster"] == "test" and first["status"]["nodes"] == []
        on_loop(daemon, lambda: daemon.core.tell("a matter", "<b>is</b> so"))
        until(lambda: fetch(port)["status"]["notices"] == ["a matter: <b>is</b> so"], "what is new is shown")
        assert fetch(port)["status"]["at"] > first["status"]["at"]
        assert set(fetch(port, "/history.json?range=3600")) >= {"at", "busy", "waiting", "width_s", "since", "until"}
        for bad in ("", "?range=5", "?range=3600x", "?range=99999999"):
            with pytest.raises(AssertionError, match="404"):
                fetch(port, f"/history.json{bad}")


def test_a_port_that_is_taken_is_one_notice_and_the_page_comes_when_it_is_free(
    quick: None, caplog: pytest.LogCaptureFixture
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with running(section(port)) as daemon:
            notice = daemon.core.notices["web"]
            assert f"127.0.0.1:{port}" in notice and "in use" in notice and "[web]" in notice
            time.sleep(0.5)  # some tries
            assert len([one for one in caplog.records if one.levelno >= logging.WARNING]) == 1
            assert not daemon.core.faults and daemon.status()["pools"]
            other.close()
            until(lambda: "web" not in daemon.core.notices, "the port is taken as soon as it is free")
            assert fetch(port)["status"]["notices"] == []


def test_an_address_for_others_needs_the_administrators_word(quick: None) -> None:
    port = free_port()
    listen = f"0.0.0.0:{port}"
    with running(section(port, listen=listen)) as daemon:
        assert "allow_remote = yes" in daemon.core.notices["web"]
        with pytest.raises(ConnectionRefusedError):
            fetch(port)
        on_loop(daemon, lambda: web.follow(daemon, section(port, listen=listen, allow_remote=True)))
        assert fetch(port)["status"]["cluster"] == "test" and "web" not in daemon.core.notices


def test_a_reload_moves_the_page_and_a_section_that_is_gone_ends_it(quick: None) -> None:
    first, second = free_port(), free_port()
    with running(section(first)) as daemon:
        seen = until(lambda: fetch(first, "/history.json?range=3600")["at"], "it looks")
        on_loop(daemon, lambda: web.follow(daemon, section(first)))
        assert fetch(first)["status"]["cluster"] == "test", "nothing has changed"
        on_loop(daemon, lambda: web.follow(daemon, section(second)))
        assert fetch(second, "/history.json?range=3600")["at"][:1] == seen[:1], "what it knew stays"
        with pytest.raises(ConnectionRefusedError):
            fetch(first)
        for gone in (None, {**section(second), "listen": None}):
            on_loop(daemon, lambda: web.follow(daemon, section(second)))
            assert fetch(second)
            on_loop(daemon, partial(web.follow, daemon, gone))
            with pytest.raises(ConnectionRefusedError):
                fetch(second)
            assert not [one for one in daemon.core.listeners if isinstance(one, Page)]


def test_a_loop_that_hangs_is_told_from_one_that_lives_and_clients_do_not_hold_up_the_loop(
    quick: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("elastiq.web.feed.FRESH_S", 0.3)
    monkeypatch.setattr("elastiq.web.feed.PATIENCE_S", 0.2)
    port, released = free_port(), threading.Event()
    with running(section(port)) as daemon:
        assert fetch(port)["age_s"] < PATIENCE_S
        daemon.core.events.post(lambda: released.wait(600))
        until(lambda: fetch(port)["age_s"] > 1.0, "its age tells")
        before = fetch(port)["status"]["at"]
        released.set()
        until(lambda: fetch(port)["status"]["at"] > before, "it goes on")
        monkeypatch.setattr(server, "REQUEST_S", 3600.0)  # their time is not what lets the loop go on
        silent = [socket.create_connection(("127.0.0.1", port)) for _ in range(2 * CLIENTS)]
        on_loop(daemon, lambda: None)
        for client in silent:
            client.close()


def test_the_demo_shows_its_page_and_says_where_and_names_a_port_that_is_taken(tmp_path: Path) -> None:
    port = free_port()
    command = [sys.executable, "-m", "elastiq", "demo", "--web", str(port), "--speed", "30"]
    environ = {**os.environ, "PYTHONPATH": str(Path(web.__file__).parents[2])}
    with subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as demo:
        assert demo.stdout is not None
        said = [demo.stdout.readline() for _ in range(5)]
        assert any(f"http://127.0.0.1:{port}/" in line for line in said), said

        def shown() -> Any:
            try:
                return fetch(port)
            except ConnectionRefusedError:
                return None

        found = until(shown, "the demo's page")
        assert found["status"]["cluster"] == "demo" and found["speed"] == 30.0 and found["cost"] is not None
        until(lambda: fetch(port)["status"]["queue"]["waiting_jobs"] > 5, "jobs come")
        until(lambda: fetch(port)["decisions"], "machines are launched for them")
        again = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=PATIENCE_S)
        demo.terminate()
        assert demo.wait(PATIENCE_S) == 143
    assert again.returncode == 1 and "another: --web PORT" in again.stderr and "Traceback" not in again.stderr


@pytest.mark.parametrize("wrong", [["--json"], ["--speed", "max"], ["0"], ["65536"], ["x"]])
def test_a_demo_that_nobody_can_watch_has_no_page(wrong: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    from elastiq.simulation import demo

    with pytest.raises(SystemExit) as ended:
        demo.main(["--web", *wrong])
    assert ended.value.code == 2 and "--web" in capsys.readouterr().err
