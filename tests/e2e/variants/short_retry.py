"""The daemon, but after a drain that came to nothing it tries again at once, not after half a minute.

Nothing else differs; a hundred attempts at a machine then take minutes, not an hour.
"""

from __future__ import annotations

import sys

from elastiq import ending, service


def shorten() -> None:
    ending.RETRY_S = ending.LONGEST_RETRY_S = 0.5


if __name__ == "__main__":
    shorten()
    sys.exit(service.main())
