"""A small cloud behind EC2's query protocol, with the ways of a `Behaviour`: a WSGI application.

It keeps what it was asked to do with whom, and complains of parameters that it does not know: a cloud
may drop them in silence, a test can see them.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import threading
import time
from dataclasses import dataclass, field
from typing import Any, Callable, Iterable, Iterator, Optional, Sequence
from urllib.parse import parse_qsl, quote
from xml.sax.saxutils import escape

from tests.integration.ec2_dialects.behaviours import Behaviour

SECRET = "not-a-secret"
CODES = {
    "pending": 0,
    "running": 16,
    "shutting-down": 32,
    "terminated": 48,
    "stopped": 80,
    "stopping": 64,
    "error": 0,
    "quarantine": -1,
}
KNOWN = {
    "RunInstances": "ImageId MinCount MaxCount InstanceType KeyName UserData ClientToken SecurityGroup SecurityGroupId"
    " SubnetId BlockDeviceMapping",
    "DescribeInstances": "InstanceId Filter",
    "DescribeInstanceStatus": "InstanceId Filter",
    "DescribeImages": "ImageId",
    "TerminateInstances": "InstanceId",
    "StopInstances": "InstanceId",
    "StartInstances": "InstanceId",
    "DescribeInstanceTypes": "Filter MaxResults NextToken",
    "CreateTags": "ResourceId Tag",
}
SIGNED = {"Action", "Version", "AWSAccessKeyId", "SignatureVersion", "SignatureMethod", "Signature", "Timestamp"}
FLAVOURS = ("m1.small", "m5.large", "m5.small")
Answer = tuple[int, str]


@dataclass
class Machine:
    number: int
    owner: str  # "us" or "them"
    state: str = "pending"
    flavour: str = "m1.small"
    token: str = ""
    tags: dict[str, str] = field(default_factory=dict)
    listed: int = 0  # so often, in this state
    launched: float = field(default_factory=time.time)
    spot: bool = False
    reason: str = ""  # of its state

    @property
    def address(self) -> str:
        return f"10.9.{self.number // 250}.{self.number % 250 + 1}"

    @property
    def alive(self) -> bool:
        return self.state not in ("shutting-down", "terminated")


class Refusal(Exception):
    def __init__(self, code: str, message: str, status: int = 400) -> None:
        self.code, self.message, self.status = code, message, status
        super().__init__(code)


class FakeCloud:
    """One account in a cloud; two machines of somebody else run there from the beginning."""

    def __init__(self, behaviour: Behaviour) -> None:
        self.way = behaviour
        self.machines: dict[str, Machine] = {}
        self.complaints: list[str] = []
        self.ended: list[str] = []  # ids that TerminateInstances took
        self.tagged: list[str] = []  # ids that CreateTags took
        self.room: Optional[int] = None  # the next launch makes no more
        self._lock = threading.RLock()
        for state in ("running", "quarantine" if behaviour.dialect == "outscale" else "stopped"):
            self.add("them", state)

    # ---- for the test

    def add(self, owner: str, state: str = "pending", **more: Any) -> str:
        with self._lock:
            machine = Machine(len(self.machines) + 7, owner, state, **more)
            key = self.way.ids % machine.number
            self.machines[key] = machine
            return key

    def of(self, owner: str) -> dict[str, Machine]:
        with self._lock:
            return {key: one for key, one in self.machines.items() if one.owner == owner}

    # ---- HTTP

    def app(self, environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0)).decode()
        asked = dict(parse_qsl(body, keep_blank_values=True))
        with self._lock:
            try:
                self._authorize(environ, asked)
                status, text = 200, self._answer(asked)
            except Refusal as refusal:
                status, text = refusal.status, self._error(refusal)
        data = text.encode()
        start(f"{status} X", [("Content-Type", "text/xml"), ("Content-Length", str(len(data)))])
        return [data]

    def _authorize(self, environ: dict[str, Any], asked: dict[str, str]) -> None:
        if environ["PATH_INFO"] != self.way.path:
            raise Refusal("NotFound", f"there is no service at {environ['PATH_INFO']}", 404)
        header = environ.get("HTTP_AUTHORIZATION", "")
        if self.way.signature == "v4":
            good = re.match(r"AWS4-HMAC-SHA256 Credential=AKIAEXAMPLE/\d{8}/[\w-]+/ec2/aws4_request, Signed", header)
        else:
            pairs = "&".join(
                f"{quote(key, '-_.~')}={quote(asked[key], '-_.~')}" for key in sorted(asked) if key != "Signature"
            )
            text = f"POST\n{environ['HTTP_HOST']}\n{self.way.path}\n{pairs}".encode()
            mac = base64.b64encode(hmac.new(SECRET.encode(), text, hashlib.sha256).digest()).decode()
            good = re.fullmatch(re.escape(mac), asked.get("Signature", ""))
        if not good:
            raise Refusal("AuthFailure", "User not authorized", 401)

    def _error(self, refusal: Refusal) -> str:
        code = f"<Code>{refusal.code}</Code><Message>{escape(refusal.message)}</Message>"
        return (
            f"{self._declaration()}<Response><Errors><Error>{code}</Error></Errors><RequestID>0</RequestID></Response>"
        )

    def _declaration(self) -> str:
        return '<?xml version="1.0" encoding="UTF-8"?>\n' if self.way.declaration else ""

    def _answer(self, asked: dict[str, str]) -> str:
        action = asked["Action"]
        handler = getattr(self, f"_{action}", None)
        absent = {"CreateTags": "create" not in self.way.tags, "DescribeInstanceStatus": not self.way.status}
        absent.update(dict.fromkeys(("StopInstances", "StartInstances"), not self.way.stops))
        absent["DescribeInstanceTypes"] = not self.way.types
        if handler is None or absent.get(action):
            self.complaints.append(action)
            raise Refusal("InvalidRequest", "The request received was invalid.")
        self._check(action, asked)
        inner = handler(asked)
        inner = f"<requestId>7a62c49f</requestId>{inner}" if self.way.request_id else inner
        name, space = f"{action}Response", f"http://ec2.amazonaws.com/doc/{asked['Version']}/"
        if self.way.versions is not None and asked["Version"] not in self.way.versions:
            state = r"<instanceState><code>(.*?)</code><name>(.*?)</name></instanceState>"
            inner = re.sub(state, r"<stateCode>\1</stateCode><stateName>\2</stateName>", inner)
            inner = re.sub(r"<(/?)(\w)", r"<\1euca:\2", f"<{name}>{inner}</{name}>")
            return inner.replace(f"<euca:{name}", f'<euca:{name} xmlns:euca="http://msgs.eucalyptus.com"', 1)
        return f'{self._declaration()}<{name} xmlns="{space}">{inner}</{name}>'

    def _check(self, action: str, asked: dict[str, str]) -> None:
        way, known = self.way, {*KNOWN[action].split(), *SIGNED}
        known |= {"DryRun"} if way.dry_run else set()
        known |= {"MaxResults", "NextToken"} if way.pages and action.startswith("DescribeInstance") else set()
        known |= {"TagSpecification"} if "launch" in way.tags else set()
        known |= {"InstanceInitiatedShutdownBehavior"} if way.shutdown else set()
        known |= {"InstanceMarketOptions"} if way.spot else set()
        strangers = sorted({key.split(".")[0] for key in asked} - known)
        self.complaints += [f"{action} {key}" for key in strangers]
        if strangers and way.unknown == "refuse":
            raise Refusal("UnknownParameter", f"The parameter {strangers[0]} is not recognized")
        if strangers and way.unknown == "crash":
            raise Refusal("TypeError", "Unknown error occurred.", 500)
        if asked.get("DryRun") == "true" and way.dry_run:
            raise Refusal("DryRunOperation", "Request would have succeeded, but DryRun flag is set.", 412)

    # ---- actions

    def _DescribeImages(self, asked: dict[str, str]) -> str:
        image = {"imageId": asked["ImageId.1"], "imageState": "available", "rootDeviceName": "/dev/vda"}
        return xml("imagesSet", [image])

    def _DescribeInstances(self, asked: dict[str, str]) -> str:
        """What has begun to run or end is seen to have done so in the listing after the next."""
        self._go_on()
        rows = [(key, one) for key, one in self.machines.items() if one.alive or self.way.lingers]
        first, token = int(asked.get("NextToken") or 0), ""
        if self.way.pages:
            last = first + min(int(asked.get("MaxResults") or 1000), 3)  # a page may always be shorter than asked for
            token = str(last) if last < len(rows) else ""
            rows = rows[first:last]
        items = [self._item(key, one) for key, one in rows]
        groups = [items] if self.way.one_reservation else [[item] for item in items]
        found = [{"reservationId": "default", "ownerId": "o", "instancesSet": group} for group in groups]
        return xml("reservationSet", found) + (xml("nextToken", token) if token else "")

    def _DescribeInstanceStatus(self, asked: dict[str, str]) -> str:
        rows = [{"instanceId": key} for key, one in self.machines.items() if one.state == "running"]
        return xml("instanceStatusSet", rows)

    def _RunInstances(self, asked: dict[str, str]) -> str:
        token = asked.get("ClientToken", "")
        found = [key for key, one in self.machines.items() if one.token == token and token]
        if found and self.way.tokens == "first":
            found = found[:1]
        if not found or self.way.tokens in ("show", "ignore"):
            most = int(asked["MaxCount"])
            found = [self.add("us") for _ in range(min(most, self.room or most))]
            self.room = None
            for key in found:
                one = self.machines[key]
                one.flavour = asked.get("InstanceType", "m1.small")
                one.spot = asked.get("InstanceMarketOptions.MarketType") == "spot"
                one.token = "" if self.way.tokens == "ignore" else token
                one.tags = dict(_tags(asked, "TagSpecification.1.")) if "launch" in self.way.tags else {}
        items = [self._item(key, self.machines[key]) for key in found]
        for key, item in zip(found, items):
            item["instanceId"] = (self.way.ids_at_launch or self.way.ids) % self.machines[key].number
        return xml("reservationId", "r-1") + xml("instancesSet", items)

    def _TerminateInstances(self, asked: dict[str, str]) -> str:
        ids = [self._key(value) for key, value in sorted(asked.items()) if key.startswith("InstanceId.")]
        missing = [key for key in ids if key not in self.machines or not (self.machines[key].alive or self.way.lingers)]
        rows: list[Any] = []
        for key in ids[: ids.index(missing[0])] if missing and self.way.sequential else () if missing else ids:
            one = self.machines[key]
            self.ended.append(key)
            if one.alive:
                one.state, one.listed = "shutting-down", 0
            shown = str(one.number) if self.way.ended == "numbers" else key
            rows.append({"instanceId": shown, "currentState": {"code": 32, "name": "shutting-down"}})
        if missing:
            raise Refusal(self.way.not_found, f"The instance ID '{missing[0]}' does not exist")
        if self.way.ended == "true":
            return xml("return", "true")
        if self.way.ended == "nobody":
            return xml("return", "false") + xml("instancesSet", [])
        return xml("instancesSet", rows)

    def _StopInstances(self, asked: dict[str, str]) -> str:
        return self._move(asked, "stopping")

    def _StartInstances(self, asked: dict[str, str]) -> str:
        return self._move(asked, "pending")

    def _move(self, asked: dict[str, str], state: str) -> str:
        """Of several, all or none."""
        ids = [value for key, value in sorted(asked.items()) if key.startswith("InstanceId.")]
        for key in ids:
            if key not in self.machines:
                raise Refusal(self.way.not_found, f"The instance ID '{key}' does not exist")
        for key in ids:
            self.machines[key].state, self.machines[key].listed = state, 0
        if self.way.stops == "true":
            return xml("return", "true")
        state_of = {"code": CODES[state], "name": state}
        return xml("instancesSet", [{"instanceId": key, "currentState": state_of} for key in ids])

    def _DescribeInstanceTypes(self, asked: dict[str, str]) -> str:
        """Eucalyptus tells of all."""
        if self.way.types == "eucalyptus":
            return xml("instanceTypeDetails", [{"name": one, "cpu": 2, "disk": 10, "memory": 512} for one in FLAVOURS])
        wanted = {value for key, value in asked.items() if key.startswith("Filter.1.Value.")}
        sizes = {"vCpuInfo": {"defaultVCpus": 2}, "memoryInfo": {"sizeInMiB": 8192}}
        return xml("instanceTypeSet", [{"instanceType": one, **sizes} for one in FLAVOURS if one in wanted])

    def _CreateTags(self, asked: dict[str, str]) -> str:
        for name, key in asked.items():
            if name.startswith("ResourceId."):
                if key not in self.machines:
                    raise Refusal(self.way.not_found, f"The instance ID '{key}' does not exist")
                self.tagged.append(key)
                self.machines[key].tags.update(_tags(asked, ""))
        return xml("return", "true")

    # ---- machines

    def _key(self, text: str) -> str:
        """The id of DescribeInstances for one of another spelling."""
        number = re.fullmatch(r"(?:i-)?0*(\d+)", text) if self.way.ids_at_launch else None
        return self.way.ids % int(number[1]) if number else text

    def _go_on(self) -> None:
        for one in self.machines.values():
            one.listed += 1
            after = {"pending": "running", "shutting-down": "terminated", "stopping": "stopped"}.get(one.state)
            if after and one.listed > 1:
                one.state, one.listed = after, 0

    def _item(self, key: str, one: Machine) -> dict[str, Any]:
        second = f", 10.8.0.{one.number}" if self.way.two_addresses else ""
        told = one.address + second if one.state != "pending" and one.alive else None
        item: dict[str, Any] = {
            "instanceId": key,
            "imageId": "ami-00000001",
            "instanceState": {"code": CODES[one.state], "name": one.state},
            "privateDnsName": None if self.way.address == "privateIpAddress" else told,
            "keyName": "k (tenant, host)",
            "amiLaunchIndex": 0,
            "instanceType": one.flavour,
            "launchTime": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(one.launched)),
            "privateIpAddress": told if self.way.address == "privateIpAddress" else None,
        }
        if one.reason:
            item["stateReason"] = {"code": one.reason, "message": one.reason}
        if one.token:
            item["clientToken"] = one.token
        if one.tags:
            item["tagSet"] = [{"key": name, "value": value} for name, value in one.tags.items()]
        return item


def _tags(asked: dict[str, str], prefix: str) -> Iterator[tuple[str, str]]:
    for name, key in asked.items():
        if re.fullmatch(re.escape(prefix) + r"Tag\.\d+\.Key", name):
            yield key, asked.get(name[:-3] + "Value", "")


def xml(name: str, value: Any) -> str:
    """An element: lists are made of items; None has no text."""
    if isinstance(value, dict):
        inner = "".join(xml(key, one) for key, one in value.items())
    elif isinstance(value, Sequence) and not isinstance(value, str):
        inner = "".join(xml("item", one) for one in value)
    else:
        inner = "" if value is None else escape(str(value))
    return f"<{name}>{inner}</{name}>" if inner else f"<{name}/>"
