"""Every implementation of a contract under its suite of `elastiq.conformance`, the simulated ones included."""
