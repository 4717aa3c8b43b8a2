"""Kinds of fault that clouds of the field were seen with, each over HTTP: launches, tokens, listings, ends."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress

import pytest

from elastiq.interfaces import ConfigurationError, EndOutcome, InstanceState, SourceError, TransientError
from tests.ec2_server import HEAD, EC2Server, Rule, answer, cloud_at, error, instances, intent
from tests.integration.ec2_answers import NO_IMAGE, NONE, made, one, tags


@pytest.fixture
def server(bare: EC2Server) -> EC2Server:
    bare.script("DescribeImages", *[NO_IMAGE] * 3)
    return bare


def state(name: str, code: int = 16) -> str:
    return f"<instanceState><code>{code}</code><name>{name}</name></instanceState>"


def ended(*keys: str) -> Rule:
    current = "<currentState><code>32</code><name>shutting-down</name></currentState>"
    items = "".join(f"<item><instanceId>{key}</instanceId>{current}</item>" for key in keys)
    return answer("TerminateInstances", f"<instancesSet>{items}</instancesSet>")


# --------------------------------------------------------------------------- what a launch answers


@pytest.mark.parametrize(
    ("items", "states"),
    [
        ((one("i-1"),), {"i-1": InstanceState.UNKNOWN}),
        ((one("i-1", "<instanceState/>"),), {"i-1": InstanceState.UNKNOWN}),
        ((one("i-1", state("error", 0)),), {"i-1": InstanceState.ERROR}),
        ((one("i-1", state("terminated", 48)),), {"i-1": InstanceState.TERMINATED}),
        ((one("i-1", state("pending", 0)), one("i-1", state("pending", 0))), {"i-1": InstanceState.PENDING}),
        (
            (one("i-1"), one("i-2"), one("i-3")),  # more than were asked for: all are ours
            dict.fromkeys(("i-1", "i-2", "i-3"), InstanceState.UNKNOWN),
        ),
    ],
    ids=["no state", "an empty state", "error with code 0", "ended at once", "one twice", "more than asked"],
)
def test_what_a_launch_made_is_told_whatever_state_it_is_in(
    server: EC2Server, items: tuple[str, ...], states: dict[str, InstanceState]
) -> None:
    server.script("RunInstances", made(*items))
    launched = cloud_at(server.url).launch(intent(2))
    assert {found.id: found.state for found in launched} == states
    assert len(launched) == len(states)
    assert {(found.addresses, found.intent, found.token) for found in launched} == {(NONE, "i1", intent().token)}
    assert len(server.asked("RunInstances")) == 1


@pytest.mark.parametrize(
    "rule",
    [
        made(one("i-1", "<launchTime/>")),
        made(one("i-1", "<amiLaunchIndex/>")),
        made(one("i-1", "<instanceState><code/></instanceState>")),
        made(one("i-1"), one("")),
        made(one("i-1"), ""),
        Rule(made(one("i-1")).body[:-20]),
    ],
    ids=["an empty date", "an empty index", "an empty code", "an empty id", "no id", "cut off"],
)
def test_a_launch_that_is_answered_in_part_is_open_and_found_later(server: EC2Server, rule: Rule) -> None:
    server.script("RunInstances", rule)
    cloud = cloud_at(server.url)
    with pytest.raises(TransientError) as caught:
        cloud.launch(intent())
    assert not caught.value.launched_nothing and "\n" not in str(caught.value)
    assert len(server.asked("RunInstances")) == 1
    server.script("DescribeInstances", instances(one("i-1", state("running") + tags())))
    assert [found.id for found in cloud.find(intent())] == ["i-1"]


# --------------------------------------------------------------------------- tokens


def test_a_launch_without_an_answer_is_not_sent_again_since_some_clouds_ignore_its_token(server: EC2Server) -> None:
    server.script("RunInstances", Rule(drop=True), made(one("i-9")))
    cloud = cloud_at(server.url)
    with pytest.raises(TransientError) as caught:
        cloud.launch(intent(2))
    assert not caught.value.launched_nothing
    assert len(server.asked("RunInstances")) == 1
    both = [one(key, state("pending", 0) + tags()) for key in ("i-1", "i-2")]
    server.script("DescribeInstances", instances(*both, one("i-3", state("running") + tags(intent_id="i2"))))
    assert sorted(found.id for found in cloud.find(intent(2))) == ["i-1", "i-2"]
    assert len(server.asked("RunInstances")) == 1


@pytest.mark.parametrize("code", ["IdempotentParameterMismatch", "IdempotentInstanceTerminated"])
def test_a_token_that_was_used_before_leaves_the_launch_open_until_what_it_made_is_found(
    server: EC2Server, code: str
) -> None:
    server.script("RunInstances", error(code, "The client token is used"), made(one("i-9")))
    cloud = cloud_at(server.url)
    with pytest.raises(TransientError, match=code) as caught:
        cloud.launch(intent())
    assert not caught.value.launched_nothing
    assert cloud.capabilities.tags, "the token is no refusal of an extra"
    assert len(server.asked("RunInstances")) == 1
    gone = one("i-1", f"<clientToken>{intent().token}</clientToken>{state('terminated', 48)}")
    server.script("DescribeInstances", instances(gone))
    (found,) = cloud.find(intent())
    assert (found.id, found.state) == ("i-1", InstanceState.TERMINATED)


def test_a_token_of_ours_does_not_outweigh_the_tags_of_another_head(server: EC2Server) -> None:
    token = f"<clientToken>{intent().token}</clientToken>"
    server.script("DescribeInstances", instances(one("i-1", token + state("running") + tags(head="f" * 32))))
    assert cloud_at(server.url).find(intent()) == ()


def test_where_neither_tags_nor_tokens_are_shown_only_what_the_store_knows_is_ours(server: EC2Server) -> None:
    rule = instances(one("i-1", state("running")), one("i-2", state("running")))
    server.script("DescribeInstances", *[rule] * 3)
    cloud = cloud_at(server.url)
    assert cloud.instances(NONE).owned == () and cloud.find(intent()) == ()
    listed = cloud.instances(frozenset({"i-1"}))
    assert [found.id for found in listed.owned] == ["i-1"] and listed.foreign == 1


# --------------------------------------------------------------------------- listings of everything


def test_a_listing_of_everyones_machines_yields_ours_and_counts_the_rest(server: EC2Server) -> None:
    private = "<privateIpAddress>10.0.0.%d</privateIpAddress>"
    others = [one(f"i-f{number}", state("running") + private % (number % 200 + 20)) for number in range(300)]
    ours = [one(key, state("running") + tags(intent_id=key)) for key in ("i-1", "i-2")]
    clusters = one("i-o", state("running") + tags(cluster="atlas"))
    heads = one("i-h", state("running") + tags(head="f" * 32))
    server.script("DescribeInstances", *[instances(*others, *ours, clusters, heads)] * 2)
    cloud = cloud_at(server.url)
    listed = cloud.instances(NONE)
    assert sorted(found.id for found in listed.owned) == ["i-1", "i-2"]
    assert [found.id for found in listed.other_heads] == ["i-h"]
    assert listed.foreign == 301
    assert len(listed.foreign_addresses) == 200
    assert [found.id for found in cloud.find(intent(name="i-2"))] == ["i-2"]
    assert not any("Filter" in key or "InstanceId" in key for sent in server.requests for key in sent)


def test_states_and_images_of_others_are_left_out(server: EC2Server) -> None:
    impaired = "<systemStatus><status>impaired</status></systemStatus>"
    items = "".join(f"<item>{one(f'i-{number}', impaired)}</item>" for number in range(50))
    server.script(
        "DescribeInstanceStatus", answer("DescribeInstanceStatus", f"<instanceStatusSet>{items}</instanceStatusSet>")
    )
    cloud = cloud_at(server.url, root_disk_gb=50)
    assert cloud.problems(["i-7", "i-99"]) == {"i-7": "system status impaired"}
    images = "".join(
        f"<item><imageId>{name}</imageId><rootDeviceName>/dev/{device}</rootDeviceName></item>"
        for name, device in (("ami-other", "sda1"), ("ami-12c6146b", "vda"), ("ami-last", "xvda"))
    )
    server.forget()
    server.script("DescribeImages", answer("DescribeImages", f"<imagesSet>{images}</imagesSet>"))
    server.script("RunInstances", made(one("i-1")))
    cloud.launch(intent())
    assert server.asked("RunInstances")[0]["BlockDeviceMapping.1.DeviceName"] == "/dev/vda"


def test_an_empty_date_in_the_status_is_unknown_and_asked_for_again(server: EC2Server) -> None:
    event = "<eventsSet><item><code>instance-stop</code><notBefore%s</item></eventsSet>"
    rules = [
        answer(
            "DescribeInstanceStatus", f"<instanceStatusSet><item>{one('i-1', event % text)}</item></instanceStatusSet>"
        )
        for text in ("/>", ">2026-03-01T12:00:00Z</notBefore>")
    ]
    server.script("DescribeInstanceStatus", *rules)
    cloud = cloud_at(server.url)
    with pytest.raises(SourceError, match="ValueError"):
        cloud.problems(["i-1"])
    assert cloud.problems(["i-1"]) == {"i-1": "instance-stop scheduled"}


@pytest.mark.parametrize(
    "refusal",
    [
        error("InvalidParameterCombination", "The parameter instancesSet cannot be used with the parameter maxResults"),
        error("InvalidParameterValue", "Value (1000) for parameter maxResults is invalid. Expecting a value < 500"),
        error("UnknownParameter", "The parameter MaxResults is not recognized"),
        error("InvalidRequest", "Unknown argument: max_results"),
        Rule("<html>400 Bad Request</html>", 400, headers=(("Content-Type", "text/html"),)),
    ],
)
def test_a_cloud_that_refuses_max_results_is_asked_without_from_then_on(server: EC2Server, refusal: Rule) -> None:
    rule = instances(one("i-1", state("running") + tags()))
    server.script("DescribeInstances", refusal, rule, rule)
    cloud = cloud_at(server.url)
    for _ in range(2):
        assert [found.id for found in cloud.instances(NONE).owned] == ["i-1"]
    assert ["MaxResults" in sent for sent in server.requests] == [True, False, False]


# --------------------------------------------------------------------------- ids, just launched


def test_new_ids_that_the_cloud_does_not_know_yet_are_neither_lost_nor_in_the_way(server: EC2Server) -> None:
    cloud = cloud_at(server.url)
    server.script("RunInstances", made(one("i-1"), one("i-2")))
    new = [found.id for found in cloud.launch(intent(2))]
    old = one("i-0", state("running") + tags(intent_id="i0"))
    server.script("DescribeInstances", instances(old), instances(old, *(one(key, state("pending")) for key in new)))
    known = frozenset({"i-0", *new})
    assert [found.id for found in cloud.instances(known).owned] == ["i-0"], "what is there is told"
    answers = [
        error("InvalidInstanceID.NotFound", "The instance IDs 'i-1, i-2' do not exist"),
        ended("i-0"),
        error("InvalidInstanceID.NotFound", "The instance ID 'i-1' does not exist"),
        error("InstanceNotFound", "Instance i-2 could not be found."),
    ]
    server.script("TerminateInstances", *answers, ended(*new))
    outcomes = {key: found.outcome for key, found in cloud.terminate(["i-0", *new]).items()}
    assert outcomes == {"i-0": EndOutcome.ENDING, "i-1": EndOutcome.NOT_FOUND, "i-2": EndOutcome.NOT_FOUND}
    assert sorted(found.id for found in cloud.instances(known).owned) == ["i-0", "i-1", "i-2"]
    assert {found.outcome for found in cloud.terminate(new).values()} == {EndOutcome.ENDING}
    assert len(server.asked("TerminateInstances")) == 5


# --------------------------------------------------------------------------- ends


def test_an_end_that_names_the_first_id_only_is_asked_for_again_for_the_others(server: EC2Server) -> None:
    cloud = cloud_at(server.url)
    server.script("TerminateInstances", ended("i-1"), ended("i-2"), ended("i-3"))
    left = ["i-1", "i-2", "i-3"]
    for _ in range(3):
        answers = cloud.terminate(left)
        assert [found.outcome for found in answers.values()] == [EndOutcome.ENDING] + [EndOutcome.FAILED] * (
            len(left) - 1
        )
        assert all(answers[key].detail == "the cloud's answer does not name it" for key in left[1:])
        left = left[1:]
    asked = server.asked("TerminateInstances")
    assert [sum(key.startswith("InstanceId") for key in sent) for sent in asked] == [3, 2, 1]


def test_an_end_that_names_all_and_ends_the_first_shows_in_the_next_listing(server: EC2Server) -> None:
    cloud = cloud_at(server.url)
    server.script("TerminateInstances", ended("i-1", "i-2"))
    assert {found.outcome for found in cloud.terminate(["i-1", "i-2"]).values()} == {EndOutcome.ENDING}
    server.script(
        "DescribeInstances",
        instances(one("i-1", state("shutting-down", 32) + tags()), one("i-2", state("running") + tags())),
    )
    states = {found.id: found.state for found in cloud.instances(NONE).owned}
    assert states == {"i-1": InstanceState.SHUTTING_DOWN, "i-2": InstanceState.RUNNING}, "not what was asked for"


def test_an_answer_that_names_others_ends_nothing_of_ours(server: EC2Server) -> None:
    server.script("TerminateInstances", ended("i-8", "i-9"))
    answers = cloud_at(server.url).terminate(["i-1"])
    assert {key: found.outcome for key, found in answers.items()} == {"i-1": EndOutcome.FAILED}


# --------------------------------------------------------------------------- adoption


@pytest.mark.parametrize(
    "rule",
    [
        Rule("<html><body>Please log in</body></html>", headers=(("Content-Type", "text/html"),)),
        Rule("<CreateTagsResponse/>"),
        answer("CreateTags", "<return>false</return>"),
        Rule(""),
    ],
    ids=["a login page", "no word of it", "no", "nothing"],
)
def test_an_adoption_that_is_not_said_to_be_done_is_not_done(server: EC2Server, rule: Rule) -> None:
    done = Rule("<CreateTagsResponse><return>true</return></CreateTagsResponse>")  # Eucalyptus says no more
    server.script("CreateTags", rule, done)
    cloud = cloud_at(server.url)
    with pytest.raises(SourceError, match="CreateTags at site: "):
        cloud.adopt(["i-1"])
    cloud.adopt(["i-1"])
    assert len(server.asked("CreateTags")) == 2


# --------------------------------------------------------------------------- forms and versions


BODY = f"<reservationSet><item><instancesSet><item>{one('i-1', state('running') + tags())}</item></instancesSet></item>"


@pytest.mark.parametrize(
    "text",
    [
        f"{HEAD}<DescribeInstancesResponse xmlns='http://ec2.amazonaws.com/doc/2008-12-01/'>{BODY}</reservationSet>"
        "</DescribeInstancesResponse>",
        f"<DescribeInstancesResponse>{BODY}</reservationSet></DescribeInstancesResponse>",
        f"\n{HEAD.strip()}\n\n<DescribeInstancesResponse xmlns=''>{BODY}</reservationSet></DescribeInstancesResponse>"[
            1:
        ],
        "<euca:DescribeInstancesResponse xmlns:euca='http://msgs.eucalyptus.com'>"
        + f"{BODY}</reservationSet>".replace("</", "<\0").replace("<", "<euca:").replace("<euca:\0", "</euca:")
        + "</euca:DescribeInstancesResponse>",
        f"{HEAD}<DescribeInstancesResponse>{BODY}<item><reservationId>r-2</reservationId><instancesSet/></item><item/>"
        f"<item><instancesSet><item>{one('i-1', state('running') + tags())}</item></instancesSet></item>"
        "</reservationSet><somethingNew><x>1</x></somethingNew></DescribeInstancesResponse>",
    ],
    ids=["an old version", "no declaration, no namespace", "blank lines", "Eucalyptus's prefix", "empty reservations"],
)
def test_every_form_of_a_listing_is_read(server: EC2Server, text: str) -> None:
    server.script("DescribeInstances", Rule(text))
    (found,) = cloud_at(server.url).instances(NONE).owned
    assert (found.id, found.state, found.intent) == ("i-1", InstanceState.RUNNING, "i1")


def test_a_version_that_the_cloud_does_not_know_names_the_key_to_set(server: EC2Server) -> None:
    words = "The requested version (2016-11-15) of service AmazonEC2 does not exist"
    server.script("DescribeInstances", *[error("NoSuchVersion", words)] * 2)
    server.script("RunInstances", error("NoSuchVersion", words))
    cloud = cloud_at(server.url)
    with pytest.raises(SourceError) as read:
        cloud.instances(NONE)
    assert str(read.value) == f"DescribeInstances at site: NoSuchVersion: {words} (check api_version)"
    with pytest.raises(ConfigurationError, match=r"\(check api_version\)$"):
        cloud.launch(intent())
    assert len(server.asked("RunInstances")) == 1


@pytest.mark.parametrize("version", ["2009-11-30", "2013-02-01", "2014-10-01", "2016-11-15"])
def test_the_version_of_the_configuration_is_in_every_request(server: EC2Server, version: str) -> None:
    cloud = cloud_at(server.url, api_version=version)
    server.script("DescribeInstances", instances())
    server.script("RunInstances", made(one("i-1")))
    server.script("TerminateInstances", ended("i-1"))
    cloud.instances(NONE)
    cloud.launch(intent())
    cloud.terminate(["i-1"])
    assert [sent["Version"] for sent in server.requests] == [version] * 4


ENTITIES = "".join(f'<!ENTITY {chr(98 + n)} "{f"&{chr(97 + n)};" * 20}">' for n in range(8))
HOSTILE = {
    "entities of entities": f"<!DOCTYPE x [<!ENTITY a 'aaaa'>{ENTITIES}]><DescribeInstancesResponse>&i;",
    "a file of ours": "<!DOCTYPE x [<!ENTITY e SYSTEM 'file:///etc/passwd'>]><DescribeInstancesResponse><reservationSet>"
    f"<item><instancesSet><item>{one('&e;')}</item></instancesSet></item></reservationSet></DescribeInstancesResponse>",
    "brackets without an end": f"<Response>{'<a>' * 100_000}{'</a>' * 100_000}<Code>x</Code></Response>",
}


@pytest.mark.parametrize("status", [200, 400])
@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_xml_that_means_harm_is_unknown_soon_and_in_one_short_line(server: EC2Server, text: str, status: int) -> None:
    server.script("DescribeInstances", *[Rule(text, status)] * 2)
    with pytest.raises(SourceError) as caught:
        cloud_at(server.url).instances(NONE)
    assert "root:" not in str(caught.value) and "\n" not in str(caught.value) and len(str(caught.value)) < 500


@pytest.mark.parametrize(
    ("text", "launched_at"),
    [
        ("0001-01-01T00:00:00Z", -62135596800.0),
        ("9999-12-31T23:59:59-14:00", 253402351199.0),
        ("2026-03-01T12:00:00+25:00", None),
    ],
)
def test_a_launch_time_that_cannot_be_hides_no_machine(server: EC2Server, text: str, launched_at: float | None) -> None:
    server.script("DescribeInstances", instances(one("i-1", f"<launchTime>{text}</launchTime>{tags()}")))
    (found,) = cloud_at(server.url).instances(NONE).owned
    assert (found.id, found.launched_at) == ("i-1", launched_at)


@pytest.mark.parametrize("text", ["NaN", "1e400", "99999999999999", "2026-13-45", "yesterday"])
def test_a_launch_time_that_is_none_makes_the_listing_unknown(server: EC2Server, text: str) -> None:
    server.script("DescribeInstances", instances(one("i-1", f"<launchTime>{text}</launchTime>{tags()}")))
    with pytest.raises(SourceError):
        cloud_at(server.url).instances(NONE)


def test_a_launch_over_a_connection_that_the_cloud_has_closed_meanwhile_is_made_and_asked_once() -> None:
    """Clouds close a kept connection after a while, most often between two polls."""
    texts = {b"DescribeInstances": instances(), b"DescribeImages": NO_IMAGE, b"RunInstances": made(one("i-1"))}
    asked = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            with suppress(OSError):  # closed at the end
                while True:
                    peer, _ = listener.accept()
                    with peer:
                        data = peer.recv(65536)
                        while b"Action=" not in data:
                            data += peer.recv(65536)
                        action = data.partition(b"Action=")[2].partition(b"&")[0]
                        asked.append(action)
                        body = texts[action].body.encode()
                        peer.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)

        threading.Thread(target=serve, daemon=True).start()
        cloud = cloud_at(f"http://127.0.0.1:{listener.getsockname()[1]}")
        for _ in range(2):
            assert cloud.instances(NONE).owned == ()
        assert [found.id for found in cloud.launch(intent())] == ["i-1"]
    assert asked == [b"DescribeInstances", b"DescribeInstances", b"DescribeImages", b"RunInstances"]


ODD_STATES = {  # OpenStack's, then OpenNebula's; codes as they were seen
    ("migrate", 16): InstanceState.UNKNOWN,
    ("resize", 16): InstanceState.UNKNOWN,
    ("rescue", 16): InstanceState.UNKNOWN,
    ("pause", 80): InstanceState.UNKNOWN,
    ("suspend", 80): InstanceState.UNKNOWN,
    ("shelved", 0): InstanceState.UNKNOWN,
    ("shelved_offloaded", 0): InstanceState.UNKNOWN,
    ("error", 0): InstanceState.ERROR,
    ("ERROR", 0): InstanceState.ERROR,
    ("stopped", 80): InstanceState.STOPPED,
    ("stopping", 64): InstanceState.STOPPING,
    ("pending", 0): InstanceState.PENDING,
    ("running", 272): InstanceState.RUNNING,
    ("shutting-down", 32): InstanceState.SHUTTING_DOWN,
    ("terminated", 48): InstanceState.TERMINATED,
    ("quarantine", 16): InstanceState.UNKNOWN,
}


def test_the_name_of_a_state_decides_and_every_owned_machine_is_listed_whatever_it_is(server: EC2Server) -> None:
    items = [one(f"i-{n}", state(*words) + tags()) for n, words in enumerate(ODD_STATES)]
    server.script("DescribeInstances", instances(*items))
    listed = {found.id: found for found in cloud_at(server.url).instances(NONE).owned}
    assert [listed[f"i-{n}"].state for n in range(len(ODD_STATES))] == list(ODD_STATES.values())
    assert [listed[f"i-{n}"].state_detail for n in range(len(ODD_STATES))] == [name for name, _ in ODD_STATES]


def test_a_machine_of_openstack_in_error_is_read_as_it_is(server: EC2Server) -> None:
    item = (
        "<instanceId>i-0000073a</instanceId><imageId>ami-00000002</imageId><privateDnsName>server-1</privateDnsName>"
        "<dnsName/><privateIpAddress/><ipAddress/><keyName>k (tenant, host)</keyName><amiLaunchIndex>0</amiLaunchIndex>"
        "<instanceType>m1.small</instanceType><launchTime>2026-03-01T12:00:00.000Z</launchTime>"
        "<placement><availabilityZone>nova</availabilityZone></placement><kernelId/><ramdiskId/>"
        f"{state('error', 0)}<reason/><productCodesSet/><rootDeviceType>instance-store</rootDeviceType>"
    )
    server.script("DescribeInstances", instances(item))
    (found,) = cloud_at(server.url).instances(frozenset({"i-0000073a"})).owned
    assert (found.id, found.state, found.addresses) == ("i-0000073a", InstanceState.ERROR, NONE)
    assert (found.flavour, found.launched_at, found.state_detail) == ("m1.small", 1772366400.0, "error")
