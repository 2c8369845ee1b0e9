"""The checks of `bidaflow doctor`: each service and limit that a run depends on, seen from here."""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from secrets import token_hex

import httpx

from infra.errors import UserError, first_line
from infra.masking import mask_secrets
from infra.services import prefect_status
from infra.settings import CHECKOUT, settings
from infra.storage.free_space import free_bytes
from infra.storage.root_format import read_format
from infra.storage.store import require_store

# torch and Ray are imported locally: they take seconds to load.

TIMEOUT = 10.0
MAX_CLOCK_SECONDS = 30  # S3 servers refuse requests at 15 minutes; logs are confusing long before
MIN_FREE_BYTES = 5 * 10**9

Finding = tuple[str, str | None]  # what was found; what to do, or None if it is fine


@dataclass(frozen=True)
class Check:
    """The result of a check."""

    name: str
    found: str
    to_do: str | None  # None: fine

    @property
    def ok(self) -> bool:
        """Whether there is nothing to do."""
        return self.to_do is None


def run_checks() -> Iterator[Check]:
    """Yield the result of each check."""
    checks: dict[str, Callable[[], Finding]] = {
        "storage root": _check_root,
        "free space": _check_space,
        "Prefect": _check_prefect,
        "MLflow": _check_mlflow,
        "Ray": _check_ray,
        "GPU": _check_gpu,
        "packages": _check_packages,
    }
    for name, check in checks.items():
        yield Check(name, *check())


def _check_root() -> Finding:
    current = settings()
    try:
        require_store()
        found = read_format()
    except UserError as error:
        return _finding(error)
    state = "new" if found is None else f"format {found}"
    if current.address is not None:
        return f"{current.address}, {state}, copies in {current.root}", None
    probe = current.root / f".probe-{token_hex(4)}"
    try:
        current.root.mkdir(parents=True, exist_ok=True)
        probe.touch()
        probe.unlink()
    except OSError as error:
        return f"{current.root}: {error.strerror}", "Set BIDAFLOW_ROOT to a folder you can write to"
    return f"{current.root.resolve()}, {state}", None


def _finding(error: UserError) -> Finding:
    """The problem and the remedy, which are the sentences of the message."""
    found, _, to_do = str(error).partition(". ")
    return found, to_do


def _check_space() -> Finding:
    free = free_bytes()
    text = f"{free / 10**9:.0f} GB for {settings().root.resolve()}"
    if free >= MIN_FREE_BYTES:
        return text, None
    to_do = "Free some space, or run `bidaflow prune`"
    return text, f"{to_do}, or set BIDAFLOW_CACHE_SIZE" if settings().address else to_do


def _check_prefect() -> Finding:
    api = os.environ.get("PREFECT_API_URL")
    if not api:
        return "no server set; each command starts its own", None
    return _check_server(
        api,
        f"{api}/admin/version",
        prefect_status.login(),
        "prefect",
        "PREFECT_API_URL",
        "PREFECT_API_AUTH_STRING to user:password",
    )


def _check_mlflow() -> Finding:
    uri = settings().tracking_uri
    if not uri.startswith(("http://", "https://")):
        return mask_secrets(uri), None
    names = ("MLFLOW_TRACKING_USERNAME", "MLFLOW_TRACKING_PASSWORD")
    user, password = (os.environ.get(name, "") for name in names)
    return _check_server(
        uri,
        f"{uri.rstrip('/')}/version",
        (user, password) if user else None,
        "mlflow",
        "BIDAFLOW_MLFLOW_TRACKING_URI",
        " and ".join(names),
    )


def _check_server(
    shown: str,
    url: str,
    login: tuple[str, str] | None,
    package: str,
    address: str,
    credentials: str,
) -> Finding:
    """Check that a server answers with the version of the installed package, and its clock.

    `address` and `credentials` are the variables that the remedies name.
    """
    shown = mask_secrets(shown)
    try:
        response = httpx.get(url, auth=login, timeout=TIMEOUT)
    except (httpx.TransportError, httpx.InvalidURL) as error:
        return f"{shown} does not respond ({error})", f"Start the server, or correct {address}"
    if response.status_code in (401, 403):
        return f"{shown} refuses access", f"Set {credentials}"
    if response.is_error:
        return f"{shown} answers {response.status_code}", f"Correct {address}, or read its log"
    there, here = response.text.strip().strip('"'), version(package)
    if there != here:
        return f"{shown} has version {there}, here is {here}", f"Install {package}=={here} there"
    seconds = _clock_difference(response)
    if abs(seconds) > MAX_CLOCK_SECONDS:
        return (
            f"{shown}: its clock differs by {seconds:.0f} s",
            "Set the clocks, for example by NTP",
        )
    return f"{shown}, version {there}", None


def _clock_difference(response: httpx.Response) -> float:
    """Seconds by which the server's clock is ahead of this machine's; 0 if it does not say."""
    date = response.headers.get("date")
    if date is None:
        return 0.0
    return (parsedate_to_datetime(date) - datetime.now(UTC)).total_seconds()


def _check_ray() -> Finding:
    address = os.environ.get("RAY_ADDRESS")
    if not address:
        return "no cluster set; each run starts one here", None
    from infra.cluster import ray_cluster

    try:
        ray_cluster.connect()
        found = ray_cluster.summary()
    except UserError as error:
        return _finding(error)
    except (RuntimeError, OSError, ValueError) as error:
        return (
            f"{address}: {first_line(error)}",
            "Correct RAY_ADDRESS, or install its version of Ray",
        )
    finally:
        ray_cluster.disconnect()
    return f"{address}: {found}", None


def _check_gpu() -> Finding:
    import torch

    seen = torch.cuda.device_count() if torch.cuda.is_available() else 0
    installed = len(list(Path("/dev").glob("nvidia[0-9]*")))
    if installed > seen:
        return (
            f"the machine has {installed} GPU(s), torch {torch.__version__} sees {seen}",
            "Install a CUDA build of torch, and a driver that is new enough for it",
        )
    return f"{seen} GPU(s)" if seen else "none; training uses CPUs", None


def _check_packages() -> Finding:
    """Compare the installed versions with those that were tested together."""
    lines = (CHECKOUT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = dict(line.split("==") for line in lines if "==" in line and not line.startswith("#"))
    installed = {name: found for name in pins if (found := _installed(name))}
    other = [f"{name} {found}" for name, found in installed.items() if found != pins[name]]
    if not other:
        return f"{len(installed)} as in constraints.txt", None
    return f"other versions than in constraints.txt: {', '.join(other)}", (
        "Run: pip install -c constraints.txt -e ."
    )


def _installed(package: str) -> str | None:
    """The version of a package without a local part such as +cpu; None if it is not installed."""
    try:
        return version(package).partition("+")[0]
    except PackageNotFoundError:
        return None
