"""EC2, through boto3's library.

What speaks like it (Outscale, Eucalyptus, OpenStack, OpenNebula) is `ec2_alikes`. What such clouds answer
differs more than their documentation: every read that is not plainly EC2's answer is an error, never an
empty list. All instances are listed, without filters: some clouds ignore them, and what is not ours has
to be counted too.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Mapping, Optional, Sequence

from elastiq import interfaces
from elastiq.interfaces import CloudCapabilities, EndAnswer, EndOutcome, Instance, Instances, Intent, Owner, Pool
from elastiq.plugins.cloud import ec2_options, ec2_request
from elastiq.plugins.cloud.ec2_client import READ_ATTEMPTS, EC2Client, pages
from elastiq.plugins.cloud.ec2_dialects import dialect_of
from elastiq.plugins.cloud.ec2_fault import Fault
from elastiq.plugins.cloud.ec2_instances import described, sort_instances

if TYPE_CHECKING:
    from elastiq.plugins.cloud.ec2_notices import Notices

log = logging.getLogger(__name__)

PAGE = 1000  # the most that DescribeInstances gives at once


class EC2Cloud(interfaces.Cloud):
    """One endpoint with one set of credentials, and the pools that are launched there."""

    kind = "ec2"
    OPTIONS = ec2_options.OPTIONS

    def __init__(self, pools: Sequence[Pool], owner: Owner, client: EC2Client) -> None:
        self.site, options = pools[0].site, pools[0].options
        self.capabilities = CloudCapabilities(stop=True)
        # botocore's own time-outs and retries end before the executor gives the call up
        self.call_deadline_s = max(120, READ_ATTEMPTS * (options["connect_timeout_s"] + options["read_timeout_s"]) + 15)
        self._pools = {pool.name: pool for pool in pools}
        self._owner, self._client = owner, client
        self._refused: frozenset[str] = frozenset()  # extras of RunInstances that this cloud does not take
        self._images: dict[str, Mapping[str, Any]] = {}
        self._has_catalogue = True
        self._notices: Optional[Notices] = None
        if options.get("interruption_queue"):
            from elastiq.plugins.cloud.ec2_notices import Notices

            self._notices = Notices(options, self._unknown)

    @classmethod
    def site_of(cls, values: Mapping[str, Any]) -> str:
        return ec2_options.site_of(values)

    @classmethod
    def networks_of(cls, values: Mapping[str, Any]) -> tuple[str, ...]:
        return tuple(values.get("subnet_id") or ()) or ("",)  # network_interfaces, or the cloud, decides

    @classmethod
    def markets_of(cls, values: Mapping[str, Any]) -> tuple[str, ...]:
        return ("spot", "on-demand") if dialect_of(values)[0].getboolean("spot") else ("on-demand",)

    @classmethod
    def about(cls, values: Mapping[str, Any]) -> str:
        return dialect_of(values)[1]

    @classmethod
    def from_config(cls, pools: Sequence[Pool], owner: Owner) -> EC2Cloud:
        options = pools[0].options
        dialect, why = dialect_of(options)
        log.info("%s: %s", pools[0].site, why)
        if dialect.name == "aws":
            return cls(pools, owner, EC2Client(options))
        from elastiq.plugins.cloud.ec2_alikes import AlikeCloud, spoken

        return AlikeCloud(pools, owner, EC2Client(spoken(options, dialect)), dialect)

    def _call(self, operation: str, **parameters: Any) -> dict[str, Any]:
        return self._client.call(operation, **parameters)

    def watch(self, told: Any) -> None:
        from elastiq.plugins.cloud.ec2_watch import WatchedClient

        self._client = WatchedClient(self._client, told)

    # ---- reads

    def instances(self, known: frozenset[str]) -> Instances:
        found = sort_instances(self._listed(), self._owner, known)
        return self._notices.added(found) if self._notices and not self.read_only else found

    def find(self, intent: Intent) -> tuple[Instance, ...]:
        """By token or tag, in a listing of everything: that works with clouds that know no filters, too."""
        ours = sort_instances(self._listed(), self._owner, frozenset()).owned
        return tuple(one for one in ours if intent.token == one.token or intent.id == one.intent)

    def problems(self, ids: Sequence[str]) -> Mapping[str, str]:
        """Failed status checks, and scheduled ends of instances. Empty where the cloud does not tell."""
        if not (ids and self.capabilities.instance_problems):
            return {}
        try:
            rows = self._pages("describe_instance_status", "InstanceStatuses")
        except Fault as fault:
            self._denied(fault, "instance status is")
            self.capabilities = replace(self.capabilities, instance_problems=False)
            return {}
        bad = [row for row in rows if row.get("Events") or "impaired" in str(row)]
        if not bad:
            return {}
        from elastiq.plugins.cloud.ec2_problems import problems

        return problems(bad, ids)

    def flavours(self, names: Sequence[str]) -> Mapping[str, interfaces.Resources]:
        """By DescribeInstanceTypes; empty where the cloud does not let us see it: it is not asked again."""
        wanted = sorted({*names} - {""}) if self._has_catalogue else []
        try:
            return self._sizes(wanted) if wanted else {}
        except Fault as fault:
            self._denied(fault, "the sizes of flavours are")
            self._has_catalogue = False
            return {}

    def _sizes(self, names: Sequence[str]) -> Mapping[str, interfaces.Resources]:
        from elastiq.plugins.cloud.ec2_flavours import sizes

        return sizes(self._client, names)

    def _denied(self, fault: Fault, what: str) -> None:
        """Say of a refusal what is not to be had; anything else is an error."""
        error = self._unknown(fault)
        if not fault.denied:
            raise error from None
        log.warning("%s not available: %s", what, error)

    def checks(self) -> interfaces.Looks:
        from elastiq.plugins.cloud.ec2_checks import looks  # the daemon never asks for them

        return looks(self.site, self._pools.values(), self._owner, self._refused, self._client.options)

    def _listed(self) -> list[Mapping[str, Any]]:
        try:
            reservations = self._pages("describe_instances", "Reservations")
        except Fault as fault:
            raise self._unknown(fault) from None
        found = [one for reservation in reservations for one in reservation.get("Instances") or ()]
        if not all(one.get("InstanceId") for one in found):
            raise interfaces.SourceError(f"DescribeInstances at {self.site}: an instance without an id, not EC2's?")
        return found

    def _pages(self, operation: str, key: str) -> list[Mapping[str, Any]]:
        """All rows of a listing."""
        return pages(self._call, operation, key, MaxResults=PAGE)

    # ---- acts

    def launch(self, intent: Intent) -> tuple[Instance, ...]:
        """RunInstances, once. A refused extra costs this intent and is left out of the next one: the same
        token with other parameters would be IdempotentParameterMismatch."""
        pool = self._pools[intent.offer.pool]
        parameters = ec2_request.run_parameters(pool, intent, self._owner, self._refused, self._image(pool))
        try:
            answer = self._call("run_instances", **parameters)
        except Fault as fault:
            from elastiq.plugins.cloud.ec2_extras import refused

            extras, error = refused(fault, parameters, self._refusal(fault))
            self._refused |= extras
            raise error from None
        rows = answer.get("Instances") or []
        if not rows or not all(row.get("InstanceId") for row in rows):
            raise interfaces.TransientError(f"RunInstances at {self.site}: success without ids (looked for by token)")
        return tuple(
            replace(one, pool=pool.name, intent=intent.id, token=intent.token, head=self._owner.head)
            for one in {row["InstanceId"]: described(row) for row in rows}.values()
        )

    def _image(self, pool: Pool) -> Mapping[str, Any]:
        """What the cloud says of the pool's image, remembered; empty where it does not tell."""
        image_id = pool.options.get("image_id") or ""
        if image_id and image_id not in self._images:
            try:
                images = self._call("describe_images", ImageIds=[image_id]).get("Images") or ()
            except Fault as fault:
                from elastiq.plugins.cloud.ec2_errors import of_image

                images = of_image(fault, self._refusal)
            # some clouds list all
            self._images.update((image_id, one) for one in images if one.get("ImageId") == image_id)
        image = self._images.get(image_id, {})
        if pool.options.get("root_disk_gb") and not image.get("RootDeviceName"):
            log.warning("%s does not tell %s's root device: root_disk_gb has no effect", self.site, image_id)
        return image

    def terminate(self, ids: Sequence[str]) -> Mapping[str, EndAnswer]:
        return self._end("terminate", ids)

    def stop(self, ids: Sequence[str]) -> Mapping[str, EndAnswer]:
        return self._end("stop", ids) if self.capabilities.stop else super().stop(ids)

    def start(self, ids: Sequence[str]) -> Mapping[str, EndAnswer]:
        from elastiq.plugins.cloud.ec2_acts import start

        return start(self._ask, ids, self._refusal) if self.capabilities.stop else super().start(ids)

    def _end(self, act: str, ids: Sequence[str]) -> Mapping[str, EndAnswer]:
        try:
            return self._ask(act, ids)
        except Fault as fault:
            from elastiq.plugins.cloud.ec2_acts import refused_end

            return refused_end(fault, self._ask, act, ids, self._unknown)

    def _ask(self, act: str, ids: Sequence[str]) -> Mapping[str, EndAnswer]:
        """In one call, which EC2 refuses for one bad id."""
        unique = list(dict.fromkeys(ids))
        answer = self._call(f"{act}_instances", InstanceIds=unique) if unique else {}
        named = {row.get("InstanceId") for rows in answer.values() if isinstance(rows, list) for row in rows}
        # An id that is not named may not be ending (Eucalyptus says false and names nobody): it is asked for
        # again, which does no harm, until the listing shows its end.
        silent = EndAnswer(EndOutcome.FAILED, "the cloud's answer does not name it")
        return {one: EndAnswer(EndOutcome.ENDING) if one in named else silent for one in unique}

    def adopt(self, ids: Sequence[str]) -> None:
        if not self.capabilities.tags:
            return super().adopt(ids)
        from elastiq.plugins.cloud.ec2_acts import adopt

        adopt(self._call, ids, self._owner, self._unknown)

    # ---- telling

    def _secrets(self) -> set[Optional[str]]:
        """Made when there is an error to tell: user data may be long."""
        from elastiq.plugins.cloud.ec2_telling import secrets_of

        return {secret for pool in self._pools.values() for secret in secrets_of(pool.options)}

    def _refusal(self, fault: Fault) -> interfaces.LaunchError:
        from elastiq.plugins.cloud.ec2_errors import launch_error

        return launch_error(fault, self.site, self._secrets())

    def _unknown(self, fault: Fault) -> interfaces.SourceError:
        from elastiq.plugins.cloud.ec2_errors import read_error

        return read_error(fault, self.site, self._secrets())
