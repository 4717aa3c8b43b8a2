"""Not mine, not touched."""

from __future__ import annotations

from tests.e2e.cluster import Cluster, wait_for
from tests.e2e.conftest import StartDaemon
from tests.e2e.rig import places


def test_instances_of_others_and_the_head_node_are_never_ended(cluster: Cluster, daemon: StartDaemon) -> None:
    elastiq = daemon(elastiq={"idle_for_time_s": 2})
    cluster.submit(1, 1)
    ours = wait_for(lambda: cluster.ec2.alive(), 30, "a machine of ours")[0]
    assert ours["tags"]["elastiq:cluster"] == "e2e"
    head = ours["tags"]["elastiq:head"]
    spared = {
        "somebody's": cluster.ec2.make({"Name": "database"}),
        "somebody's worker": cluster.ec2.make(worker=True),
        "another head's": cluster.ec2.make({**ours["tags"], "elastiq:head": head[::-1]}, worker=True),
        "another cluster's": cluster.ec2.make({**ours["tags"], "elastiq:cluster": "other", "elastiq:head": "0" * 64}),
        "the head node": cluster.ec2.make(ours["tags"], address=places.HUB_IP),
    }
    wait_for(lambda: len(cluster.machines()) >= 2, 30, "their workers join the pool")
    wait_for(cluster.all_jobs_ran, 60, "the job ran")
    wait_for(lambda: ours["id"] in cluster.ended_ids(), 60, "ours is ended")
    cluster.submit(8, 2)
    wait_for(cluster.all_jobs_ran, 60, "more jobs ran")
    wait_for(lambda: _alive(cluster) == set(spared.values()), 60, "all others live, and only they")
    assert not cluster.ended_ids() & set(spared.values())
    assert not {node["id"] for node in elastiq.nodes()} & set(spared.values())
    assert any("other head" in line for line in elastiq.status()["notices"]), "the other head's are named"


def _alive(cluster: Cluster) -> set[str]:
    return {instance["id"] for instance in cluster.ec2.alive()}
