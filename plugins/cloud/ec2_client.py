"""One small EC2 client per site.

botocore's model of EC2 is 4.3 MB of JSON that becomes 16 MB of objects, for 700 operations of which
we use six; its table of all services' endpoints is another 7 MB. `SlimFiles` reads only our part of
the one and derives the other from the small table of partitions. botocore is imported at the first
call: a daemon that has no EC2 pool never pays for it.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import threading
from typing import Any, Iterator, Mapping, Optional
from urllib.parse import urlsplit

from elastiq.plugins.cloud.ec2_errors import Fault

OPERATIONS = (
    "CreateTags",
    "DescribeImages",
    "DescribeInstances",
    "DescribeInstanceStatus",
    "RunInstances",
    "TerminateInstances",
)
READ_ATTEMPTS = 3
PLACEHOLDER_REGION = "us-east-1"  # what a cloud without regions, or a simulator, expects in a signature

_DECODER = json.JSONDecoder()
_GAP = re.compile(r"[\s,:]*")
_REGION = re.compile(r"(?:^|[.-])([a-z]{2,}(?:-[a-z]+)+-\d)(?:\.|$)")


class EC2Client:
    """The six operations, with time-outs and the right retries; safe to call from several threads.

    EC2 says "no capacity" with HTTP 500, which botocore would ask again: RunInstances is sent once.
    What may be repeated without harm gets botocore's standard retries.
    """

    def __init__(self, options: Mapping[str, Any]) -> None:
        self._options = options
        self._lock = threading.Lock()
        self._made: Optional[tuple[Any, Any]] = None

    def __repr__(self) -> str:
        return f"EC2Client({self._options.get('api_url') or 'AWS'})"

    def call(self, operation: str, **parameters: Any) -> dict[str, Any]:
        """The parsed answer of one operation (its botocore name, as ``run_instances``), or a `Fault`."""
        try:
            once, repeating = self._clients()
            method = getattr(once if operation == "run_instances" else repeating, operation)
        except Exception as exc:  # noqa: BLE001 - bad endpoint, no region, no profile: no common base class
            raise Fault.of(operation, exc, sent=False) from None
        try:
            answer: dict[str, Any] = method(**parameters)
        except Exception as exc:  # noqa: BLE001 - also ValueError and the like out of botocore's parser
            # "from None": botocore's texts may hold parameters (user data) or a proxy's password
            raise Fault.of(operation, exc, sent=True) from None
        return answer

    def _clients(self) -> tuple[Any, Any]:
        with self._lock:  # making clients is not thread-safe in botocore, using them is
            if self._made is None:
                self._made = _make_clients(self._options)
            return self._made


def _make_clients(options: Mapping[str, Any]) -> tuple[Any, Any]:
    import botocore.config
    import botocore.loaders
    import botocore.session

    session = botocore.session.Session(profile=options.get("profile"))
    files = SlimFiles(options.get("api_version"))
    session.register_component("data_loader", botocore.loaders.Loader(file_loader=files))
    proxy = options.get("proxy")
    region = _region(options, session)
    clients = []
    for attempts in (1, READ_ATTEMPTS):
        config = botocore.config.Config(
            connect_timeout=options["connect_timeout_s"],
            read_timeout=options["read_timeout_s"],
            retries={"mode": "standard", "total_max_attempts": attempts},
            proxies={"http": proxy, "https": proxy} if proxy else None,
            user_agent_extra="elastiq",
        )
        client = session.create_client(
            "ec2",
            region_name=region,
            endpoint_url=options.get("api_url"),
            verify=(options.get("ca_bundle") or None) if options.get("verify_ssl", True) else False,
            aws_access_key_id=options.get("aws_access_key_id"),
            aws_secret_access_key=options.get("aws_secret_access_key"),
            aws_session_token=options.get("aws_session_token"),
            config=config,
        )
        clients.append(client)
    return clients[0], clients[1]


def _region(options: Mapping[str, Any], session: Any) -> Optional[str]:
    """The configured one, else boto's look-up, else the endpoint's name or, for AWS, the head node's own."""
    found: Optional[str] = options.get("region") or session.get_config_variable("region")
    if found:
        return found
    if options.get("api_url"):
        in_host = _REGION.search(urlsplit(options["api_url"]).hostname or "")
        return in_host.group(1) if in_host else PLACEHOLDER_REGION
    from botocore.utils import InstanceMetadataRegionFetcher

    found = InstanceMetadataRegionFetcher(timeout=2, num_attempts=1).retrieve_region()
    return found


class SlimFiles:
    """botocore's file loader, for `OPERATIONS` only.

    With an ``api_version`` the requests name that one: botocore itself ships a few versions only and
    refuses the others. The parts that we use have only ever gained elements, so one parser fits all.
    """

    def __init__(self, api_version: Optional[str] = None) -> None:
        self._api_version = api_version

    def exists(self, path: str) -> bool:
        return any(os.path.isfile(path + end) for end in (".json", ".json.gz"))

    def load_file(self, path: str) -> Optional[Any]:
        """The data of a file named without its end, None if there is none (botocore then looks elsewhere)."""
        parts = path.split(os.sep)
        if parts[-1] == "endpoints":
            partitions = _text(os.path.join(os.path.dirname(path), "partitions"))
            if partitions is not None:
                return _endpoints(json.loads(partitions))
        text = _text(path)
        if text is None:
            return None
        if parts[-1] == "service-2" and parts[-3] == "ec2":
            return self._model(text)
        return json.loads(text)

    def _model(self, text: str) -> dict[str, Any]:
        model = slim_model(text)
        if self._api_version:
            model["metadata"]["apiVersion"] = self._api_version
        # old OpenStack answers TerminateInstances with <return>true</return> and no instances
        model["shapes"]["TerminateInstancesResult"]["members"]["Return"] = {
            "shape": "Boolean",
            "locationName": "return",
        }
        # botocore would put in a random token where we leave it out
        model["shapes"]["RunInstancesRequest"]["members"]["ClientToken"].pop("idempotencyToken", None)
        return model


def _text(path: str) -> Optional[str]:
    for end, opener in ((".json", open), (".json.gz", gzip.open)):
        if os.path.isfile(path + end):
            with opener(path + end, "rb") as file:
                return str(file.read(), "utf-8")
    return None


def _endpoints(partitions: Mapping[str, Any]) -> dict[str, Any]:
    """What botocore's older endpoint resolver needs to sign; the URLs come from its rule sets."""
    defaults = {"hostname": "{service}.{region}.{dnsSuffix}", "protocols": ["https"], "signatureVersions": ["v4"]}
    return {
        "version": 3,
        "partitions": [
            {
                "partition": one["id"],
                "partitionName": one["id"],
                "dnsSuffix": one["outputs"]["dnsSuffix"],
                "regionRegex": one["regionRegex"],
                "regions": one["regions"],
                "defaults": defaults,
                "services": {},
            }
            for one in partitions["partitions"]
        ],
    }


def slim_model(text: str) -> dict[str, Any]:
    """The service model in ``text`` with `OPERATIONS` and the shapes that they use, without its prose."""
    metadata = re.search(r'"metadata"\s*:\s*(?=\{)', text)
    operations = re.search(r'"operations"\s*:\s*(?=\{)', text)
    if metadata is None or operations is None:
        raise ValueError("botocore's EC2 model has an unknown form")
    kept = {name: start for name, start in _members(text, operations.end()) if name in OPERATIONS}
    shapes = re.compile(r'"shapes"\s*:\s*(?=\{)').search(text, max(kept.values()))
    if shapes is None or len(kept) != len(OPERATIONS):
        raise ValueError("botocore's EC2 model has an unknown form")
    where = dict(_members(text, shapes.end()))
    model: dict[str, Any] = {
        "version": "2.0",
        "metadata": _value(text, metadata.end()),
        "operations": {name: _value(text, start) for name, start in kept.items()},
        "shapes": {},
    }
    wanted = list(_shapes_in(model["operations"]))
    while wanted:
        name = wanted.pop()
        if name not in model["shapes"]:
            model["shapes"][name] = shape = _value(text, where[name])
            wanted.extend(_shapes_in(shape))
    return model


def _members(text: str, at: int) -> Iterator[tuple[str, int]]:
    """Name and position of each value of the JSON object at ``at``; the values are read over, not kept."""
    at = _gap(text, at + 1)
    while text[at] != "}":
        name, at = _DECODER.raw_decode(text, at)
        at = _gap(text, at)
        yield name, at
        at = _gap(text, _DECODER.raw_decode(text, at)[1])


def _gap(text: str, at: int) -> int:
    found = _GAP.match(text, at)
    return found.end() if found else at


def _value(text: str, at: int) -> Any:
    return _without_prose(_DECODER.raw_decode(text, at)[0])


def _without_prose(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key: _without_prose(item)
            for key, item in value.items()
            if not (key == "documentation" and isinstance(item, str))
        }
    return [_without_prose(item) for item in value] if isinstance(value, list) else value


def _shapes_in(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(value.get("shape"), str):
            yield value["shape"]
        for item in value.values():
            yield from _shapes_in(item)
    elif isinstance(value, list):
        for item in value:
            yield from _shapes_in(item)
