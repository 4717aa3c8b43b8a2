"""One small EC2 client per site.

botocore's model of EC2 is 4.3 MB of JSON that becomes 16 MB of objects, for 700 operations of which
we use nine; its table of all services' endpoints is another 7 MB. `SlimFiles` reads only our part of
the one and derives the other from the small table of partitions. botocore is imported at the first
call: a daemon that has no EC2 pool never pays for it.
"""

from __future__ import annotations

import gzip
import json
import mmap
import os
import re
import shutil
import threading
from contextlib import suppress
from typing import Any, Callable, Mapping, Optional, Sequence

from elastiq.plugins.cloud.ec2_fault import Fault

# DescribeInstanceTypes is asked once only, but a client of its own would take more: the model is read as a whole.
OPERATIONS = """CreateTags DescribeImages DescribeInstances DescribeInstanceStatus DescribeInstanceTypes RunInstances
    StartInstances StopInstances TerminateInstances""".split()
READ_ATTEMPTS = 3
SENT_ONCE = ("run_instances", "start_instances")

# where the metadata, an operation or a shape begins in botocore's files: each has its own first key
_PLACE = re.compile(rb'"(\w+)"\s*:\s*(?=\{\s*"(?:apiVersion|name|type)"\s*:\s*")')
_SHAPE = re.compile(r'"shape"\s*:\s*"(\w+)"')
_LENGTHS = (1 << 14, 1 << 17, 1 << 30)  # bytes to be looked at for one of them: nearly all are in the first


class EC2Client:
    """The nine operations, with time-outs and the right retries; safe to call from several threads.

    EC2 says "no capacity" with HTTP 500, which botocore would ask again: RunInstances and StartInstances are
    sent once. What may be repeated without harm gets botocore's standard retries. Among the options may be other
    ``operations`` than the usual ones, ``teach``, which changes botocore's model of them, and another ``service``.
    """

    def __init__(self, options: Mapping[str, Any]) -> None:
        self.options = options
        self._lock = threading.Lock()
        self.made: Optional[tuple[Any, Any]] = None

    def call(self, operation: str, **parameters: Any) -> dict[str, Any]:
        """The parsed answer of one operation (its botocore name, as ``run_instances``), or a `Fault`."""
        sent = False
        try:
            once, repeating = self._clients()
            method = getattr(once if operation in SENT_ONCE else repeating, operation)
            sent = True
            answer: dict[str, Any] = method(**parameters)
        except Exception as exc:  # noqa: BLE001 - no common base: no region, bad endpoint, ValueError of the parser
            from elastiq.plugins.cloud.ec2_errors import failed

            # "from None": botocore's texts may hold parameters (user data) or a proxy's password
            raise failed(self, operation, exc, sent) from None
        return answer

    def _clients(self) -> tuple[Any, Any]:
        with self._lock:  # making clients is not thread-safe in botocore, using them is
            self.made = self.made or self._make()
            return self.made

    def _make(self) -> tuple[Any, Any]:
        return _make_clients(self.options)


def pages(call: Callable[..., dict[str, Any]], operation: str, key: str, **parameters: Any) -> list[Mapping[str, Any]]:
    """All rows of a listing, which ``call`` gives page by page."""
    rows: list[Mapping[str, Any]] = []
    tokens: set[str] = set()
    while True:
        answer = call(operation, **parameters)
        if not isinstance(answer.get(key), list):
            raise Fault(operation, "NotEC2", f"no {key} in the answer: is a login page in between?")
        rows += answer[key]
        token = answer.get("NextToken")
        if not token:
            return rows
        if token in tokens:
            # as good as a refusal of pages: a cloud that ignores the token sends the first page for ever
            raise Fault(operation, "RepeatedNextToken", "the same page was announced twice", 400)
        tokens.add(token)
        parameters["NextToken"] = token


def _make_clients(options: Mapping[str, Any]) -> tuple[Any, Any]:
    """A client that asks once, and one that asks again."""
    from botocore.config import Config
    from botocore.loaders import Loader
    from botocore.session import Session

    from elastiq.plugins.cloud.ec2_answers import limit

    session = Session(**whose(options))
    files = SlimFiles(options.get("api_version"), options.get("operations", OPERATIONS), options.get("teach"))
    session.register_component("data_loader", Loader(file_loader=files))
    region, proxy = options.get("region"), options.get("proxy")
    if not region:
        from elastiq.plugins.cloud.ec2_regions import region_of

        region = region_of(options, session)

    def client(attempts: int) -> Any:
        made = session.create_client(
            options.get("service", "ec2"),
            region_name=region,
            endpoint_url=options.get("api_url"),
            verify=(options.get("ca_bundle") or None) if options.get("verify_ssl", True) else False,
            **{key: options.get(key) for key in ("aws_access_key_id", "aws_secret_access_key", "aws_session_token")},
            config=Config(
                connect_timeout=options["connect_timeout_s"],
                read_timeout=options["read_timeout_s"],
                retries={"mode": "standard", "total_max_attempts": attempts},
                proxies={"http": proxy, "https": proxy} if proxy else None,
                user_agent_extra="elastiq",
                signature_version=options.get("signature"),
            ),
        )
        limit(made, options["read_timeout_s"])
        return made

    return client(1), client(READ_ATTEMPTS)


def whose(options: Mapping[str, Any]) -> dict[str, Any]:
    """Where botocore's session looks for keys. A file that is named goes before the environment, because a profile is
    named with it."""
    file, profile = options.get("credentials_file"), options.get("profile")
    names = {"credentials_file": (None, None, file, None)} if file else None
    return {"session_vars": names, "profile": profile or (file and "default")}


class SlimFiles:
    """botocore's file loader, but that of EC2's model it gives the operations only, and a small table of endpoints.

    With an ``api_version`` the requests name that one: botocore itself ships a few versions only and
    refuses the others. The parts that we use have only ever gained elements, so one parser fits all.
    """

    def __init__(self, api_version: Optional[str] = None, operations: Sequence[str] = OPERATIONS, teach: Any = None):
        from botocore.loaders import JSONFileLoader

        stock = JSONFileLoader()
        self.exists, self._load, self._api_version = stock.exists, stock.load_file, api_version
        self._operations, self._teach = operations, teach or _teach

    def load_file(self, path: str) -> Optional[Any]:
        """The data of a file named without its end, None if there is none (botocore then looks elsewhere)."""
        folder, name = os.path.split(path)
        if name == "endpoints":
            partitions = self._load(os.path.join(folder, "partitions"))
            return _endpoints(partitions) if partitions else self._load(path)
        if name == "service-2" and folder.split(os.sep)[-2] == "ec2" and self.exists(path):
            return self._model(path)
        return self._load(path)

    def _model(self, path: str) -> dict[str, Any]:
        packed = path + ".json.gz"
        with gzip.open(packed) if os.path.isfile(packed) else open(path + ".json", "rb") as file:
            # not in the heap, which may keep the room of so large a text for ever: 16 MB were seen
            with open(os.memfd_create("model"), "w+b") as plain:
                shutil.copyfileobj(file, plain)
                plain.flush()
                with mmap.mmap(plain.fileno(), 0) as text:
                    model = slim_model(text, self._operations)
        model["metadata"]["apiVersion"] = self._api_version or model["metadata"]["apiVersion"]
        self._teach(model)
        return model


def _teach(model: dict[str, Any]) -> None:
    """What botocore does not know of the usual operations."""
    if "CreateTags" in model["operations"]:
        # OpenStack answers with <return>true</return> and no instances
        for act in ("Start", "Stop", "Terminate"):
            answer = model["shapes"][f"{act}InstancesResult"]["members"]
            answer["Return"] = {"shape": "Boolean", "locationName": "return"}
        # that is all that CreateTags answers, and botocore looks at nothing of it: a login page would do
        model["operations"]["CreateTags"]["output"] = {"shape": "TerminateInstancesResult"}


def _endpoints(partitions: Mapping[str, Any]) -> dict[str, Any]:
    """What botocore's older endpoint resolver needs to sign; the URLs come from its rule sets."""
    defaults = {"hostname": "{service}.{region}.{dnsSuffix}", "protocols": ["https"], "signatureVersions": ["v4"]}
    for one in partitions["partitions"]:
        one.update(one["outputs"], partition=one["id"], defaults=defaults, services={})
    return {**partitions, "version": 3}


def slim_model(text: bytes | mmap.mmap, operations: Sequence[str] = OPERATIONS) -> dict[str, Any]:
    """The service model in ``text`` with these operations and the shapes that they use only.

    The text is not read as a whole: the parts are looked up in it. No operation has the name of a shape.
    """
    where = {found[1].decode(): found.end() for found in _PLACE.finditer(text)}
    wanted = ["metadata", *operations]
    if not where.keys() >= set(wanted):
        raise ValueError("botocore's EC2 model has an unknown form")
    decode = json.JSONDecoder().raw_decode
    parts: dict[str, Any] = {}
    while wanted:
        name = wanted.pop()
        if name not in parts:
            for length in _LENGTHS:
                part = text[where[name] : where[name] + length].decode("utf-8", "ignore")
                with suppress(json.JSONDecodeError):
                    parts[name], end = decode(part)
                    wanted += _SHAPE.findall(part, 0, end)
                    break
            else:
                raise ValueError(f"botocore's EC2 model has an unknown form: {name}")
    metadata, found = parts.pop("metadata"), {name: parts.pop(name) for name in operations}
    return {"version": "2.0", "metadata": metadata, "operations": found, "shapes": parts}
