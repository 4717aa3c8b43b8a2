"""The IAM policy that is shipped, against what the plugin really asks for.

How far moto goes: with its enforcement on, it checks the signature of each request and whether the caller's
policies allow the *action*. It knows the Resource of no EC2 request and fails every Condition (its own source,
moto/iam/access_control.py, lists both as TODO). So moto is given the policy's actions alone; resources and
conditions are decided by `Gate`, a reading of AWS's documents that stands before moto and is as sure as these are:
- which resources and tags a request is checked for: "Actions, resources, and condition keys for Amazon EC2"
  (docs.aws.amazon.com/service-authorization/latest/reference/list_amazonec2.html)
- tags in RunInstances are checked as ec2:CreateTags with ec2:CreateAction: EC2 User Guide, "Grant permission to tag
  resources during creation" (docs.aws.amazon.com/AWSEC2/latest/UserGuide/supported-iam-actions-tagging.html)
- a condition on a key that a request does not have is not met, but for ForAllValues: IAM User Guide,
  "Condition operators" (docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_elements_condition_operators.html)
Neither is AWS itself: docs/iam.md says how to try the policy there.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Callable, Optional
from urllib.request import Request, urlopen

import boto3
import pytest
from botocore.exceptions import ClientError
from moto.moto_server.threaded_moto_server import ThreadedMotoServer

from elastiq.interfaces import AuthError, EndOutcome
from elastiq.plugins.cloud import ec2_client, ec2_looks, ec2_quotas
from elastiq.plugins.cloud.ec2 import EC2Cloud
from tests.ec2_server import KEYS, OWNER, EC2Server, Rule, cloud_at, error, intent, moto_reservations
from tests.looks import by_subject, found
from tests.service_quotas import ServiceQuotas
from tests.sqs_queue import SQSQueue, event

SHIPPED = Path(__file__).resolve().parents[2] / "packaging/iam/elastiq-policy.json"
ACTIONS = sorted(ec2_client.OPERATIONS)
ACTS = ("ec2:TerminateInstances", "ec2:StopInstances", "ec2:StartInstances", "ec2:CreateTags")  # on instances
IMAGE = "ami-12c6146b"  # one that moto knows


def shipped_policy(cluster: str = OWNER.cluster) -> dict[str, Any]:
    """As docs/iam.md tells to make it."""
    policy: dict[str, Any] = json.loads(SHIPPED.read_text().replace("my-cluster", cluster))
    return policy


QUEUE_ACTIONS = ["sqs:DeleteMessage", "sqs:ReceiveMessage"]
OF_CHECK = [*ec2_looks.MORE_OPERATIONS]
OF_CHECK.remove("DescribeAccountAttributes")  # what AWS has instead is another service's


def listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def actions_of(policy: Mapping[str, Any]) -> list[str]:
    return sorted({action for statement in policy["Statement"] for action in listed(statement["Action"])})


# ------------------------------------------------------------------ what is allowed


def allows(policy: Mapping[str, Any], action: str, resource: str, context: Mapping[str, Any]) -> bool:
    """Whether a statement of the policy allows it. There is no Deny in it."""
    return any(
        statement["Effect"] == "Allow"
        and action in listed(statement["Action"])
        and any(fnmatchcase(resource, pattern) for pattern in listed(statement["Resource"]))
        and conditions_met(statement.get("Condition", {}), context)
        for statement in policy["Statement"]
    )


def conditions_met(conditions: Mapping[str, Any], context: Mapping[str, Any]) -> bool:
    known = {"StringEquals", "ForAllValues:StringEquals"}
    assert set(conditions) <= known, "teach the test what that means"
    exact = all(context.get(key) in listed(wanted) for key, wanted in conditions.get("StringEquals", {}).items())
    of_all = conditions.get("ForAllValues:StringEquals", {}).items()
    return exact and all(set(context.get(key, ())) <= set(listed(wanted)) for key, wanted in of_all)


def arn(kind: str, name: str = "*") -> str:
    account = "" if kind == "image" else "123456789012"
    return f"arn:aws:ec2:us-east-1:{account}:{kind}/{name}"


def with_tags(prefix: str, tags: Mapping[str, str]) -> dict[str, Any]:
    context: dict[str, Any] = {f"{prefix}/{key}": value for key, value in tags.items()}
    return {**context, "aws:TagKeys": list(tags)} if prefix == "aws:RequestTag" else context


def tags_in(parameters: Mapping[str, str], prefix: str) -> dict[str, str]:
    """Tags as EC2's query form has them: PREFIX.1.Key, PREFIX.1.Value."""
    found = {key: name for key, name in parameters.items() if re.fullmatch(rf"{re.escape(prefix)}\.\d+\.Key", key)}
    return {name: parameters[key[:-3] + "Value"] for key, name in found.items()}


def asked_of_iam(parameters: Mapping[str, str]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Every action, resource and context that EC2 asks IAM about for a request: all must be allowed."""
    action = f"ec2:{parameters['Action']}"
    if action == "ec2:RunInstances":
        kinds = {parameters[key]: key[: -len("ResourceType")] for key in parameters if key.endswith(".ResourceType")}
        tags = {kind: tags_in(parameters, f"{prefix}Tag") for kind, prefix in kinds.items()}
        for kind in ("instance", "volume"):
            yield action, arn(kind), with_tags("aws:RequestTag", tags.get(kind, {}))
        for kind in ("image", "subnet", "network-interface", "security-group"):
            yield action, arn(kind), {}
        if "KeyName" in parameters:
            yield action, arn("key-pair"), {}
        for kind, given in tags.items():
            context = with_tags("aws:RequestTag", given)
            yield "ec2:CreateTags", arn(kind), {**context, "ec2:CreateAction": "RunInstances"}
    elif action in ACTS:
        given = with_tags("aws:RequestTag", tags_in(parameters, "Tag"))
        for key, name in parameters.items():
            if re.fullmatch(r"(InstanceId|ResourceId)\.\d+", key):
                yield action, arn("instance", name), {**with_tags("aws:ResourceTag", tags_of(name)), **given}
    else:
        yield action, "*", {}


def tags_of(instance_id: str) -> dict[str, str]:
    for reservations in moto_reservations():
        for reservation in reservations.values():
            for one in reservation.instances:
                if one.id == instance_id:
                    return {tag["key"]: tag["value"] for tag in one.get_tags()}
    return {}


class Gate(EC2Server):
    """moto behind a policy; a request that it does not allow is answered as EC2 does."""

    policy: Optional[Mapping[str, Any]] = None

    def _moto(self, environ: Any, parameters: dict[str, str], rule: Rule, start: Callable[..., Any]) -> Iterable[bytes]:
        for action, resource, context in asked_of_iam(parameters) if self.policy else ():
            if not allows(self.policy or {}, action, resource, context):
                body = error("UnauthorizedOperation", refusal(action, resource), 403).body
                start("403 Forbidden", [("Content-Type", "text/xml"), ("Content-Length", str(len(body)))])
                return [body.encode()]
        return super()._moto(environ, parameters, rule, start)


def refusal(action: str, resource: str) -> str:
    """EC2's words (User Guide, "Troubleshoot instance launch issues"; the encoded part is long in truth, too)."""
    return (
        f"You are not authorized to perform this operation. User: arn:aws:iam::123456789012:user/elastiq is not "
        f"authorized to perform: {action} on resource: {resource} because no identity-based policy allows the {action} "
        f"action. Encoded authorization failure message: {'4GIOHlTkIaWHQD0Q0m6X' * 50}"
    )


@pytest.fixture(scope="module")
def gate() -> Iterator[Gate]:
    from moto.moto_server.werkzeug_app import create_backend_app

    server = Gate(create_backend_app("ec2"))
    yield server
    server.close()


@pytest.fixture
def guarded(gate: Gate) -> Iterator[tuple[Gate, EC2Cloud, Any]]:
    """The gate with the policy that is shipped, the plugin before it, and another client with the same rights."""
    for reservations in moto_reservations():
        reservations.clear()
    gate.forget()
    gate.policy = shipped_policy()
    yield gate, cloud_at(gate.url, dialect="aws"), client(gate.url, **KEYS)
    gate.policy = None


def client(url: str, service: str = "ec2", **keys: str) -> Any:
    return boto3.client(service, region_name="us-east-1", endpoint_url=url, **keys)


def add_instance(gate: Gate, tags: Mapping[str, str]) -> str:
    """Somebody else's, whom no policy of ours binds."""
    policy, gate.policy = gate.policy, None
    made = client(gate.url, **KEYS).run_instances(ImageId=IMAGE, MinCount=1, MaxCount=1)
    name = str(made["Instances"][0]["InstanceId"])
    if tags:
        client(gate.url, **KEYS).create_tags(Resources=[name], Tags=[{"Key": k, "Value": v} for k, v in tags.items()])
    gate.policy = policy
    return name


def live_a_life(cloud: EC2Cloud) -> None:
    """Everything that the daemon, `elastiqctl adopt` and the checks make the plugin do."""
    known: frozenset[str] = frozenset()
    (made,) = cloud.launch(intent())
    assert [one.id for one in cloud.instances(known).owned] == [made.id]
    assert [one.id for one in cloud.find(intent())] == [made.id]
    assert cloud.problems([made.id]) == {}
    assert set(cloud.flavours(["m5.small", "m5.large"])) <= {"m5.large"}
    cloud.adopt([made.id])
    assert cloud.stop([made.id])[made.id].outcome is EndOutcome.ENDING
    assert cloud.start([made.id])[made.id].outcome is EndOutcome.ENDING
    assert cloud.terminate([made.id])[made.id].outcome is EndOutcome.ENDING


# ------------------------------------------------------------------ the policy as a text


def test_the_policy_allows_what_the_plugin_can_call_and_nothing_else() -> None:
    of_ec2 = [f"ec2:{action}" for action in (*ACTIONS, *OF_CHECK)]
    assert actions_of(shipped_policy()) == sorted([*of_ec2, "servicequotas:ListServiceQuotas", *QUEUE_ACTIONS])


def test_a_whole_life_calls_all_that_is_allowed(guarded: tuple[Gate, EC2Cloud, Any]) -> None:
    gate, cloud, _ = guarded
    live_a_life(cloud)
    assert sorted({request["Action"] for request in gate.requests}) == ACTIONS


def test_checks_ask_for_what_is_allowed_and_change_nothing(
    guarded: tuple[Gate, EC2Cloud, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, _, _ = guarded
    quotas = ServiceQuotas()
    monkeypatch.setattr(ec2_quotas, "service_quotas_url", lambda options: quotas.url)
    some = {"subnet_id": ("subnet-1",), "security_group_ids": ("sg-1",), "key_name": "k", "launch_template": "workers"}
    before = list(moto_instances())
    checks = found(cloud_at(gate.url, dialect="aws", region="us-east-1", **some).checks())
    quotas.close()
    looked = {request["Action"] for request in gate.requests if request.get("DryRun") != "true"}
    tried = {request["Action"] for request in gate.requests if request.get("DryRun") == "true"}
    assert tried == {"RunInstances", "TerminateInstances", "CreateTags"}
    # Where the subnets are not there, zones are not asked about.
    assert {*OF_CHECK, "DescribeInstanceTypeOfferings"} - looked == {"DescribeInstanceTypeOfferings"}
    assert looked <= {*ACTIONS, *OF_CHECK} and {*quotas.actions} == {"ListServiceQuotas"}
    assert not [check for check in checks if "UnauthorizedOperation" in check.text and check.level != "warning"]
    assert list(moto_instances()) == before


def test_a_right_that_is_missing_is_told_by_the_checks(guarded: tuple[Gate, EC2Cloud, Any]) -> None:
    gate, cloud, _ = guarded
    gate.policy = shipped_policy()
    for action in ("RunInstances", "DescribeInstanceStatus", "DescribeImages"):
        without(action, gate.policy)
    checks = by_subject(cloud.checks())
    subjects = ("pool ec2: dry run of a launch", "pool ec2: image", "instance status")
    launch, image, status = (checks[subject] for subject in subjects)
    assert (launch.level, image.level, status.level) == ("error", "unknown", "warning")
    assert one_line(launch.text, "UnauthorizedOperation", "ec2:RunInstances") and "rights" in launch.remedy
    assert image.remedy.startswith("allow ec2:DescribeImages (docs/iam.md)")
    assert status.remedy == "allow ec2:DescribeInstanceStatus (docs/iam.md)"


def test_a_queue_is_asked_for_what_is_allowed(guarded: tuple[Gate, EC2Cloud, Any]) -> None:
    """DeleteMessageBatch is allowed by sqs:DeleteMessage ("Actions, resources, and condition keys for Amazon SQS")."""
    gate, queue = guarded[0], SQSQueue()
    cloud = cloud_at(gate.url, dialect="aws", interruption_queue=queue.url)
    queue.put(event("i-1"))
    cloud.instances(frozenset())
    found(cloud.checks())
    queue.close()
    asked = {action for action, _ in queue.requests}
    assert sorted(f"sqs:{action.replace('Batch', '')}" for action in asked) == QUEUE_ACTIONS


def test_every_act_is_bound_to_the_clusters_name_or_to_the_launch() -> None:
    *of_ec2, of_queue = shipped_policy("atlas")["Statement"]
    assert (of_queue["Action"], of_queue["Resource"]) == ([*reversed(QUEUE_ACTIONS)], "arn:aws:sqs:*:*:elastiq-atlas")
    for statement in of_ec2:
        if statement["Sid"] not in ("Look", "LookBeforeTheFirstLaunch", "LaunchFromAndInto"):
            conditions = json.dumps(statement["Condition"])
            assert '"atlas"' in conditions or '"ec2:CreateAction": "RunInstances"' in conditions, statement["Sid"]
    assert "my-cluster" not in json.dumps(shipped_policy("atlas"))


# ------------------------------------------------------------------ its conditions


OURS = {"elastiq:cluster": OWNER.cluster, "elastiq:head": "f" * 32}


def specification(tags: Mapping[str, str]) -> dict[str, Any]:
    pairs = [{"Key": key, "Value": value} for key, value in tags.items()]
    return {"TagSpecifications": [{"ResourceType": kind, "Tags": pairs} for kind in ("instance", "volume")]}


@pytest.mark.parametrize(
    "tags", [{}, {"Name": "mine"}, {"elastiq:cluster": "other"}], ids=["none", "others", "another cluster's"]
)
def test_nothing_is_launched_without_the_clusters_tag(
    guarded: tuple[Gate, EC2Cloud, Any], tags: dict[str, str]
) -> None:
    _, _, other = guarded
    with pytest.raises(ClientError, match="ec2:RunInstances"):
        other.run_instances(ImageId=IMAGE, MinCount=1, MaxCount=1, **(specification(tags) if tags else {}))
    assert not any(moto_instances())
    other.run_instances(ImageId=IMAGE, MinCount=1, MaxCount=1, **specification(OURS))


def moto_instances() -> Iterator[tuple[str, str]]:
    for reservations in moto_reservations():
        for reservation in reservations.values():
            yield from ((one.id, one._state.name) for one in reservation.instances)


@pytest.mark.parametrize("tags", [{}, {"elastiq:cluster": "other"}], ids=["nobody's", "another cluster's"])
def test_what_is_not_the_clusters_can_neither_be_ended_nor_tagged(
    guarded: tuple[Gate, EC2Cloud, Any], tags: dict[str, str]
) -> None:
    gate, cloud, _ = guarded
    foreign, ours = add_instance(gate, tags), add_instance(gate, OURS)
    answers = cloud.terminate([ours, foreign])
    assert (answers[ours].outcome, answers[foreign].outcome) == (EndOutcome.ENDING, EndOutcome.FAILED)
    assert "ec2:TerminateInstances" in answers[foreign].detail
    assert cloud.stop([foreign])[foreign].outcome is EndOutcome.FAILED
    assert dict(moto_instances())[foreign] == "running"
    with pytest.raises(AuthError, match="CreateTags"):
        cloud.adopt([foreign])  # a foreign one cannot be made ours first
    assert tags_of(foreign) == tags


def test_another_heads_instance_of_the_cluster_can_be_adopted_and_no_other_tag_be_set(
    guarded: tuple[Gate, EC2Cloud, Any],
) -> None:
    gate, cloud, other = guarded
    name = add_instance(gate, OURS)
    cloud.adopt([name])
    assert tags_of(name)["elastiq:head"] == OWNER.head
    for tags in ({"Owner": "me"}, {"elastiq:cluster": "other"}):
        with pytest.raises(ClientError, match="ec2:CreateTags"):
            other.create_tags(Resources=[name], Tags=[{"Key": key, "Value": value} for key, value in tags.items()])


# ------------------------------------------------------------------ an action that is missing


def without(action: str, policy: dict[str, Any]) -> dict[str, Any]:
    for statement in policy["Statement"]:
        statement["Action"] = [one for one in listed(statement["Action"]) if one != f"ec2:{action}"]
    return policy


def one_line(text: str, *words: str) -> bool:
    return "\n" not in text and len(text) < 500 and all(word in text for word in words)


@pytest.mark.parametrize("action", ["RunInstances", "CreateTags"])
def test_a_launch_that_may_not_be_says_which_right_is_missing(guarded: tuple[Gate, EC2Cloud, Any], action: str) -> None:
    gate, cloud, _ = guarded
    gate.policy = without(action, shipped_policy())
    for _ in range(2):
        with pytest.raises(AuthError) as refused:
            cloud.launch(intent())
        assert refused.value.launched_nothing
        assert one_line(str(refused.value), "RunInstances at ", f"ec2:{action}", "UnauthorizedOperation")
    assert all("TagSpecification.1.ResourceType" in request for request in gate.asked("RunInstances"))


def test_a_listing_that_may_not_be_is_an_auth_error(guarded: tuple[Gate, EC2Cloud, Any]) -> None:
    gate, cloud, _ = guarded
    gate.policy = without("DescribeInstances", shipped_policy())
    with pytest.raises(AuthError) as refused:
        cloud.instances(frozenset())
    assert one_line(str(refused.value), "DescribeInstances at ", "ec2:DescribeInstances")


def test_an_end_that_may_not_be_is_told_for_each(guarded: tuple[Gate, EC2Cloud, Any]) -> None:
    gate, cloud, _ = guarded
    (made,) = cloud.launch(intent())
    gate.policy = without("TerminateInstances", shipped_policy())
    answer = cloud.terminate([made.id])[made.id]
    assert answer.outcome is EndOutcome.FAILED
    assert one_line(answer.detail, "TerminateInstances at ", "ec2:TerminateInstances")


def test_a_stop_or_start_that_may_not_be_says_which_right_is_missing(guarded: tuple[Gate, EC2Cloud, Any]) -> None:
    gate, cloud, _ = guarded
    (made,) = cloud.launch(intent())
    gate.policy = without("StopInstances", without("StartInstances", shipped_policy()))
    answer = cloud.stop([made.id])[made.id]
    assert answer.outcome is EndOutcome.FAILED
    assert one_line(answer.detail, "StopInstances at ", "ec2:StopInstances")
    with pytest.raises(AuthError) as refused:
        cloud.start([made.id])
    assert one_line(str(refused.value), "StartInstances at ", "ec2:StartInstances")


def test_adoption_without_the_right_to_tag_is_an_auth_error(guarded: tuple[Gate, EC2Cloud, Any]) -> None:
    gate, cloud, _ = guarded
    (made,) = cloud.launch(intent())
    gate.policy = without("CreateTags", shipped_policy())
    with pytest.raises(AuthError) as refused:
        cloud.adopt([made.id])
    assert one_line(str(refused.value), "CreateTags at ", "ec2:CreateTags")


def test_it_can_do_without_images_status_and_types(
    guarded: tuple[Gate, EC2Cloud, Any], caplog: pytest.LogCaptureFixture
) -> None:
    gate, cloud, _ = guarded
    gate.policy = shipped_policy()
    for action in ("DescribeImages", "DescribeInstanceStatus", "DescribeInstanceTypes"):
        without(action, gate.policy)
    with caplog.at_level(logging.WARNING):
        live_a_life(cloud)
    status, types = (text for text in caplog.messages if "DescribeInstance" in text)
    assert one_line(status, "instance status is not available", "ec2:DescribeInstanceStatus")
    assert one_line(types, "the sizes of flavours are not available", "ec2:DescribeInstanceTypes")


# ------------------------------------------------------------------ moto's own enforcement: signatures and actions


@pytest.fixture(scope="module")
def moto() -> Iterator[str]:
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    yield "http://{}:{}".format(*server.get_host_and_port())
    server.stop()


def enforce(url: str, after: float) -> None:
    """From so many requests on, moto checks who asks and what he may."""
    headers = {"Content-Type": "text/plain"}
    with urlopen(Request(f"{url}/moto-api/reset-auth", str(after).encode(), headers, method="POST"), timeout=10):
        pass


@pytest.fixture
def user(moto: str) -> Iterator[Callable[..., EC2Cloud]]:
    """The plugin as a user who may do the actions of the policy, but for those that are named."""
    enforce(moto, float("inf"))
    for reservations in moto_reservations():
        reservations.clear()
    iam = client(moto, "iam", **KEYS)
    iam.create_user(UserName="elastiq")
    key = iam.create_access_key(UserName="elastiq")["AccessKey"]

    def make(*missing: str, secret: str = "") -> EC2Cloud:
        actions = [action for action in actions_of(shipped_policy()) if action.partition(":")[2] not in missing]
        statement = {"Effect": "Allow", "Action": actions, "Resource": "*"}
        document = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
        enforce(moto, float("inf"))
        iam.put_user_policy(UserName="elastiq", PolicyName="elastiq", PolicyDocument=document)
        enforce(moto, 0)
        keys = {"aws_access_key_id": key["AccessKeyId"], "aws_secret_access_key": secret or key["SecretAccessKey"]}
        return cloud_at(moto, dialect="aws", **keys)

    yield make
    enforce(moto, float("inf"))
    iam.delete_user_policy(UserName="elastiq", PolicyName="elastiq")
    iam.delete_access_key(UserName="elastiq", AccessKeyId=key["AccessKeyId"])
    iam.delete_user(UserName="elastiq")


def test_moto_lets_the_whole_life_pass_with_the_actions_of_the_policy(user: Callable[..., EC2Cloud]) -> None:
    live_a_life(user())


def test_moto_refuses_who_has_no_right_and_who_signs_wrongly(user: Callable[..., EC2Cloud]) -> None:
    with pytest.raises(AuthError, match="DescribeInstances at"):
        user("DescribeInstances").instances(frozenset())
    with pytest.raises(AuthError, match="AuthFailure"):
        user(secret="wrong").instances(frozenset())


@pytest.mark.parametrize("action", ["RunInstances", "DescribeInstances", "CreateTags", "TerminateInstances"])
def test_moto_misses_an_action_and_the_plugin_names_it(user: Callable[..., EC2Cloud], action: str) -> None:
    """moto's code is IAM's AccessDenied, where EC2 itself has UnauthorizedOperation."""
    cloud = user(action)
    with pytest.raises(AuthError) as refused:
        live_a_life(cloud)
    assert one_line(str(refused.value), f"{action} at ", "AccessDenied", f"ec2:{action}")
