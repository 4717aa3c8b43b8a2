"""Interruption warnings of spot instances, from an SQS queue that EventBridge feeds. Imported where
`interruption_queue` is set.

EC2 itself shows nothing of an interruption before it begins; EventBridge tells of it two minutes before ("EC2
Spot Instance Interruption Warning", EC2 User Guide). The queue is read within each listing of the instances, and
whatever is wrong with it spoils no listing. It belongs to one head node: what is read is deleted, whoever's instance
it is about, since EventBridge cannot tell one cluster's instances from another's and the queue must not fill up.
"""

from __future__ import annotations

import json
import logging
import time
from dataclasses import replace
from typing import Any, Callable, Mapping, Optional
from urllib.parse import urlsplit

from elastiq.interfaces import Instance, Instances, SourceError
from elastiq.plugins.cloud.ec2_client import EC2Client, SlimFiles, whose
from elastiq.plugins.cloud.ec2_fault import Fault
from elastiq.plugins.cloud.ec2_regions import REGION, region_of

log = logging.getLogger(__name__)

WARNING = "EC2 Spot Instance Interruption Warning"
AT_ONCE = 10  # the most that ReceiveMessage gives
READS = 10  # in one listing: a hundred warnings, the others come with the next
WAIT_S = 1  # without a wait SQS asks some of its servers only, and a queue that is nearly empty looks empty
CONNECT_S, READ_S, IN_ALL_S = 3.0, 6.0, 15.0  # the listing waits for as long
REMEMBERED = 1000

Told = Callable[[Fault], SourceError]


class Notices:
    """What the queue said of instances, for as long as it may matter."""

    def __init__(self, options: Mapping[str, Any], told: Told) -> None:
        self._queue, self._told = _Queue(options), told
        self._warned: dict[str, str] = {}
        self._complained: set[str] = set()

    def added(self, found: Instances) -> Instances:
        """The listing with the notices of our instances."""
        try:
            self._read()
            self._complained.discard("queue")
        except Fault as fault:
            self._complain("queue", f"no interruption notices from the queue: {self._told(fault)}")
        return replace(found, owned=tuple(map(self._noticed, found.owned)))

    def _noticed(self, one: Instance) -> Instance:
        return replace(one, notice=self._warned[one.id]) if one.id in self._warned and not one.notice else one

    def _read(self) -> None:
        until = time.monotonic() + IN_ALL_S
        for _ in range(READS):
            messages = self._queue.receive()
            taken = [one["ReceiptHandle"] for one in messages if self._take(one)]
            if taken:
                self._queue.delete(taken)
            # what was left would be read again and again
            if len(taken) < len(messages) or not messages or time.monotonic() > until:
                return

    def _take(self, message: Mapping[str, Any]) -> bool:
        """Whether the message was meant for us."""
        event = _event(message.get("Body"))
        if event is None:
            text = f"{self._queue.url} holds messages that are no events of EC2's: they are left there"
            self._complain("message", text)
            return False
        if event.get("detail-type") == WARNING:  # a recommendation to rebalance is no end yet
            words = [str(event["detail"].get("instance-action")), "announced", str(event.get("time"))]
            self._warned[str(event["detail"].get("instance-id"))] = f"spot interruption: {' '.join(words)[:80]}"
            for oldest in list(self._warned)[:-REMEMBERED]:
                del self._warned[oldest]
        return True

    def _complain(self, subject: str, text: str) -> None:
        if subject not in self._complained:
            self._complained.add(subject)
            log.warning("%s", text)


def _event(body: Any) -> Optional[Mapping[str, Any]]:
    """The event of EC2's in a message, None if it is none."""
    try:
        event = json.loads(body)
    except (TypeError, ValueError):
        return None
    ours = isinstance(event, dict) and event.get("source") == "aws.ec2" and isinstance(event.get("detail"), dict)
    return event if ours else None


class _Queue(EC2Client):
    """The three requests, with the credentials and the proxy of the site."""

    @property
    def url(self) -> str:
        return str(self.options["interruption_queue"])

    def receive(self, **more: Any) -> list[Mapping[str, Any]]:
        asked = {"MaxNumberOfMessages": AT_ONCE, "WaitTimeSeconds": WAIT_S, **more}
        answer = self.call("receive_message", QueueUrl=self.url, **asked)
        if "RequestId" not in answer["ResponseMetadata"]:  # botocore takes any page for an empty answer
            raise Fault("receive_message", "NotSQS", "the answer has no request id: is a login page in between?")
        return answer.get("Messages") or []

    def delete(self, handles: list[str]) -> None:
        entries = [{"Id": str(number), "ReceiptHandle": handle} for number, handle in enumerate(handles)]
        self.call("delete_message_batch", QueueUrl=self.url, Entries=entries)

    def _make(self) -> tuple[Any, Any]:
        from botocore.config import Config
        from botocore.loaders import Loader
        from botocore.session import Session

        from elastiq.plugins.cloud.ec2_answers import limit

        options, url = self.options, urlsplit(self.url)
        session = Session(**whose(options))
        session.register_component("data_loader", Loader(file_loader=SlimFiles()))
        in_host, proxy = REGION.search(url.hostname or ""), options.get("proxy")
        made = session.create_client(
            "sqs",
            region_name=in_host[1] if in_host else region_of({**options, "api_url": self.url}, session),
            endpoint_url=f"{url.scheme}://{url.netloc}",
            verify=(options.get("ca_bundle") or None) if options.get("verify_ssl", True) else False,
            **{key: options.get(key) for key in ("aws_access_key_id", "aws_secret_access_key", "aws_session_token")},
            config=Config(
                connect_timeout=CONNECT_S,
                read_timeout=READ_S,
                retries={"mode": "standard", "total_max_attempts": 1},  # the next listing is the next attempt
                proxies={"http": proxy, "https": proxy} if proxy else None,
                user_agent_extra="elastiq",
            ),
        )
        limit(made, READ_S)
        return made, made


def peek(options: Mapping[str, Any]) -> None:
    """Read the queue, and leave everything in it. Raises `Fault`."""
    _Queue(options).receive(MaxNumberOfMessages=1, WaitTimeSeconds=0, VisibilityTimeout=0)
