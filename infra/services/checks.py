"""The checks of `bidaflow doctor`: each service and limit that a run depends on, seen from here."""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from tempfile import TemporaryFile

import httpx

from infra.errors import UserError, first_line
from infra.masking import mask_secrets
from infra.services import prefect_api
from infra.settings import CHECKOUT, settings
from infra.storage.free_space import free_bytes
from infra.storage.root_format import read_format
from infra.storage.store import require_store

# torch and Ray are imported locally: they take seconds to load.

TIMEOUT = 10.0
MIN_FREE_BYTES = 5 * 10**9


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
    """Yield the result of each check.

    A check returns what it has found, or raises a UserError of two sentences: what is wrong, and
    what to do.
    """
    checks: dict[str, Callable[[], str]] = {
        "storage root": _check_root,
        "free space": _check_space,
        "Prefect": _check_prefect,
        "MLflow": _check_mlflow,
        "Ray": _check_ray,
        "GPU": _check_gpu,
        "packages": _check_packages,
    }
    for name, check in checks.items():
        try:
            yield Check(name, check(), None)
        except UserError as error:
            found, _, to_do = str(error).partition(". ")
            yield Check(name, found, to_do)


def _check_root() -> str:
    current = settings()
    require_store()
    found = read_format()
    state = "new" if found is None else f"format {found}"
    if current.address is not None:
        return f"{current.address}, {state}, copies in {current.root}"
    try:
        current.root.mkdir(parents=True, exist_ok=True)
        TemporaryFile(dir=current.root).close()
    except OSError as error:
        raise UserError(
            f"{current.root}: {error.strerror}. Set BIDAFLOW_ROOT to a folder you can write to."
        ) from error
    return f"{current.root.resolve()}, {state}"


def _check_space() -> str:
    free = free_bytes()
    text = f"{free / 10**9:.0f} GB for {settings().root.resolve()}"
    if free < MIN_FREE_BYTES:
        cache = ", or set BIDAFLOW_CACHE_SIZE" if settings().address else ""
        raise UserError(f"{text}. Free some space, or run `bidaflow prune`{cache}.")
    return text


def _check_prefect() -> str:
    api = os.environ.get("PREFECT_API_URL")
    if not api:
        return "no server set; each command starts its own"
    return _check_version(api, prefect_api.require_access(api), "prefect")


def _check_mlflow() -> str:
    uri = settings().tracking_uri
    if not uri.startswith(("http://", "https://")):
        return mask_secrets(uri)
    names = ("MLFLOW_TRACKING_USERNAME", "MLFLOW_TRACKING_PASSWORD")
    user, password = (os.environ.get(name, "") for name in names)
    login = (user, password) if user else None
    try:
        response = httpx.get(f"{uri.rstrip('/')}/version", auth=login, timeout=TIMEOUT)
    except (httpx.TransportError, httpx.InvalidURL) as error:
        raise UserError(
            f"No MLflow server responds at {uri} ({error}). Start it, or correct or unset "
            "BIDAFLOW_MLFLOW_TRACKING_URI."
        ) from error
    if response.status_code in (401, 403):
        raise UserError(f"{uri} refuses access. Set {' and '.join(names)}.")
    return _check_version(uri, response, "mlflow")


def _check_version(address: str, response: httpx.Response, package: str) -> str:
    """Check that a server has answered with the version of the installed package."""
    if response.is_error:
        raise UserError(f"{address} answers {response.status_code}. Read its log.")
    there, here = response.text.strip().strip('"'), version(package)
    if there != here:
        raise UserError(
            f"{address} has version {there}, here is {here}. Install {package}=={here} there."
        )
    return f"{mask_secrets(address)}, version {there}"


def _check_ray() -> str:
    address = os.environ.get("RAY_ADDRESS")
    if not address:
        return "no cluster set; each run starts one here"
    from infra.cluster import ray_cluster

    try:
        ray_cluster.connect()
        return f"{address}: {ray_cluster.summary()}"
    except (RuntimeError, OSError, ValueError) as error:
        raise UserError(
            f"{address}: {first_line(error)}. Correct RAY_ADDRESS, or install its version of Ray."
        ) from error
    finally:
        ray_cluster.disconnect()


def _check_gpu() -> str:
    import torch

    seen = torch.cuda.device_count() if torch.cuda.is_available() else 0
    installed = len(list(Path("/dev").glob("nvidia[0-9]*")))
    if installed > seen:
        raise UserError(
            f"the machine has {installed} GPU(s), torch {torch.__version__} sees {seen}. Install a "
            "CUDA build of torch, and a driver that is new enough for it."
        )
    return f"{seen} GPU(s)" if seen else "none; training uses CPUs"


def _check_packages() -> str:
    """Compare the installed versions with those that were tested together."""
    lines = (CHECKOUT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = dict(line.split("==") for line in lines if "==" in line and not line.startswith("#"))
    installed = {name: found for name in pins if (found := _installed(name))}
    other = [f"{name} {found}" for name, found in installed.items() if found != pins[name]]
    if other:
        raise UserError(
            f"other versions than in constraints.txt: {', '.join(other)}. Run: pip install -c "
            "constraints.txt -e ."
        )
    return f"{len(installed)} as in constraints.txt"


def _installed(package: str) -> str | None:
    """The version of a package without a local part such as +cpu; None if it is not installed."""
    try:
        return version(package).partition("+")[0]
    except PackageNotFoundError:
        return None
