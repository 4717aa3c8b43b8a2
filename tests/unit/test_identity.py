"""Who the head node is: the same after a lost state directory, another for every machine, user, cluster."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest

from elastiq import identity
from elastiq.headid import HEAD_ID_FILE

MACHINE = "0123456789abcdef0123456789abcdef"

FIB_TRIE = """\
Main:
  +-- 0.0.0.0/0 3 0 5
     |-- 0.0.0.0
        /0 universe UNICAST
     +-- 10.0.3.0/24 2 0 2
        |-- 10.0.3.17
           /32 host LOCAL
        |-- 10.0.3.255
           /32 link BROADCAST
        |-- 10.0.3.99
           /32 universe UNICAST
Local:
  +-- 0.0.0.0/0 3 0 5
        +-- 127.0.0.0/31 1 0 0
           |-- 127.0.0.0
              /8 host LOCAL
           |-- 127.0.0.1
              /32 host LOCAL
     |-- 169.254.7.7
        /32 host LOCAL
     |-- 10.0.3.17
        /32 host LOCAL
     |-- 192.168.5.1
        /32 host LOCAL
"""
IF_INET6 = """\
fe8000000000000000fc00fffe000001 04 40 20 80     eth0
00000000000000000000000000000001 01 80 10 80       lo
fd000000000000000000000000000002 04 40 00 82     eth0
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The files of a machine with an id and two networks."""
    write(tmp_path / "etc/machine-id", MACHINE + "\n")
    write(tmp_path / "proc/net/fib_trie", FIB_TRIE)
    write(tmp_path / "proc/net/if_inet6", IF_INET6)
    (tmp_path / "state").mkdir()
    return tmp_path


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")


def head(root: Path, cluster: str = "alice") -> str:
    return identity.owner(cluster, root / "state", root=root).head


def test_the_head_is_a_keyed_hash_that_does_not_hold_the_machine_id(root: Path) -> None:
    found = head(root)
    assert len(found) == 64 and int(found, 16)
    assert MACHINE not in found
    assert found == head(root)
    assert not list((root / "state").iterdir()), "a machine with an id needs no state for it"


def test_another_machine_cluster_or_user_is_another_head(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    heads = [head(root), head(root, "bob")]
    monkeypatch.setattr("os.getuid", lambda: 4711)
    heads.append(head(root))
    write(root / "etc/machine-id", MACHINE[::-1])
    heads.append(head(root))
    assert len(set(heads)) == 4


@pytest.mark.parametrize("content", [None, "", "\n", "uninitialized\n", "0" * 32, "not an id", "é"])
def test_a_machine_without_an_id_gets_one_that_is_kept(root: Path, content: str | None) -> None:
    (root / "etc/machine-id").unlink()
    if content is not None:
        write(root / "etc/machine-id", content)
    found = head(root)
    kept = root / "state" / HEAD_ID_FILE
    assert found == head(root)
    assert kept.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in (root / "state").iterdir()] == [HEAD_ID_FILE]
    kept.unlink()
    assert head(root) != found, "it is random, not a constant"


def test_the_older_place_of_the_machine_id_is_used_too(root: Path) -> None:
    before = head(root)
    (root / "etc/machine-id").unlink()
    write(root / "var/lib/dbus/machine-id", MACHINE)
    assert head(root) == before


def test_an_id_that_cannot_be_kept_is_an_error_and_not_a_new_head_at_each_start(root: Path) -> None:
    (root / "etc/machine-id").unlink()
    with pytest.raises(identity.IdentityError, match="cannot be kept"):
        identity.owner("alice", root / "missing", root=root)


def test_a_kept_id_that_was_spoilt_is_not_silently_replaced(root: Path) -> None:
    (root / "etc/machine-id").unlink()
    write(root / "state" / HEAD_ID_FILE, "")
    with pytest.raises(identity.IdentityError, match="restore or remove"):
        head(root)


def test_own_addresses_are_all_but_loopback_and_link_local(root: Path) -> None:
    assert identity.own_addresses(root) == {"10.0.3.17", "192.168.5.1", "fd00::2"}


def test_a_machine_without_ipv6_has_only_its_other_addresses(root: Path) -> None:
    (root / "proc/net/if_inet6").unlink()
    assert identity.own_addresses(root) == {"10.0.3.17", "192.168.5.1"}


def test_addresses_that_cannot_be_read_are_an_error_and_not_none(root: Path) -> None:
    (root / "proc/net/fib_trie").unlink()
    with pytest.raises(identity.IdentityError, match="addresses"):
        identity.own_addresses(root)


def test_this_machine_s_own_addresses_are_those_that_the_kernel_would_send_from() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        try:
            sock.connect(("192.0.2.200", 9))  # sends nothing
            expected = {sock.getsockname()[0]}
        except OSError:  # a machine without a network
            expected = set()
    assert expected <= identity.own_addresses()


def test_the_instance_id_comes_from_the_firmware_first(root: Path) -> None:
    write(root / "sys/class/dmi/id/board_asset_tag", "i-0123456789abcdef0\n")
    write(root / "var/lib/cloud/data/instance-id", "i-ffffffff\n")
    assert identity.own_instance_id(root) == "i-0123456789abcdef0"


@pytest.mark.parametrize(
    "data",
    [
        {"v1": {"instance_id": "i-00000abc"}},
        {"v1": {"instance_id": "6f1c0a52-uuid"}, "ds": {"meta_data": {"instance-id": "i-00000abc"}}},
    ],
)
def test_the_instance_id_comes_from_cloud_init(root: Path, data: object) -> None:
    write(root / "sys/class/dmi/id/board_asset_tag", "Not Specified\n")
    write(root / "run/cloud-init/instance-data.json", json.dumps(data))
    assert identity.own_instance_id(root) == "i-00000abc"


def test_the_instance_id_of_an_old_cloud_init(root: Path) -> None:
    write(root / "run/cloud-init/instance-data.json", "[]")
    write(root / "var/lib/cloud/data/instance-id", "i-00000abc\n")
    assert identity.own_instance_id(root) == "i-00000abc"


def test_a_machine_that_is_no_instance_has_no_instance_id(root: Path) -> None:
    write(root / "var/lib/cloud/data/instance-id", "iid-datasource-none\n")
    assert identity.own_instance_id(root) is None
