"""`elastiqctl metrics`."""

from __future__ import annotations

import json
from argparse import Namespace

from elastiq.cli.asking import ask
from elastiq.paths import Paths


def metrics(paths: Paths, args: Namespace) -> int:
    answer = ask(paths, "metrics", {"format": "json"} if args.json else {})
    if isinstance(answer, int):
        return answer
    found = answer["result"]
    print(json.dumps(found["families"], indent=2) if args.json else found["text"], end="\n" if args.json else "")
    return 0
