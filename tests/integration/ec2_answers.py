"""What the tests over HTTP script again and again: answers of EC2, and parts of them."""

from __future__ import annotations

from tests.ec2_server import OWNER, Rule, answer

NONE: frozenset[str] = frozenset()
NO_IMAGE = answer("DescribeImages", "<imagesSet/>")


def one(key: str, inner: str = "") -> str:
    """The inside of an instance's item."""
    return f"<instanceId>{key}</instanceId>{inner}"


def made(*items: str) -> Rule:
    """RunInstances made these, each the inside of an item."""
    return answer("RunInstances", f"<instancesSet>{''.join(f'<item>{item}</item>' for item in items)}</instancesSet>")


def tags(cluster: str = OWNER.cluster, head: str = OWNER.head, intent_id: str = "i1") -> str:
    """Those that elastiq gives to a machine."""
    values = {"elastiq:cluster": cluster, "elastiq:head": head, "elastiq:pool": "ec2", "elastiq:intent": intent_id}
    items = "".join(f"<item><key>{key}</key><value>{value}</value></item>" for key, value in values.items())
    return f"<tagSet>{items}</tagSet>"


MADE = made(one("i-1"))
