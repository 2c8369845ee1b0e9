"""What `make up` has running, written down for `make down` and for flows started beside it."""

from pathlib import Path

from pydantic import BaseModel

from infra.processes import Recorded
from infra.settings import settings


class Up(BaseModel):
    """The process that `make up` is, its services, and where its servers answer."""

    supervisor: Recorded
    services: dict[str, Recorded]  # in the order of their start
    prefect_url: str
    mlflow_url: str

    def write(self) -> None:
        """Write it down, in one move."""
        file = _file()
        file.parent.mkdir(parents=True, exist_ok=True)
        new = file.with_suffix(".new")
        new.write_text(self.model_dump_json(indent=1) + "\n", encoding="utf-8")
        new.rename(file)


def recorded() -> Up | None:
    """What was written down last, be it running still or killed."""
    file = _file()
    if not file.exists():
        return None
    return Up.model_validate_json(file.read_text(encoding="utf-8"))


def forget() -> None:
    """Nothing is running any more."""
    _file().unlink(missing_ok=True)


def _file() -> Path:
    return settings().root.resolve() / "services.json"
