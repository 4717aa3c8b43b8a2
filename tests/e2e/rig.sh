#!/bin/sh
# The rig by hand: rig.sh up | down | purge | reset | status | submit N SECONDS | run COMMAND...
# PYTHON names an interpreter that has moto (the project's test extra); default python3.
cd "$(dirname "$0")/../.." && exec "${PYTHON:-python3}" -m tests.e2e.rig "$@"
