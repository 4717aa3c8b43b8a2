"""`elastiqctl check` at an EC2 site: what each thing that can be wrong is told as, and that nothing is done."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import boto3
import pytest

from elastiq.interfaces import Check, Pool
from elastiq.plugins.cloud import ec2_client, ec2_quotas, ec2_rare_values
from elastiq.plugins.cloud.ec2 import EC2Cloud
from tests.ec2_server import KEYS, OWNER, EC2Server, Rule, answer, cloud_at, error, instances, moto_server
from tests.integration.ec2_answers import made, one
from tests.looks import by_subject, found
from tests.service_quotas import ServiceQuotas

HTML = (("Content-Type", "text/html"),)
ENDPOINT, LAUNCH = "endpoint and credentials", "pool ec2: dry run of a launch"
WOULD = error("DryRunOperation", status=412)
READS = ("instances of this cluster", "instance status", "right to terminate", "right to tag", LAUNCH)


_make, _clients = ec2_client._make_clients, dict[str, Any]()


@pytest.fixture(autouse=True)
def clients_are_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """For each kind of options: every check of these tests would make its own, which is most of their time."""

    def kept(options: Mapping[str, Any]) -> Any:
        key = repr(sorted((name, repr(options.get(name))) for name in options if name != "user_data"))
        if key not in _clients:
            _clients[key] = _make(options)
        return _clients[key]

    monkeypatch.setattr(ec2_client, "_make_clients", kept)


@pytest.fixture(scope="module")
def moto() -> Iterator[EC2Server]:
    server = moto_server()
    yield server
    server.close()


def checked(server: EC2Server, **options: Any) -> dict[str, Check]:
    return by_subject(cloud_at(server.url, **{"dialect": "aws", **options}).checks())


def alone(server: EC2Server, subject: str, **options: Any) -> Check:
    """The worst that one look finds, without the others."""
    looks = cloud_at(server.url, **{"dialect": "aws", **options}).checks()
    return by_subject({subject: looks[subject]})[subject]


def acts(server: EC2Server) -> list[dict[str, str]]:
    """The requests that could have changed something."""
    return [one for one in server.requests if not one["Action"].startswith("Describe")]


# --------------------------------------------------------------------------- all is well


def test_a_good_site_is_ok_and_nothing_is_launched_or_changed(moto: EC2Server, monkeypatch: pytest.MonkeyPatch) -> None:
    client: Any = boto3.Session(**KEYS).client("ec2", region_name="us-east-1", endpoint_url=moto.url)
    subnet = client.describe_subnets()["Subnets"][0]
    vpc = {"Filters": [{"Name": "vpc-id", "Values": [subnet["VpcId"]]}]}
    group = client.describe_security_groups(**vpc)["SecurityGroups"][0]["GroupId"]
    client.create_key_pair(KeyName="workers")
    data = {"InstanceType": "m5.large"}
    template = client.create_launch_template(LaunchTemplateName="workers", LaunchTemplateData=data)
    before = client.describe_instances()["Reservations"]
    quotas = ServiceQuotas()
    monkeypatch.setattr(ec2_quotas, "service_quotas_url", lambda options: quotas.url)
    moto.forget()
    cloud = cloud_at(
        moto.url, dialect="aws", region="us-east-1", subnet_id=(subnet["SubnetId"],), security_group_ids=(group,),
        key_name="workers", launch_template="workers", user_data=b"#!/bin/sh\n",
    )  # fmt: skip
    checks = found(cloud.checks())
    quotas.close()
    # moto knows every flavour in every zone but small ones of m5, which AWS does not have either
    wrong = {check.subject: check for check in checks if check.level != "ok"}
    assert set(wrong) == {"pool ec2: flavours"} and "m5.small: no such flavour" in wrong["pool ec2: flavours"].text
    assert len({check.subject for check in checks}) == 15
    assert {one["Action"] for one in acts(moto)} == {"RunInstances", "TerminateInstances", "CreateTags"}
    assert {one.get("DryRun") for one in acts(moto)} == {"true"}
    assert client.describe_instances()["Reservations"] == before
    client.delete_launch_template(LaunchTemplateId=template["LaunchTemplate"]["LaunchTemplateId"])


def test_a_dry_run_asks_for_all_that_a_launch_would_and_for_each_offer(bare: EC2Server) -> None:
    bare.script("DescribeInstances", instances())
    bare.script("RunInstances", WOULD, error("InvalidParameterValue", "Invalid value 'm5.large' for InstanceType."))
    looks = cloud_at(bare.url, dialect="aws", image_id=None, launch_template="t:3").checks()
    good, bad = found({LAUNCH: looks[LAUNCH]})
    assert (good.level, bad.level) == ("ok", "error")
    assert "m5.small" in good.text and "m5.large" in bad.text and bad.remedy == "check flavour"
    first, second = bare.asked("RunInstances")
    assert (first["InstanceType"], second["InstanceType"]) == ("m5.small", "m5.large")
    for request in (first, second):
        assert request["DryRun"] == "true" and request["LaunchTemplate.Version"] == "3"
        assert request["ClientToken"].startswith(OWNER.token_prefix)
        assert "TagSpecification.1.Tag.1.Key" in request
    assert first["ClientToken"] != second["ClientToken"]


# --------------------------------------------------------------------------- the endpoint, the keys, the clock


@pytest.mark.parametrize(
    ("rule", "level", "words"),
    [
        (error("AuthFailure", "AWS was not able to validate the access credentials", 401), "error", "AuthFailure"),
        (error("UnauthorizedOperation", "not you", 403), "error", "UnauthorizedOperation"),
        (Rule("<html>Please log in</html>", headers=HTML), "error", "login page"),
        (Rule("<html>no</html>", 404, headers=HTML), "error", "404"),
        (error("RequestLimitExceeded", "slowly", 503), "unknown", "RequestLimitExceeded"),
        (error("InternalError", "oh", 500), "unknown", "InternalError"),
    ],
)
def test_an_endpoint_that_does_not_take_us_is_told_and_the_rest_is_unknown(
    bare: EC2Server, rule: Rule, level: str, words: str
) -> None:
    bare.script("DescribeInstances", *[rule] * 3)
    checks = checked(bare)
    assert checks[ENDPOINT].level == level and words in checks[ENDPOINT].text and checks[ENDPOINT].remedy
    assert {checks[name].level for name in READS} == {"unknown"}
    assert len(bare.asked("DescribeInstances")) <= 3, "asked once, for all of them"
    if words != "UnauthorizedOperation":  # then it is only the listing that is not allowed
        assert acts(bare) == [] and {one["Action"] for one in bare.requests} == {"DescribeInstances"}
        assert all("not looked at" in checks[name].text for name in READS)


def test_an_endpoint_that_nobody_answers_at_is_an_error(bare: EC2Server) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        cloud = cloud_at(f"http://127.0.0.1:{taken.getsockname()[1]}", dialect="aws", connect_timeout_s=1.0)
        checks = by_subject(cloud.checks())
    assert checks[ENDPOINT].level == "error" and "EndpointConnectionError" in checks[ENDPOINT].text
    assert checks["clock"].level == "unknown"


@pytest.mark.parametrize(
    ("off_s", "level", "words"),
    [(0, "ok", "as the cloud's"), (-30, "ok", "ahead"), (120, "warning", "behind"), (-3600, "error", "ahead of")],
)
def test_a_clock_that_is_wrong_is_told_by_the_answers_own_date(
    bare: EC2Server, off_s: float, level: str, words: str
) -> None:
    bare.set_clock(off_s)
    bare.script("DescribeInstances", instances())
    check = alone(bare, "clock")
    assert (check.level, bool(check.remedy)) == (level, level != "ok") and words in check.text


def test_a_request_that_is_refused_for_the_clock_tells_how_wrong_it_is(bare: EC2Server) -> None:
    expired = error("RequestExpired", "Request has expired. Timestamp date is 2026-01-01T00:00:00Z")
    bare.set_clock(1800)
    bare.script("DescribeInstances", *[expired] * 3)
    checks = checked(bare)
    assert checks[ENDPOINT].level == checks["clock"].level == "error"
    assert "clock" in checks[ENDPOINT].remedy and " s behind the cloud's" in checks["clock"].text


def test_keys_in_a_file_are_for_nobody_else(bare: EC2Server, tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text("[default]\n")
    for mode, level in ((0o600, "ok"), (0o640, "warning"), (0o604, "warning")):
        file.chmod(mode)
        assert alone(bare, "file of keys", credentials_file=str(file)).level == level
    file.unlink()
    assert alone(bare, "file of keys", credentials_file=str(file)).level == "error"


def test_a_file_that_systemd_copies_for_the_service_is_for_nobody_else_either(
    bare: EC2Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Path, "parents", property(lambda path: []))  # pytest's own directories let nobody in
    (tmp_path / "run").mkdir()
    itself = tmp_path / "elastiq-aws"
    for file in (itself, tmp_path / "run" / itself.name):
        file.write_text("[default]\n")
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(tmp_path / "run"))
    for mode, level in ((0o600, "ok"), (0o604, "warning")):
        itself.chmod(mode)
        found = alone(bare, "file of keys", credentials_file=ec2_rare_values.copy(str(itself)))
        assert found.level == level and (str(itself) in found.remedy) is (level != "ok")


def test_no_secret_of_the_configuration_is_in_a_check(bare: EC2Server) -> None:
    secret, data = KEYS["aws_secret_access_key"], b"#!/bin/sh\ntoken=Zq8vW2xT5yR7\n"
    bare.script("DescribeInstances", error("SignatureDoesNotMatch", f"with {secret} it is {data.decode()}", 403))
    text = repr(found(cloud_at(bare.url, dialect="aws", user_data=data).checks()))
    assert secret not in text and "Zq8vW2xT5yR7" not in text and "SignatureDoesNotMatch" in text


# --------------------------------------------------------------------------- what the pool names


SOME: dict[str, Any] = {
    "subnet_id": ("subnet-1", "subnet-2"),
    "security_group_ids": ("sg-1",),
    "key_name": "workers",
    "launch_template": "lt-0123456789abcdef0",
}
OF = {  # subject, action, the refusal for what is not there, and a good answer without it
    "pool ec2: image": ("DescribeImages", "InvalidAMIID.NotFound", "<imagesSet/>"),
    "pool ec2: subnets": ("DescribeSubnets", "InvalidSubnetID.NotFound", "<subnetSet/>"),
    "pool ec2: security groups": ("DescribeSecurityGroups", "InvalidGroup.NotFound", "<securityGroupInfo/>"),
    "pool ec2: key pair": ("DescribeKeyPairs", "InvalidKeyPair.NotFound", "<keySet/>"),
    "pool ec2: launch template": (
        "DescribeLaunchTemplateVersions",
        "InvalidLaunchTemplateId.NotFound",
        "<launchTemplateVersionSet/>",
    ),
    "pool ec2: flavours": ("DescribeInstanceTypes", "InvalidInstanceType", "<instanceTypeSet/>"),
}


@pytest.mark.parametrize("subject", OF)
def test_what_is_not_there_is_an_error_and_what_may_not_be_seen_is_unknown(bare: EC2Server, subject: str) -> None:
    action, code, none = OF[subject]
    for rule, level in (
        (error(code, "The name 'x' does not exist"), "error"),
        (answer(action, none), "error"),
        (error("UnauthorizedOperation", "You are not authorized", 403), "unknown"),
        (error("InvalidAction", "The action is not valid"), "unknown"),
        (error("InternalError", "oh", 500), "unknown"),
        (Rule("<html>Please log in</html>", headers=HTML), "unknown"),
    ):
        bare.forget()
        bare.script("DescribeInstances", instances())
        bare.script(action, *[rule] * 3)
        check = alone(bare, subject, **SOME)
        assert (check.level, bool(check.remedy), acts(bare)) == (level, True, []), (rule.body, check)
        if "not authorized" in str(rule.body):
            assert check.remedy.startswith(f"allow ec2:{action} (docs/iam.md)")


def image(*more: str, state: str = "available", architecture: str = "x86_64", root_gb: int = 20) -> Rule:
    root = f"<item><deviceName>/dev/xvda</deviceName><ebs><volumeSize>{root_gb}</volumeSize></ebs></item>"
    inner = (
        f"<imageId>ami-12c6146b</imageId><imageState>{state}</imageState><architecture>{architecture}</architecture>"
        f"<rootDeviceName>/dev/xvda</rootDeviceName><blockDeviceMapping>{root}</blockDeviceMapping>"
    )
    return answer("DescribeImages", f"<imagesSet><item>{inner}</item></imagesSet>")


@pytest.mark.parametrize(
    ("rule", "options", "level", "words"),
    [
        (image(), {}, "ok", "is available"),
        (image(state="pending"), {}, "warning", "is pending"),
        (image(state="failed"), {}, "error", "is failed"),
        (image(), {"root_disk_gb": 10}, "error", "root_disk_gb = 10 is less than the 20 GB"),
        (image(), {"root_disk_gb": 20}, "ok", "is available"),
    ],
)
def test_an_image_has_to_be_available_and_fit_its_disk(
    bare: EC2Server, rule: Rule, options: dict[str, Any], level: str, words: str
) -> None:
    bare.script("DescribeInstances", instances())
    bare.script("DescribeImages", rule)
    check = alone(bare, "pool ec2: image", **options)
    assert check.level == level and words in check.text


def types(*names: str, architecture: str = "x86_64", vcpus: int = 2) -> Rule:
    items = "".join(
        f"<item><instanceType>{name}</instanceType><vCpuInfo><defaultVCpus>{vcpus}</defaultVCpus></vCpuInfo>"
        f"<processorInfo><supportedArchitectures><item>{architecture}</item></supportedArchitectures></processorInfo>"
        "</item>"
        for name in names
    )
    return answer("DescribeInstanceTypes", f"<instanceTypeSet>{items}</instanceTypeSet>")


def subnet(name: str, zone: str = "z-1a", free: int = 50, vpc: str = "vpc-1", state: str = "available") -> str:
    return (
        f"<item><subnetId>{name}</subnetId><availabilityZone>{zone}</availabilityZone><vpcId>{vpc}</vpcId>"
        f"<state>{state}</state><availableIpAddressCount>{free}</availableIpAddressCount></item>"
    )


def subnets(*items: str) -> Rule:
    return answer("DescribeSubnets", f"<subnetSet>{''.join(items)}</subnetSet>")


def test_a_flavour_that_cannot_run_the_image_is_an_error(bare: EC2Server) -> None:
    bare.script("DescribeInstances", instances())
    bare.script("DescribeImages", image(architecture="arm64"))
    bare.script("DescribeInstanceTypes", types("m5.small", "m5.large"))
    check = alone(bare, "pool ec2: flavours")
    assert check.level == "error" and "m5.large, m5.small cannot run ami-12c6146b, which is arm64" in check.text


@pytest.mark.parametrize(
    ("offered", "level", "words"),
    [
        ([("m5.small", "z-1a"), ("m5.large", "z-1a"), ("m5.small", "z-1b"), ("m5.large", "z-1b")], "ok", "catalogue"),
        ([("m5.small", "z-1a"), ("m5.large", "z-1a"), ("m5.small", "z-1b")], "warning", "m5.large in z-1b"),
        ([], "error", "none is offered in a zone of the subnets"),
    ],
)
def test_flavours_that_the_subnets_zones_do_not_have_are_told(
    bare: EC2Server, offered: list[tuple[str, str]], level: str, words: str
) -> None:
    rows = "".join(f"<item><instanceType>{t}</instanceType><location>{z}</location></item>" for t, z in offered)
    action = "DescribeInstanceTypeOfferings"
    bare.script("DescribeInstances", instances())
    bare.script("DescribeImages", image())
    bare.script("DescribeInstanceTypes", types("m5.small", "m5.large"))
    bare.script("DescribeSubnets", subnets(subnet("subnet-1"), subnet("subnet-2", "z-1b")))
    bare.script(action, answer(action, f"<instanceTypeOfferingSet>{rows}</instanceTypeOfferingSet>"))
    check = alone(bare, "pool ec2: flavours", **SOME)
    assert check.level == level and words in check.text


@pytest.mark.parametrize(
    ("free", "min_vms", "max_vms", "level", "words"),
    [
        ((50, 50), 2, 10, "ok", "room for 100 more"),
        ((2, 3), 2, 10, "warning", "room for 5 more, max_vms is 10"),
        ((1, 0), 2, 10, "error", "room for 1 more, min_vms is 2"),
        ((0, 0), 0, None, "error", "room for 0 more"),
    ],
)
def test_subnets_need_addresses_for_the_pools_machines(
    bare: EC2Server, free: tuple[int, int], min_vms: int, max_vms: int, level: str, words: str
) -> None:
    bare.script("DescribeInstances", instances())
    bare.script("DescribeSubnets", subnets(*(subnet(f"subnet-{n}", free=count) for n, count in enumerate(free, 1))))
    options = dict(cloud_at(bare.url, dialect="aws", **SOME)._pools["ec2"].options)
    pool = Pool("ec2", "site", ("m5.small",), min_vms=min_vms, max_vms=max_vms, options=options)
    (check,) = EC2Cloud.from_config((pool,), OWNER).checks()["pool ec2: subnets"]()
    assert check.level == level and words in check.text


def test_groups_of_another_network_than_the_subnets_are_an_error(bare: EC2Server) -> None:
    row = "<item><groupId>sg-1</groupId><groupName>g</groupName><vpcId>{}</vpcId></item>"
    for vpc, level in (("vpc-1", "ok"), ("vpc-2", "error")):
        bare.forget()
        bare.script("DescribeInstances", instances())
        found = f"<securityGroupInfo>{row.format(vpc)}</securityGroupInfo>"
        bare.script("DescribeSecurityGroups", answer("DescribeSecurityGroups", found))
        bare.script("DescribeSubnets", subnets(subnet("subnet-1"), subnet("subnet-2")))
        check = alone(bare, "pool ec2: security groups", **SOME)
        assert check.level == level and (level == "ok" or "of vpc-2, while the subnets are of vpc-1" in check.text)


@pytest.mark.parametrize(
    ("data", "level", "words"),
    [
        (b"", "ok", "none"),
        (b"#cloud-config\nruncmd: []\n", "ok", "25 of at most 16,384 bytes"),
        (b"\x1f\x8b\x08rest", "ok", "7 of at most"),
        (b"echo hello\n", "warning", "cloud-init knows"),
        (b" #!/bin/sh\n", "warning", "cloud-init knows"),
        (b"#!/bin/sh\r\necho\r\n", "warning", "CR LF"),
        (b"#!" + b"x" * 16_383, "error", "16,385 of at most 16,384 bytes"),
    ],
)
def test_user_data_has_a_size_and_a_beginning(bare: EC2Server, data: bytes, level: str, words: str) -> None:
    check = alone(bare, "pool ec2: user data", user_data=data)
    assert check.level == level and words in check.text and bare.requests == []


def test_instances_of_another_head_are_told(bare: EC2Server) -> None:
    tags = [("elastiq:cluster", OWNER.cluster), ("elastiq:head", "f" * 32)]
    rows = "".join(f"<item><key>{key}</key><value>{value}</value></item>" for key, value in tags)
    state = "<instanceState><code>16</code><name>running</name></instanceState>"
    bare.script("DescribeInstances", instances(f"<instanceId>i-1</instanceId>{state}<tagSet>{rows}</tagSet>"))
    check = alone(bare, "instances of this cluster")
    assert check.level == "warning" and "i-1" in check.text and "elastiqctl adopt" in check.remedy


# --------------------------------------------------------------------------- dry runs


@pytest.mark.parametrize(
    ("rule", "level"),
    [
        (error("UnauthorizedOperation", "not you", 403), "error"),
        (error("InvalidKeyPair.NotFound", "no such key"), "error"),
        (error("InstanceLimitExceeded", "too many"), "warning"),
        (error("UnknownParameter", "The parameter TagSpecification is not recognized"), "warning"),
        (error("RequestLimitExceeded", "slowly", 503), "unknown"),
    ],
)
def test_a_dry_run_tells_what_a_launch_would_be_refused_for(bare: EC2Server, rule: Rule, level: str) -> None:
    bare.script("DescribeInstances", instances())
    bare.script("RunInstances", rule, rule)
    check = alone(bare, LAUNCH, image_id=None, launch_template="t")
    assert check.level == level and check.remedy


@pytest.mark.parametrize("dialect", ["generic", "auto", "eucalyptus", "openstack-ec2api", "opennebula"])
def test_where_dry_runs_may_be_ignored_none_is_sent(bare: EC2Server, dialect: str) -> None:
    bare.script("DescribeInstances", instances())
    checks = checked(bare, dialect=dialect)
    assert checks[LAUNCH].level == checks["right to terminate"].level == "warning"
    assert acts(bare) == [] and not any("DryRun" in request for request in bare.requests)


def launched(server: EC2Server, *ends: Rule) -> Check:
    server.script("TerminateInstances", *ends)
    return alone(server, LAUNCH, image_id=None, launch_template="t", read_timeout_s=2.0)


def test_what_a_cloud_launches_in_a_dry_run_is_ended_at_once_and_told_loudly(bare: EC2Server) -> None:
    bare.script("DescribeInstances", instances())
    bare.script("RunInstances", made(one("i-1"), one("i-2")), WOULD)
    check = launched(bare, answer("TerminateInstances"))
    assert check.level == "error" and "IGNORED DryRun AND LAUNCHED i-1, i-2, which was ended" in check.text
    (sent,) = bare.asked("TerminateInstances")
    assert (sent["InstanceId.1"], sent["InstanceId.2"], "DryRun" in sent) == ("i-1", "i-2", False)


def test_an_end_that_fails_is_tried_again_and_then_a_person_is_asked_to(bare: EC2Server) -> None:
    busy = error("Busy")
    bare.script("DescribeInstances", instances())
    bare.script("RunInstances", made(one("i-1")), WOULD)
    check = launched(bare, busy, busy, answer("TerminateInstances"))
    assert "was ended again" in check.text
    bare.forget()
    bare.script("DescribeInstances", instances())
    bare.script("RunInstances", made(one("i-1")), WOULD)
    check = launched(bare, *[busy] * 3)
    assert "WHICH COULD NOT BE ENDED" in check.text and check.remedy.startswith("terminate i-1 by hand now")


def test_a_dry_run_whose_answer_is_lost_is_looked_for_by_its_token(bare: EC2Server) -> None:
    class Cloud(EC2Server):
        """One that launches in a dry run, and whose answer gets lost."""

        def _serve(self, environ: Any, start: Any) -> Any:
            token = next((one["ClientToken"] for one in self.asked("RunInstances")), "")
            listed = instances(f"<instanceId>i-9</instanceId><clientToken>{token}</clientToken>")
            self._rules.pop("DescribeInstances", None)
            self.script("DescribeInstances", listed if token else instances())
            return super()._serve(environ, start)

    cloud = Cloud()
    try:
        cloud.script("RunInstances", Rule(drop=True), WOULD)
        check = launched(cloud, answer("TerminateInstances"))
    finally:
        cloud.close()
    assert check.level == "error" and "LAUNCHED i-9" in check.text
    assert [sent["InstanceId.1"] for sent in cloud.asked("TerminateInstances")] == ["i-9"]


@pytest.mark.parametrize(
    ("rule", "level"),
    [
        (WOULD, "ok"),
        (error("InvalidInstanceID.NotFound", "does not exist"), "ok"),
        (error("UnauthorizedOperation", "not you", 403), "warning"),
        (error("InternalError", "oh", 500), "unknown"),
    ],
)
def test_the_right_to_end_is_tried_on_no_instance_that_exists(bare: EC2Server, rule: Rule, level: str) -> None:
    bare.script("DescribeInstances", instances("<instanceId>i-0123456789abcdef0</instanceId>"))
    bare.script("TerminateInstances", *[rule] * 3)
    check = alone(bare, "right to terminate")
    assert check.level == level and (level != "warning" or f"elastiq:cluster is {OWNER.cluster}" in check.remedy)
    assert {sent["InstanceId.1"] for sent in bare.asked("TerminateInstances")} == {"i-0e1a5719c4ec00d1e"}
    assert {sent["DryRun"] for sent in bare.asked("TerminateInstances")} == {"true"}


# --------------------------------------------------------------------------- quotas


@pytest.fixture
def quotas(monkeypatch: pytest.MonkeyPatch) -> Iterator[ServiceQuotas]:
    server = ServiceQuotas()
    monkeypatch.setattr(ec2_quotas, "service_quotas_url", lambda options: server.url)
    yield server
    server.close()


def running(name: str, flavour: str, cores: int, more: str = "") -> str:
    return (
        f"<instanceId>{name}</instanceId><instanceType>{flavour}</instanceType>{more}"
        "<instanceState><code>16</code><name>running</name></instanceState>"
        f"<cpuOptions><coreCount>{cores}</coreCount><threadsPerCore>2</threadsPerCore></cpuOptions>"
    )


def of_quota(
    server: EC2Server, flavour: str = "m5.large", markets: tuple[str, ...] = ("on-demand",), **more: Any
) -> Check:
    options = dict(cloud_at(server.url, dialect="aws", region="us-east-1")._pools["ec2"].options)
    pool = Pool("ec2", "site", (flavour,), markets=markets, options=options, **more)
    (check,) = EC2Cloud.from_config((pool,), OWNER).checks()["pool ec2: quota of the account"]()
    return check


@pytest.mark.parametrize(
    ("flavour", "markets", "limits", "level", "words"),
    [
        ("m5.large", ("on-demand",), {"max_vms": 8}, "ok", "32 vCPUs, 16 are in use; m5.large has 2: room for 8 more"),
        ("im4gn.large", ("on-demand",), {"max_vms": 9}, "warning", "room for 8 more, max_vms is 9"),
        ("c5.large", ("on-demand",), {"min_vms": 9}, "error", "room for 8 more, min_vms is 9"),
        ("g4dn.large", ("on-demand",), {}, "error", "G and VT instances: 0 vCPUs"),
        ("m5.large", ("spot",), {}, "ok", "Spot Instance Requests: 5 vCPUs, 4 are in use"),
        ("m5.large", ("spot", "on-demand"), {}, "ok", "room for 8 more"),
        ("p5.large", ("spot",), {}, "ok", "All P5 Spot"),
        ("p3.large", ("spot",), {}, "ok", "All P4, P3 and P2 Spot"),
        ("u-6tb1.metal", ("on-demand",), {}, "ok", "High Memory"),
        ("mac2.metal", ("on-demand",), {}, "warning", "no quota of these flavours is known"),
    ],
)
def test_the_quota_of_vcpus_is_held_against_what_the_pool_must_and_may_have(
    bare: EC2Server, quotas: ServiceQuotas, flavour: str, markets: tuple[str, ...], limits: Any, level: str, words: str
) -> None:
    quotas.quotas["All Standard (A, C, D, H, I, M, R, T, Z) Spot Instance Requests"] = 5.0 if level != "ok" else 6.0
    spot = "<instanceLifecycle>spot</instanceLifecycle>"
    bare.script(
        "DescribeInstances",
        instances(running("i-1", "r5.4xlarge", 8), running("i-2", "g4dn.xlarge", 2), running("i-3", "t3.x", 2, spot)),
    )
    bare.script("DescribeInstanceTypes", types(flavour))
    check = of_quota(bare, flavour, markets, **limits)
    expected = words.replace("5 vCPUs", "6 vCPUs") if "Spot Instance Requests: 5" in words else words
    assert check.level == level and expected in check.text, check
    assert quotas.actions == ["ListServiceQuotas", "ListServiceQuotas"], "in pages"


def test_quotas_are_those_of_the_region_of_the_endpoint() -> None:
    asked = ec2_quotas.of_service({"api_url": "https://ec2.eu-west-3.amazonaws.com/"}, "")
    assert (asked["region"], asked["api_url"], asked["service"]) == ("eu-west-3", None, "service-quotas")
    assert ec2_quotas.of_service({"region": "us-west-2", "api_url": None}, "")["region"] == "us-west-2"
    for url, place in ((None, ""), ("https://ec2.eu-west-3.amazonaws.com/", ""), ("http://10.0.0.1:8773/", None)):
        assert ec2_quotas.service_quotas_url({"api_url": url}) == place


def test_a_quota_that_may_not_be_seen_is_unknown(bare: EC2Server, quotas: ServiceQuotas) -> None:
    quotas.refusal = "AccessDeniedException"
    bare.script("DescribeInstances", instances())
    check = of_quota(bare)
    assert check.level == "unknown" and check.remedy.startswith("allow servicequotas:ListServiceQuotas (docs/iam.md)")


@pytest.mark.parametrize(
    ("most", "limits", "level", "words"),
    [
        ("20", {"max_vms": 5}, "ok", "20 instances, 1 are there: room for 19 more"),
        ("3", {"max_vms": 5}, "warning", "room for 2 more, max_vms is 5"),
        ("2", {"min_vms": 2}, "error", "room for 1 more, min_vms is 2"),
        ("-1", {}, "ok", "unlimited"),
        ("", {}, "warning", "does not tell"),
    ],
)
def test_elsewhere_the_number_of_instances_is_asked_for(
    bare: EC2Server, most: str, limits: Any, level: str, words: str
) -> None:
    values = f"<item><attributeValue>{most}</attributeValue></item>" if most else ""
    row = f"<item><attributeName>max-instances</attributeName><attributeValueSet>{values}</attributeValueSet></item>"
    action = "DescribeAccountAttributes"
    bare.script("DescribeInstances", instances("<instanceId>i-1</instanceId>"))
    bare.script(action, answer(action, f"<accountAttributeSet>{row}</accountAttributeSet>"))
    check = of_quota(bare, **limits)
    assert check.level == level and words in check.text
