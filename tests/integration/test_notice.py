"""packaging/worker-notice/elastiq-notice, as HTCondor's startd runs it on a worker."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Optional

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "packaging/worker-notice/elastiq-notice"
TOKEN = "AQAEAP=="
pytestmark = pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl, as the script does")


class Metadata(HTTPServer):
    """EC2's instance metadata service, version 2; ``action`` is what it says of an interruption."""

    action: Optional[tuple[int, str]] = None


class _Handler(BaseHTTPRequestHandler):
    server: Metadata

    def _answer(self, status: int, text: str) -> None:
        self.send_response(status)
        self.end_headers()
        self.wfile.write(text.encode())

    def do_PUT(self) -> None:
        good = self.path == "/latest/api/token" and self.headers["X-aws-ec2-metadata-token-ttl-seconds"]
        self._answer(*((200, TOKEN) if good else (400, "")))

    def do_GET(self) -> None:
        if self.headers["X-aws-ec2-metadata-token"] != TOKEN:
            return self._answer(401, "")
        known = self.path == "/latest/meta-data/spot/instance-action" and self.server.action
        self._answer(*(known or (404, "<html>404 - Not Found</html>")))

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture(scope="module")
def metadata() -> Iterator[Metadata]:
    server = Metadata(("127.0.0.1", 0), _Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    yield server
    server.shutdown()
    thread.join(10)
    server.server_close()


def said(url: str) -> str:
    environment = {**os.environ, "NOTICE_METADATA": url}
    done = subprocess.run([SCRIPT], env=environment, capture_output=True, text=True, timeout=90, check=True)
    assert done.stderr == ""
    return done.stdout


@pytest.mark.parametrize(
    ("action", "output"),
    [
        (None, 'Notice = ""\n-\n'),
        (
            (200, '{"action": "terminate", "time": "2026-11-30T12:00:00Z"}'),
            'Notice = "spot interruption: action: terminate, time: 2026-11-30T12:00:00Z"\n- update:true\n',
        ),
        ((200, '"\\"; $(reboot)\nRank = 1'), 'Notice = "spot interruption:  rebootRank  1"\n- update:true\n'),
        ((500, "out of order"), ""),
        ((401, ""), ""),
    ],
    ids=["none", "terminate", "nonsense", "error", "refused"],
)
def test_the_interruption_is_a_line_of_the_ad(
    metadata: Metadata, action: Optional[tuple[int, str]], output: str
) -> None:
    metadata.action = action
    assert said(f"http://127.0.0.1:{metadata.server_address[1]}") == output


def test_where_nobody_answers_nothing_is_said() -> None:
    assert said("http://127.0.0.1:9") == ""
