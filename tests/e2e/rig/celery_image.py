"""The image of an instance that runs Celery workers: for `fleet`.

What they are like is in celery.json of the head's directory (`celery_brokers.Brokers.set_defaults`): ``broker``,
``library`` ("debian" or "pypi"), ``pool``, ``slots``, ``names`` (of the processes), ``queues``, ``prefetch``,
``acks_late``, ``transport``.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.e2e.rig import celery_app, hosts, places
from tests.e2e.rig.condor_config import WorkerOptions

APP = "/srv/celery_app.py"


def boot(host: hosts.Host, options: WorkerOptions) -> None:
    """Start its workers."""
    folder = places.base() / "hosts" / host.label
    settings = json.loads((folder / "celery.json").read_text())
    environment = {"CELERY_RIG": json.dumps(settings), "CELERY_RIG_NOTES": places.HUB_IP}
    for name in settings.get("names", ["celery"]):
        words = ["-m", "celery", "-A", "celery_app", "worker", "--loglevel=info", f"--hostname={name}@%h"]
        words += [f"--concurrency={settings.get('slots', 4)}", f"--pool={settings.get('pool', 'prefork')}"]
        words += [f"--queues={settings['queues']}"] if "queues" in settings else []
        log = folder / f"celery-{host.name}-{name}.log"
        if settings.get("library") == "debian":
            host.put(APP, Path(celery_app.__file__).read_text())
            inside = {**environment, "PYTHONPATH": "/srv"}
            argv = host.within(["python3", *words], "jobuser", inside)
        else:
            inside = {**os.environ, **environment, "PYTHONPATH": str(Path(celery_app.__file__).parent)}
            argv = ["nsenter", f"--target={host.pid}", "--net", "--uts", "--pid", sys.executable, *words]
        with log.open("ab") as sink:
            subprocess.Popen(argv, env=inside, stdin=subprocess.DEVNULL, stdout=sink, stderr=sink, cwd="/")
