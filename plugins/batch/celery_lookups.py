"""How one task of Celery stands: `elastiqctl explain TASK-ID`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from elastiq.errors import SourceError
from elastiq.plugins.batch.shapes import Shape

if TYPE_CHECKING:
    from elastiq.plugins.batch.celery import Celery


def find_job(task: str, celery: Celery) -> tuple[str, str]:
    """As `BatchSystem.find_job`. A task that waits is seen with Redis only: RabbitMQ shows no message of a queue."""
    if not task or any(char.isspace() for char in task):
        raise SourceError(f"{task[:40]!r} is no id of a task")
    found = celery.helper.ask("looking for the task", "find", task=task, queues=[one.name for one in celery.queues])
    if "queue" in found:
        for queue in celery.queues:
            if queue.name == found["queue"]:
                key = Shape(queue.request, f"queue {queue.name}", pools=queue.pools).key
                return key, f"task {task} ({found['task'][1]}) waits in queue {queue.name}"
    if "process" in found:
        states = {"active": "runs", "reserved": "is prefetched, and waits for its turn,", "ready": "waits"}
        how = states.get(found["state"], f"is {found['state']}")
        return "", f"task {task} ({found['task'][1]}) {how} at {found['process']}"
    unseen = "" if found.get("sees_queues") else "; it may wait in a queue, RabbitMQ does not show what is in one"
    raise SourceError(f"no worker that answers has task {task}{unseen}")
