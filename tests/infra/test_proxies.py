"""Proxies of the user: own servers are reached without them, downloads use them."""

import os

import httpx
import pytest

from infra import proxies
from infra.errors import UserError
from infra.proxies import spare_own_servers
from tasks.datasets.download import validator
from tests.factories.file_server import Served, serving
from tests.factories.ports import free_port

ELSEWHERE = "http://data.example/a.json"


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    names = (*proxies.VARIABLES, "no_proxy")
    for name in (*names, *map(str.upper, names), proxies.SET_ASIDE):
        monkeypatch.setenv(name, "")  # so that what the code sets is undone, too
        monkeypatch.delenv(name)


def test_own_servers_are_reached_without_the_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    spare_own_servers()
    assert "NO_PROXY" not in os.environ, "there is no proxy"
    monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{free_port()}")
    monkeypatch.setenv("NO_PROXY", "intranet.example.org,localhost")
    spare_own_servers()
    assert os.environ["no_proxy"] == "intranet.example.org,localhost,127.0.0.1"
    with serving(Served(b"here")) as served:
        assert httpx.get(served.url).content == b"here"
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.setenv(name, "*")
    spare_own_servers()
    assert os.environ["NO_PROXY"] == "*"


@pytest.mark.parametrize("scheme", ["socks", "socks4", "socks5", "socks5h"])
@pytest.mark.parametrize("name", ["ALL_PROXY", "all_proxy", "HTTP_PROXY"])
def test_only_downloads_need_an_unusable_proxy(
    monkeypatch: pytest.MonkeyPatch, name: str, scheme: str
) -> None:
    monkeypatch.setenv(name, f"{scheme}://me:secret@127.0.0.1:{free_port()}")
    monkeypatch.setattr(proxies, "find_spec", lambda name: None)  # as without socksio
    spare_own_servers()
    with serving(Served(b"here")) as served:
        assert httpx.get(served.url).content == b"here"
        assert validator(served.url) == served.tag
    with pytest.raises(UserError) as caught:
        validator(ELSEWHERE)
    assert f"{ELSEWHERE} can't be downloaded through the proxy {scheme}://***@" in str(caught.value)
    assert f"Set {name} to" in str(caught.value) and "secret" not in str(caught.value)


def test_proxy_of_the_scheme_goes_before_that_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """As tools export them together."""
    with serving(Served(b"through the proxy")) as proxy:
        monkeypatch.setenv("ALL_PROXY", "socks5://127.0.0.1:9")
        monkeypatch.setenv("http_proxy", proxy.url)
        monkeypatch.setattr(proxies, "find_spec", lambda name: None)
        spare_own_servers()
        assert validator(ELSEWHERE) == proxy.tag
        assert proxy.requests[0]["path"] == ELSEWHERE
