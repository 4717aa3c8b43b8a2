"""Clouds that speak EC2's language and are not EC2: each can do less, and does some things differently.

What is known beforehand is in ec2_dialects.ini; the rest is found out by reading, or by a refusal that surely
launched nothing. On AWS this module is not loaded.
"""

from __future__ import annotations

import logging
import re
from collections import Counter, defaultdict
from configparser import SectionProxy
from dataclasses import replace
from typing import Any, Iterator, Mapping, Sequence
from urllib.parse import urlsplit

from elastiq.interfaces import CloudCapabilities, Instance, Instances, InstanceState, Intent, Owner, Pool, Resources
from elastiq.plugins.cloud.ec2 import PAGE, EC2Cloud
from elastiq.plugins.cloud.ec2_client import EC2Client, pages
from elastiq.plugins.cloud.ec2_dialects import TABLE
from elastiq.plugins.cloud.ec2_errors import NOT_FOUND, STRICT, Fault
from elastiq.plugins.cloud.ec2_request import TAG_CLUSTER, TAG_HEAD, TAG_INTENT, TAGS, tag_list, tags_of

log = logging.getLogger(__name__)

TAG_TRIES = 3  # for each instance: a cloud may say yes to CreateTags and show no tags
LIVE = (InstanceState.PENDING, InstanceState.RUNNING)


def spoken(options: Mapping[str, Any], dialect: SectionProxy) -> dict[str, Any]:
    """The options of the client, with the dialect's ways where the configuration says nothing."""
    url = options.get("api_url") or ""
    path = dialect["path"] if url and urlsplit(url).path in ("", "/") else ""
    version = options.get("api_version") or dialect["api_version"]
    return {
        **options,
        "api_url": url.rstrip("/") + path if path else url or None,
        "api_version": version or None,
        "signature": dialect["signature"],
    }


class AlikeCloud(EC2Cloud):
    """A site that is not AWS's."""

    def __init__(self, pools: Sequence[Pool], owner: Owner, client: EC2Client, dialect: SectionProxy) -> None:
        super().__init__(pools, owner, client)
        self._tries: Counter[str] = Counter()
        self._made: dict[str, Intent] = {}  # what was launched here, until it was seen with tags
        self._speak(dialect)

    def _speak(self, dialect: SectionProxy) -> None:
        """Take from the table what this cloud can do."""
        self._dialect = dialect
        self._refused = frozenset(filter(None, dialect["without"].split(", ")))
        if dialect["tags"] in ("after", "none"):
            self._refused |= {TAGS}
        status, stop = (bool(dialect.getboolean(key)) for key in ("status", "stop"))
        self.capabilities = CloudCapabilities(dialect["tags"] != "none", True, status, stop)
        # An extra of a listing that means nothing: what is strict with parameters says so before the first launch.
        probe = {"DryRun": False} if dialect.name == "generic" else {}
        self._extras: Mapping[str, Any] = {"MaxResults": PAGE, **probe} if dialect.getboolean("pages") else {}

    # ---- reads

    def _call(self, operation: str, **parameters: Any) -> dict[str, Any]:
        answer = super()._call(operation, **parameters)
        if answer.get("Return") is True and "InstanceIds" in parameters:
            # OpenStack names nobody; whom it ends it has named since ec2-api
            answer.setdefault("TerminatingInstances", [{"InstanceId": one} for one in parameters["InstanceIds"]])
        for row in _rows(answer) if self._dialect["ids"] == "numbers" else ():
            row["InstanceId"] = re.sub(r"^(i-)?0*(?=\d)", "i-", row.get("InstanceId") or "")
        return answer

    def _pages(self, operation: str, key: str) -> list[Mapping[str, Any]]:
        """All rows of a listing, by pages or, where the cloud does not take that, in one answer."""
        extras, strict = self._extras, False
        try:
            return pages(self._call, operation, key, **extras)
        except Fault as fault:
            strict = fault.code == STRICT
            if not (extras and (fault.refused or strict)):
                raise
        rows = pages(self._call, operation, key)
        self._extras = {}  # now it is known that they were what was wrong
        if strict and self._dialect.name == "generic":
            self._speak(TABLE["openstack-ec2api"])
            log.info("%s: dialect openstack-ec2api: it takes no parameter that it does not know", self.site)
        return rows

    def instances(self, known: frozenset[str]) -> Instances:
        found = super().instances(known)
        for one in found.owned:
            if one.head:
                self._made.pop(one.id, None)
        bare = [one for one in found.owned if not one.head and one.state in LIVE and not self.read_only]
        if self.capabilities.tags and self._dialect["tags"] != "launch":
            self._tag([one for one in bare if self._tries[one.id] < TAG_TRIES])
        elif self.capabilities.find and any(not one.token for one in bare):
            self.capabilities = replace(self.capabilities, find=False)
            text = "%s shows neither tags nor tokens: only the state directory tells which instances are ours"
            log.warning(text, self.site)
        return found

    def _sizes(self, names: Sequence[str]) -> Mapping[str, Resources]:
        if self._dialect["types"] == "eucalyptus":
            from elastiq.plugins.cloud.ec2_eucalyptus import sizes

            return sizes(self._client.options, names)
        return super()._sizes(names) if self._dialect["types"] == "ec2" else {}

    # ---- acts

    def launch(self, intent: Intent) -> tuple[Instance, ...]:
        made = super().launch(intent)
        self._made.update(dict.fromkeys((one.id for one in made), intent))
        return made

    def _tag(self, bare: Sequence[Instance]) -> None:
        """CreateTags for instances of ours that have none, a call for each intent."""
        groups: dict[tuple[str, str], list[str]] = defaultdict(list)
        for one in bare:
            intent = self._made.get(one.id)
            only = next(iter(self._pools)) if len(self._pools) == 1 else ""
            key = intent.id if intent else one.token.replace(self._owner.token_prefix, "", 1)
            groups[intent.offer.pool if intent else only, key].append(one.id)
        for (name, key), ids in groups.items():
            self._tries.update(ids)
            owner, pool = self._owner, self._pools.get(name)  # of several pools it may not be known which
            ours = {TAG_CLUSTER: owner.cluster, TAG_HEAD: owner.head, TAG_INTENT: key}
            tags = tags_of(pool, key, owner) if pool else tag_list(ours)
            try:
                self._call("create_tags", Resources=ids, Tags=tags)
            except Fault as fault:
                if fault.refused and fault.code not in NOT_FOUND:
                    self.capabilities = replace(self.capabilities, tags=False)
                log.warning("%s stays without tags: %s", ", ".join(ids), self._unknown(fault))


def _rows(answer: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Every instance in an answer."""
    for act in ("Starting", "Stopping", "Terminating"):
        yield from answer.get(f"{act}Instances") or ()
    for reservation in (answer, *(answer.get("Reservations") or ())):
        yield from reservation.get("Instances") or ()
