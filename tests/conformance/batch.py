"""The suite of batch systems is `elastiq.conformance.batch`."""

from elastiq.conformance.batch import BatchBench as BatchBench
from elastiq.conformance.batch import BatchConformance as BatchConformance
