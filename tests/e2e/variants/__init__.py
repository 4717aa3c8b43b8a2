"""The daemon with one safeguard taken out, started in place of `elastiq.service`."""
