"""The record of what `bidaflow up` runs, for `bidaflow down` and for flows started by hand."""

from pathlib import Path

from pydantic import BaseModel

from infra.atomic_files import write_atomically
from infra.processes import ProcessRecord
from infra.settings import settings


class ServicesRecord(BaseModel):
    """The process of `bidaflow up`, its services, and the URLs of its servers."""

    supervisor: ProcessRecord
    services: dict[str, ProcessRecord]  # in start order
    prefect_url: str
    mlflow_url: str

    def write(self) -> None:
        """Write the record atomically."""
        write_atomically(_file(), self.model_dump_json(indent=1) + "\n")


def read_record() -> ServicesRecord | None:
    """The last record, whether its processes still run or were killed; None without one."""
    file = _file()
    if not file.exists():
        return None
    return ServicesRecord.model_validate_json(file.read_text(encoding="utf-8"))


def remove_record() -> None:
    """Delete the record, once nothing is running any more."""
    _file().unlink(missing_ok=True)


def _file() -> Path:
    return settings().root.resolve() / "services.json"
