"""`python3 -m elastiq` is `elastiqctl`, so that a fresh clone runs with nothing installed."""

from __future__ import annotations

import sys

from elastiq.cli import main

sys.exit(main())
