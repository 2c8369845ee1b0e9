"""Show the Prefect and MLflow servers and the worker, and what is running."""

from rich.console import Console
from rich.table import Table

from flows.commands.terminal import table
from infra.processes import read_record
from infra.settings import settings
from tasks.tracking import registry
from tasks.tracking.orphaned_runs import active_flow_runs


def status() -> None:
    """Show the services, the flow runs in progress and the champions."""
    console = Console()
    console.print(f"Root       {settings().root.resolve()}", soft_wrap=True, highlight=False)
    console.print(_services())
    runs = active_flow_runs()
    console.print(f"Flow runs  {', '.join(sorted(runs)) or 'none in progress'}", highlight=False)
    for model in registry.champions(settings().tracking_uri):
        console.print(f"Champion   {model.name} version {model.version}", highlight=False)


def _services() -> Table | str:
    record = read_record()
    if record is None:
        return "Services   not running; start them with: bidaflow up"
    urls = {
        "prefect": record.prefect_url,
        "mlflow": record.mlflow_url,
        "reports": record.reports_url,
    }
    rows = [
        (name, "running" if process.alive else "stopped", str(process.pid), urls.get(name, ""))
        for name, process in record.services.items()
    ]
    return table(("service", "state", "process", "URL"), rows)
