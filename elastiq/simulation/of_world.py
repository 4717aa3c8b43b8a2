"""What befalls the queue, the workers and the machines themselves. ``which`` is a fraction: from the oldest to the
youngest of those that are there."""

from __future__ import annotations

from functools import partial
from typing import Any, Callable, Mapping

from elastiq.interfaces import InstanceState, Resources
from elastiq.simulation.chance import chance
from elastiq.simulation.kinds import Kind, later, window
from elastiq.simulation.model import JobState, Machine, SimWorker
from elastiq.simulation.scenario import Happening
from elastiq.simulation.stage import Stage

# --------------------------------------------------------------------------- the queue


def jobs(stage: Stage, it: Happening) -> None:
    """A user submits jobs of one shape: ``lengths`` (seconds) has one entry for each. ``held`` ones may be
    released after ``released_after_s``; all that still wait may be removed after ``removed_after_s``.
    ``matches`` false: no worker ever takes one, and no answer says so; ``not_eligible``: it says why."""
    args, world = it.args, stage.world
    request = Resources(args.get("cpus"), args.get("memory_mb"), args.get("disk_mb"), args.get("gpus"))
    held, matches = bool(args.get("held")), bool(args.get("matches", True))
    made = [world.submit(request, length, held, matches, args.get("not_eligible", "")) for length in args["lengths"]]

    def release() -> None:
        for job in made:
            world.release(job)

    def remove() -> None:
        for job in made:
            if job.state in (JobState.WAITING, JobState.HELD):
                world.remove(job)

    for what, name in ((release, "released_after_s"), (remove, "removed_after_s")):
        if args.get(name) is not None:
            stage.events.after(args[name], what)


# --------------------------------------------------------------------------- workers


def worker_vanishes(stage: Stage, it: Happening) -> None:
    """The collector loses a worker for ``for_s``; it goes on with its jobs, and comes back."""
    worker = stage.worker(it.args["which"])
    if worker is not None:
        worker.listed = False
        later(stage, it, partial(_list, stage, worker))


def _list(stage: Stage, worker: SimWorker) -> None:
    if worker.alive:
        worker.listed = True
        stage.world.wake()


def worker_crashes(stage: Stage, it: Happening) -> None:
    """A worker's daemon dies and its machine runs on; ``back_s`` later a new one starts there (0: never)."""
    worker = stage.worker(it.args["which"])
    if worker is None or worker.machine is None:
        return
    stage.world.crash(worker)
    if it.args.get("back_s"):
        stage.events.after(it.args["back_s"], partial(stage.world.join, worker.machine))


def collector_restarts(stage: Stage, it: Happening) -> None:
    """It knows nobody; its workers come back one by one within ``for_s``."""
    stage.world.collector_since = stage.world.now
    for worker in list(stage.world.workers.values()):
        worker.listed = False
        stage.events.after(it.args["for_s"] * chance(it.key, worker.name), partial(_list, stage, worker))


def stale_ads(stage: Stage, it: Happening) -> None:
    """Workers that die within ``for_s`` stay in the collector's list for ``stay_s``."""
    _for_a_while(stage, it, stage.world, "ads_stay_s", it.args["stay_s"], 0.0)


def admin_drains(stage: Stage, it: Happening) -> None:
    """A person drains a worker, and returns it after ``for_s``."""
    worker = stage.worker(it.args["which"])
    if worker is None or worker.drained_by is not None:
        return
    stage.world.drain(worker, "maintenance by alice")

    def back() -> None:
        if worker.alive and worker.drained_by == "maintenance by alice":
            stage.world.undrain(worker)

    later(stage, it, back)


def admin_undrains(stage: Stage, it: Happening) -> None:
    """A person returns every drained worker to service, whoever drained it."""
    for worker in list(stage.world.workers.values()):
        if worker.alive and worker.drained_by is not None:
            stage.world.undrain(worker)


def static_worker(stage: Stage, it: Happening) -> None:
    """A worker that is no instance of the cloud joins under ``name`` and leaves after ``for_s``."""
    total = Resources(it.args["cpus"], it.args.get("memory_mb"))
    worker = stage.world.add_worker(it.args["name"], it.args["address"], total)
    later(stage, it, partial(stage.world.crash, worker))


# --------------------------------------------------------------------------- machines that are there


def interruption(stage: Stage, it: Happening) -> None:
    """The cloud takes ``count`` machines back, with the jobs on them."""
    for number in range(it.args["count"]):
        machine = stage.machine((it.args["which"] + number * 0.37) % 1.0)
        if machine is not None:
            stage.world.interrupt(machine)


def notice(stage: Stage, it: Happening) -> None:
    """The cloud says of ``count`` machines that it takes them ``ahead_s`` later, and does."""
    for number in range(it.args["count"]):
        machine = stage.machine((it.args["which"] + number * 0.37) % 1.0)
        if machine is not None and not machine.stopped and not machine.ending:
            stage.world.announce(machine, "the capacity is needed elsewhere")
            stage.events.after(it.args["ahead_s"], partial(stage.world.interrupt, machine))


def turned_by_hand(stage: Stage, it: Happening) -> None:
    """A person starts a stopped machine, or ends it, by ``how`` "start" or "terminate"."""
    stopped = [one for one in stage.world.machines.values() if one.state is InstanceState.STOPPED]
    ours = [one for one in stopped if one.made_for[1] == stage.owner.head]
    if ours:
        machine = ours[min(int(it.args["which"] * len(ours)), len(ours) - 1)]
        if it.args["how"] == "start":
            stage.world.start_again(machine)
        else:
            stage.world.terminate(machine)


def machine_falls(stage: Stage, it: Happening) -> None:
    """A machine is in ``state`` "stopped", "stopping" or "error" from now on."""
    machine = stage.machine(it.args["which"])
    if machine is not None:
        stage.world.fall(machine, InstanceState(it.args["state"]))


def machine_impaired(stage: Stage, it: Happening) -> None:
    """The cloud calls a machine impaired for ``for_s``."""
    machine = stage.machine(it.args["which"])
    if machine is not None:
        _for_a_while(stage, it, machine, "problem", "instance status impaired (reachability)", "")


def black_hole(stage: Stage, it: Happening) -> None:
    """For ``for_s`` jobs end at once on a machine ("ends"), or are claimed and lost there ("loses")."""
    machine = stage.machine(it.args["which"])
    if machine is not None:
        _for_a_while(stage, it, machine, "hole", it.args["how"], "")


def foreign_machines(stage: Stage, it: Happening) -> None:
    """For ``for_s`` there are ``count`` instances which are not ours: of ``whom`` "nobody", "another head" or
    "another cluster", or "head node" itself. With ``joins`` they are workers of our pool, too."""
    whom = it.args["whom"]
    cluster = {"nobody": "", "another cluster": "elsewhere"}.get(whom, stage.owner.cluster)
    head = {"another head": "0ther" * 8, "another cluster": "f0e1" * 8, "head node": stage.owner.head}.get(whom, "")

    def machine_of(machine_id: str, address: str) -> Machine:
        if whom == "head node":
            machine_id, address = stage.owner.instance_id or "", min(stage.owner.addresses)
            stage.world.never_recycled.add(address)
        flavour = min(stage.world.flavours)
        made = Machine(machine_id, address, flavour, stage.world.cloud_wall, cluster=cluster, head=head)
        made.made_for, made.site = (cluster, head, ""), min(stage.settings.sites)
        return made

    for _ in range(1 if whom == "head node" else it.args["count"]):
        machine = stage.world.launch(machine_of, by_image=False)
        machine.joins = bool(it.args.get("joins"))
        later(stage, it, partial(stage.world.interrupt, machine))


# --------------------------------------------------------------------------- machines to be launched

Change = Callable[[Stage, Happening, Machine, Callable[..., float]], object]


def _births(change: Change) -> Kind:
    """A kind: machines launched within ``for_s`` (a ``share`` of them) are changed."""

    def kind(stage: Stage, it: Happening) -> None:
        window(stage, it, birth=lambda machine, chances: change(stage, it, machine, chances))

    kind.__doc__ = change.__doc__
    return kind


def _attribute(name: str, value: Any) -> Kind:
    return _births(lambda stage, it, machine, chances: setattr(machine, name, value))


def _slow(stage: Stage, it: Happening, machine: Machine, chances: Callable[..., float]) -> None:
    """They boot ``times`` as slowly."""
    machine.boot_s *= it.args["times"]
    machine.join_s *= it.args["times"]


def _in_error(stage: Stage, it: Happening, machine: Machine, chances: Callable[..., float]) -> None:
    """They come to "error" instead of running."""
    stage.events.after(machine.boot_s * 0.5, partial(stage.world.fall, machine, InstanceState.ERROR))


def _holes(stage: Stage, it: Happening, machine: Machine, chances: Callable[..., float]) -> None:
    """They are black holes, as in `black_hole`, until the window's end."""
    machine.hole = it.args["how"]
    later(stage, it, partial(setattr, machine, "hole", ""))


def _more_addresses(stage: Stage, it: Happening, machine: Machine, chances: Callable[..., float]) -> None:
    """Their workers' ads have other addresses, too."""
    machine.other_addresses = (f"172.16.{int(chances('a') * 250)}.{int(chances('b') * 250)}", "fe80::1")


def addresses_recycled(stage: Stage, it: Happening) -> None:
    """Machines launched within ``for_s`` get the addresses of those that ended then."""
    _for_a_while(stage, it, stage.world, "recycled", [], None)


# --------------------------------------------------------------------------- what the cloud has


def flavour_limit(stage: Stage, it: Happening) -> None:
    """For ``for_s`` the cloud has only ``limit`` machines of a ``flavour``."""
    limits, flavour = stage.world.limits, it.args["flavour"]
    before = limits.get(flavour)
    limits[flavour] = it.args["limit"]

    def back() -> None:
        limits.pop(flavour, None)
        if before is not None:
            limits[flavour] = before

    later(stage, it, back)


def account_limit(stage: Stage, it: Happening) -> None:
    """For ``for_s`` the account may have only ``limit`` machines."""
    _for_a_while(stage, it, stage.world, "account_limit", it.args["limit"], None)


def ended_linger(stage: Stage, it: Happening) -> None:
    """Machines that end within ``for_s`` are listed for another ``linger_s`` (0: not at all)."""
    _for_a_while(stage, it, stage.world, "ended_listed_s", it.args["linger_s"], stage.world.ended_listed_s)


def cloud_clock(stage: Stage, it: Happening) -> None:
    """The cloud's clock is ``skew_s`` before the head node's, for launches from now on."""
    stage.world.cloud_skew_s = it.args["skew_s"]


def _for_a_while(stage: Stage, it: Happening, thing: object, name: str, value: object, after: object) -> None:
    setattr(thing, name, value)
    later(stage, it, partial(setattr, thing, name, after))


KINDS: Mapping[str, Kind] = {
    "jobs": jobs,
    "worker_vanishes": worker_vanishes,
    "worker_crashes": worker_crashes,
    "collector_restarts": collector_restarts,
    "stale_ads": stale_ads,
    "admin_drains": admin_drains,
    "admin_undrains": admin_undrains,
    "static_worker": static_worker,
    "interruption": interruption,
    "notice": notice,
    "turned_by_hand": turned_by_hand,
    "machine_falls": machine_falls,
    "machine_impaired": machine_impaired,
    "black_hole": black_hole,
    "foreign_machines": foreign_machines,
    "never_boots": _attribute("boots", False),
    "never_joins": _attribute("joins", False),
    "instance_store": _attribute("stoppable", False),
    "no_instance_id": _attribute("publishes_id", False),
    "publishes_id": _attribute("publishes_id", True),
    "odd_names": _attribute("odd_name", True),
    "slow_boots": _births(_slow),
    "boots_to_error": _births(_in_error),
    "born_holes": _births(_holes),
    "more_addresses": _births(_more_addresses),
    "addresses_recycled": addresses_recycled,
    "flavour_limit": flavour_limit,
    "account_limit": account_limit,
    "ended_linger": ended_linger,
    "cloud_clock": cloud_clock,
}
