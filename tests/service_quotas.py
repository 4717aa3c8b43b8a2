"""AWS's Service Quotas over HTTP for tests: ListServiceQuotas, in pages, as its API reference shows it."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Optional

NAMES = {
    "Running On-Demand Standard (A, C, D, H, I, M, R, T, Z) instances": 32.0,
    "Running On-Demand G and VT instances": 0.0,
    "Running On-Demand High Memory instances": 448.0,
    "All Standard (A, C, D, H, I, M, R, T, Z) Spot Instance Requests": 5.0,
    "All P4, P3 and P2 Spot Instance Requests": 64.0,
    "All P5 Spot Instance Requests": 192.0,
    "EC2-VPC Elastic IPs": 5.0,
}


class ServiceQuotas:
    """A running server; ``quotas`` may be changed, ``refusal`` is the error of the next answers."""

    def __init__(self) -> None:
        self.quotas = dict(NAMES)
        self.refusal: Optional[str] = None
        self.actions: list[str] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                outer.actions.append(self.headers["X-Amz-Target"].partition(".")[2])
                status, answer = outer._answer(asked)
                body = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/x-amz-json-1.1")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join(10)
        self._server.server_close()

    def _answer(self, asked: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        if self.refusal:
            return 400, {"__type": self.refusal, "Message": "refused"}
        if asked.get("ServiceCode") != "ec2":
            return 400, {"__type": "NoSuchResourceException", "Message": "no such service"}
        rows = [
            {"ServiceCode": "ec2", "QuotaCode": f"L-{number:08X}", "QuotaName": name, "Value": value, "Unit": "None"}
            for number, (name, value) in enumerate(self.quotas.items())
        ]
        first = int(asked.get("NextToken") or 0)
        more = {"NextToken": str(first + 4)} if first + 4 < len(rows) else {}
        return 200, {"Quotas": rows[first : first + 4], **more}
