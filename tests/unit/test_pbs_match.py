"""Which machines would run a job of PBS, beyond their sizes; and which addresses nodes have."""

from __future__ import annotations

from typing import Any

import pytest

from elastiq.errors import SourceError
from elastiq.interfaces import Instance, InstanceState, JobGroup, Machine, Owner, Resources
from elastiq.plugins.batch.pbs import PBS
from elastiq.plugins.batch.pbs_match import portrait
from elastiq.plugins.batch.pbs_names import Addresses, chosen_address, filled
from elastiq.plugins.batch.pbs_options import OPTIONS
from elastiq.plugins.batch.pbs_rows import Record
from elastiq.plugins.batch.torque import Torque

OWNER = Owner("test", "0123456789abcdef0123")


def why_not(ad: str, *, plugin: type[PBS] = PBS, attributes: tuple[str, ...] = (), **machine: Any) -> str:
    values = {option.name: option.default for option in plugin.OPTIONS}
    batch = plugin.from_config({**values, "node_attributes": attributes}, OWNER)
    group = JobGroup("key", Resources(cpus=1), 1, ad=tuple(ad.split("; ")))
    one = Machine(**{"pool": "gpu", "flavour": "g5.xlarge", "resources": Resources(cpus=4), **machine})
    return batch.match([group], [one])["key", one]


def test_a_pool_that_names_no_queues_serves_them_all() -> None:
    assert why_not("queue = workq") == ""
    assert why_not("queue = workq", worker_ad=("queues = long, workq",)) == ""
    assert "workq" in why_not("queue = workq", worker_ad=("queues = long",))
    assert "workq" in why_not("queue = workq", attributes=("queue = long",))


def test_a_property_is_there_if_it_is_said_somewhere() -> None:
    assert "bigmem" in why_not("property = bigmem")
    assert why_not("property = bigmem", worker_ad=("Properties = fast, BigMem",)) == ""
    assert why_not("property = bigmem", portrait="properties = bigmem") == ""
    assert why_not("property = gpu", attributes=("properties = %pool%, x",)) == ""
    assert why_not("property = g5.xlarge", attributes=("properties = %flavour%",)) == ""
    assert why_not("property = bigmem; property = gpu", worker_ad=("properties = gpu",)) != ""


def test_properties_of_all_sources_add_up() -> None:
    ad = "property = one; property = two; property = gpu"
    known = {"worker_ad": ("properties = one",), "portrait": "properties = two", "attributes": ("properties = %pool%",)}
    assert why_not(ad, **known) == ""


def test_a_resource_that_no_machine_is_known_to_have_is_not_there() -> None:
    assert "worker_ad" in why_not("qlist = gpu")
    assert why_not("qlist = gpu", attributes=("resources_available.Qlist = %pool%",)) == ""
    assert why_not("qlist = gpu", worker_ad=("Qlist = gpu, cpu",)) == ""
    assert why_not("qlist = gpu", portrait="qlist = gpu,cpu") == ""
    assert why_not("qlist = gpu", worker_ad=("Qlist = cpu",)) != ""


def test_what_is_counted_must_be_enough() -> None:
    assert why_not("scratch = 100gb", worker_ad=("scratch = 200gb",)) == ""
    assert why_not("scratch = 300gb", worker_ad=("scratch = 200gb",)) != ""
    assert why_not("fpgas = 2", worker_ad=("fpgas = 2",)) == ""
    assert why_not("fpgas = 3", worker_ad=("fpgas = 2",)) != ""


def test_nothing_of_a_resource_is_everywhere() -> None:
    for wanted in ("fpgas = 0", "fast = False", "scratch = 0kb"):
        assert why_not(wanted) == ""


def test_every_mom_here_runs_linux() -> None:
    assert why_not("arch = linux") == ""
    assert why_not("arch = windows") != ""


def test_no_new_machine_is_a_host_that_has_a_name() -> None:
    assert "w7" in why_not("host = w7")


def test_what_a_single_machine_gets_says_nothing_of_a_pool() -> None:
    assert why_not("property = i-1", plugin=Torque, attributes=("properties = %instance%",)) != ""


def test_a_portrait_is_what_any_machine_of_its_kind_has() -> None:
    has = {"ncpus": "4", "mem": "8gb", "host": "w1", "vnode": "w1", "arch": "linux", "qlist": "gpu"}
    node = Record("w1", {"state": "free", "queue": "long", **{f"resources_available.{key}": has[key] for key in has}})
    assert portrait([node]).splitlines() == ["properties = ", "queues = long", "arch = linux", "qlist = gpu"]
    assert portrait([Record("w1", {"state": "free", "properties": "a,b"})]) == "properties = a,b"
    assert portrait([Record("w1", {"state": "down", "properties": "a"})]) == ""
    assert portrait([]) == ""


# ---- names and addresses


def instance(*addresses: str, number: int = 1) -> Instance:
    return Instance(f"i-{number}", InstanceState.RUNNING, frozenset(addresses), pool="gpu", flavour="m5.large")


def test_a_node_is_named_by_a_private_address_if_there_is_one() -> None:
    assert chosen_address(instance("8.8.8.8", "10.0.0.20", "10.0.0.9", "fd00::7")) == "10.0.0.9"
    assert chosen_address(instance("2a00:1450::1")) == "2a00:1450::1"
    with pytest.raises(SourceError):
        chosen_address(instance())


def test_templates_are_filled_with_what_is_known_of_the_machine() -> None:
    assert filled("%pool%-%ip%", instance("10.0.0.9")) == "gpu-10-0-0-9"
    assert filled("Mom = %address% x%instance% 100%", instance("10.0.0.9")) == "Mom = 10.0.0.9 xi-1 100%"


def test_a_registered_nodes_addresses_are_its_instances() -> None:
    found = Addresses()
    found.register("gpu-1", instance("10.0.0.9", "8.8.8.8"))
    assert found.of(["gpu-1", "ip-10-0-0-7"]) == {"gpu-1": {"10.0.0.9", "8.8.8.8"}, "ip-10-0-0-7": {"10.0.0.7"}}
    found.register("gpu-2", instance("10.0.0.10"))  # moved
    assert (found.registered("gpu-1"), found.registered("gpu-2")) == ("", "i-1")


def test_the_options_refuse_what_qmgr_could_misread() -> None:
    checks = {option.name: option.check for option in OPTIONS if option.check}
    name, attributes = checks["node_name"], checks["node_attributes"]
    for good in ("ip-%ip%", "w-%instance%.example.org", "n%pool%-%flavour%-%ip%"):
        assert not name(good), good
    for bad in ("worker", "w %ip%", "w%ip%;delete", "%pool%", "w-%ip%-%nonsense%", "-%ip%"):
        assert name(bad), bad
    assert not attributes(("np = 4", "properties = %pool%,x", "resources_available.Qlist=gpu"))
    for bad in ('np = 4"; delete node w1', "np", "= 4", "np = ", "np = %nonsense%", "4 = np"):
        assert attributes((bad,)), bad
