"""The user's proxies, which are for the internet: servers of this machine are reached without them.

One that httpx can't use is set aside. Otherwise no client could be made, not even one that uses no
proxy.
"""

import json
import os
from importlib.util import find_spec
from urllib.parse import urlsplit

from infra.errors import UserError

# urllib.request is imported locally, because it takes a while to load.

VARIABLES = ("http_proxy", "https_proxy", "all_proxy")
# Has the proxies that were set aside, by variable, as JSON; the processes started here get it.
SET_ASIDE = "BIDAFLOW_UNUSABLE_PROXIES"


def spare_own_servers() -> None:
    """Keep requests to servers on this machine away from the user's proxies."""
    proxies = {name: value for name, value in os.environ.items() if name.lower() in VARIABLES}
    if not proxies:
        return
    exempt = (os.environ.get("no_proxy") or os.environ.get("NO_PROXY") or "").split(",")
    hosts = [host.strip() for host in exempt if host.strip()]
    if "*" not in hosts:  # has its meaning only if it is alone
        hosts += [host for host in ("127.0.0.1", "localhost") if host not in hosts]
        os.environ.update(dict.fromkeys(("no_proxy", "NO_PROXY"), ",".join(hosts)))
    unusable = {name: proxy for name, proxy in proxies.items() if not _is_usable(proxy)}
    for name in unusable:
        del os.environ[name]
    if unusable:
        os.environ[SET_ASIDE] = json.dumps(unusable)


def _is_usable(proxy: str) -> bool:
    scheme = proxy.lower().partition("://")[0] if "://" in proxy else "http"
    has_socks = find_spec("socksio") is not None
    return scheme in (("http", "https", "socks5", "socks5h") if has_socks else ("http", "https"))


def require_usable_proxy(url: str) -> None:
    """Check that a request to a URL that needs the user's proxy can use it.

    Raises:
        UserError: the proxy was set aside.
    """
    from urllib.request import getproxies, proxy_bypass

    parts = urlsplit(url)
    if {parts.scheme, "all"} & getproxies().keys() or proxy_bypass(parts.netloc):
        return
    for name, proxy in json.loads(os.environ.get(SET_ASIDE, "{}")).items():
        if name.lower() in (f"{parts.scheme}_proxy", "all_proxy"):
            raise UserError(
                f"{url} can't be downloaded through the proxy {proxy} ({name}). Set {name} to an "
                "http:// proxy, or to a socks5:// one after `pip install socksio`."
            )
