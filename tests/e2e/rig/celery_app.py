"""An application of Celery's: its tasks, and a program that sends them. `celery worker -A` finds ``app`` here.

Imports nothing of this repository: Debian's Celery reads it by path, too.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

import celery
import redis

settings: dict[str, Any] = json.loads(os.environ.get("CELERY_RIG", "{}"))
app = celery.Celery("rig", broker=settings.get("broker"))
app.conf.update(
    broker_connection_retry_on_startup=True,
    task_acks_late=settings.get("acks_late", False),
    worker_prefetch_multiplier=settings.get("prefetch", 1),
    broker_transport_options=settings.get("transport", {}),
    worker_cancel_long_running_tasks_on_connection_loss=False,
)


@app.task(name="rig.nap")
def nap(number: int, seconds: float) -> None:
    notes = redis.Redis(os.environ["CELERY_RIG_NOTES"], 6380)
    notes.rpush("started", number)
    time.sleep(seconds)
    notes.rpush("ended", number)


def send(number: int, seconds: float, queue: str = "celery", **options: Any) -> None:
    app.send_task("rig.nap", (number, seconds), queue=queue, **options)


if __name__ == "__main__":
    app.conf.broker_url = sys.argv[1]
    for task in json.loads(sys.argv[2]):
        send(**task)
