"""Start and stop the Prefect and MLflow servers and a worker, and show what is running."""

from rich.console import Console
from rich.table import Table

from infra.running_services import read_record
from infra.services import supervisor
from infra.settings import settings
from tasks.tracking import registry
from tasks.tracking.orphaned_runs import active_flow_runs


def up() -> None:
    """Run the Prefect and MLflow servers, their UIs and a worker until Ctrl-C."""
    supervisor.up()


def down() -> None:
    """Stop what `bidaflow up` started."""
    supervisor.down()


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
    urls = {"prefect": record.prefect_url, "mlflow": record.mlflow_url}
    table = Table("service", "state", "process", "URL")
    for name, process in record.services.items():
        state = "running" if process.alive else "stopped"
        table.add_row(name, state, str(process.pid), urls.get(name, ""))
    return table
