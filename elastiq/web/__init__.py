"""The page that the section [web] asks for: what elastiq does and why, in a browser (docs/web.md).

The decision thread looks at itself now and then and publishes what it saw; a thread of the server's hands it out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Mapping, Optional, Sequence

from elastiq.options import Kind, Option

if TYPE_CHECKING:
    from elastiq.daemon import Daemon

REMOTE = (
    "is an address that other machines reach: who reaches it sees the cluster's jobs and machines, unencrypted and"
    " without a password"
)


def check_listen(text: str) -> str:
    """A complaint about what is no address to listen on, or an empty string."""
    from elastiq.web.server import address_of

    try:
        address_of(text)
    except ValueError as error:
        return str(error)
    return ""


def check_hosts(names: Sequence[str]) -> str:
    """A complaint about what cannot be the name of a host, or an empty string."""
    from elastiq.web.server import is_host

    wrong = [name for name in names if not is_host(name)]
    return f"`{wrong[0][:60]}` cannot be the name of a host, write it without scheme, port and path" if wrong else ""


def doubt_listen(values: Mapping[str, Any]) -> str:
    """A warning of an address that is not this machine's own."""
    from elastiq.web.server import address_of, is_loopback

    if values["listen"] is None or is_loopback(address_of(values["listen"])[0]):  # None: it has a mistake
        return ""
    return REMOTE if values["allow_remote"] else f"{REMOTE}: it is not served until allow_remote = yes"


OPTIONS = (
    Option("listen", Kind.TEXT, check=check_listen, doubt=doubt_listen),
    Option("allow_remote", Kind.BOOL, False, needs=("listen",)),
    Option("hosts", Kind.LIST, (), spelling=str.lower, check=check_hosts, needs=("listen",)),
)


def follow(daemon: Daemon, values: Optional[Mapping[str, Any]]) -> None:
    """Serve the page as the section wants it now; None: not at all. On the decision thread."""
    from elastiq.web.page import Page

    listeners = daemon.core.listeners
    page = next((one for one in listeners if isinstance(one, Page)), None)
    if values is None or values["listen"] is None:
        if page is not None:
            listeners.remove(page)
            page.close()
        return
    if page is None:
        page = Page(daemon)
        listeners.append(page)
    page.configure(values)
