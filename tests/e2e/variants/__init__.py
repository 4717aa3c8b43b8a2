"""The daemon with one thing changed, started in place of `elastiq.service`."""
