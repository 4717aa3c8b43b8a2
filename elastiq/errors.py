"""How a foreign system fails: the exceptions of the two contracts.

They exist because each library has its own, and the decisions need only to know two things: what is held
back by a failure, and whether something may have happened all the same.
"""

from __future__ import annotations


class SourceError(Exception):
    """A foreign system could not be read, or did not say what became of an act: the answer is unknown.

    The text is one line for a person: what failed, where, what to do. It never holds a secret.
    """


class LaunchError(SourceError):
    """A launch was refused or its outcome is not known.

    ``launched_nothing`` is True only if the cloud surely made no instance; otherwise the intent
    stays open and is sought.
    """

    launched_nothing = True


class CapacityError(LaunchError):
    """The cloud has no room for this offer now; another offer may have."""


class QuotaError(LaunchError):
    """A limit of the account is reached; the pool cannot grow until it is raised or something ends."""


class ThrottledError(LaunchError):
    """Too many requests: slow down, then ask again."""


class ConfigurationError(LaunchError):
    """The cloud says that the request is wrong (image, flavour, network, key, ...): a person must mend it."""


class AuthError(LaunchError):
    """The credentials are missing, wrong, expired or not allowed to do this."""


class TransientError(LaunchError):
    """Anything else that may pass (5xx, time-out, nonsense in the answer).

    ``retry_s`` is for how long the offer is held back at first; 0 if the next launch is asked for differently.
    """

    def __init__(self, message: str, launched_nothing: bool = False, retry_s: float = 10.0) -> None:
        super().__init__(message)
        self.launched_nothing, self.retry_s = launched_nothing, retry_s


class UnsupportedError(SourceError):
    """This system cannot do what was asked."""


class StoreError(Exception):
    """The state file cannot be read or written. One line, with the path."""
