"""Commands in the surroundings of other machines: their result and exit status.

docs/troubleshooting.md has this table. `make test` runs the quick cells of it.
"""

import subprocess
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from infra.storage.root_format import require_format
from tasks.tracking import model_logging, registry, runs
from tests.factories.cli import BIDAFLOW, QUICK, environment_for, tests_server, write_dataset
from tests.factories.logged_models import save_untrained_model
from tests.factories.ports import free_port
from tests.factories.tracking_store import parent_run

pytestmark = pytest.mark.heavy

CONTEXT = "The mill stands on the hill … The inn – “Zum Löwen” – stands by the river."
NOWHERE = f"127.0.0.1:{free_port()}"
HTTP_PROXIES = dict.fromkeys(("http_proxy", "https_proxy"), f"http://{NOWHERE}")
SOCKS_PROXY = {"ALL_PROXY": f"socks5://{NOWHERE}"}
ASCII = {"PYTHONIOENCODING": "ascii"}
C_LOCALE = {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
NARROW = {"COLUMNS": "40"}


@dataclass(frozen=True)
class Surroundings:
    """What differs from the environment of the tests."""

    variables: dict[str, str] = field(default_factory=dict)
    open_files: int = 1024
    root: str = "root"


WORK = {
    "SOCKS proxy": Surroundings(SOCKS_PROXY),
    "SOCKS and HTTP proxies": Surroundings(SOCKS_PROXY | HTTP_PROXIES),
    "ASCII output": Surroundings(ASCII),
    "C locale": Surroundings(C_LOCALE),
    "40 columns": Surroundings(NARROW),
    "256 open files": Surroundings(open_files=256),
    "home folder missing": Surroundings({"HOME": "/nonexistent"}),
}
ALL_TOGETHER = Surroundings(SOCKS_PROXY | ASCII | C_LOCALE | NARROW, open_files=64)
REFUSED = {
    "root with %2F": (Surroundings(root="feature%2Fnew"), "which MLflow would misread"),
    "root is a file": (Surroundings(root="data/train.json"), "Not a directory. Set BIDAFLOW_ROOT"),
    "root of an unknown user": (Surroundings(root="~nosuchuser"), "Set BIDAFLOW_ROOT to a folder"),
}
SAYS = {
    "check": "Data check",
    "retrain": "(char) was not promoted",
    "ask": "Answered by bidaf-own version 1 (champion)",
    "embeddings train": "skipgram, dimension 100: ",
}
commands = pytest.mark.parametrize("command", SAYS)


@pytest.fixture(scope="module")
def folder(mlflow_tables: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Has data, texts, and a root in which an untrained model is the champion of `own`."""
    folder = tmp_path_factory.mktemp("surroundings")
    write_dataset(folder / "data")
    (folder / "texts.txt").write_text(f"{CONTEXT}\n" * 20, encoding="utf-8")
    (folder / "saved").mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BIDAFLOW_ROOT", str(folder / "root"))
        require_format()
        parent = parent_run("flow", "own")
        run_id = runs.start_variant_run(parent, runs.VariantRun("char", "stage", {}, {}, []))
        saved = save_untrained_model(folder / "saved")
        model_logging.log_model(run_id, saved, "bidaf-own", step=0)
        registry.set_champion(registry.find_version("bidaf-own/1"))
    yield folder


def words_of(command: str, folder: Path, name: str) -> list[str]:
    """The words of a command that has not run for these surroundings yet."""
    data, seed = str(folder / "data"), str(zlib.crc32(name.encode()))
    words = {
        "check": [data],
        "retrain": ["--data.dataset", data, "--variants", "char", "--training.seed", seed, *QUICK],
        "ask": ["Where is the inn?", "--context", CONTEXT, "--dataset", "own"],
        "embeddings train": ["--corpus.files", str(folder / "texts.txt"), "--embedding.seed", seed],
    }
    return [*command.split(), *words[command]]


def run(
    command: str, folder: Path, name: str, surroundings: Surroundings, **variables: str
) -> tuple[int, str]:
    """The exit status and all output."""
    root = surroundings.root if surroundings.root.startswith("~") else folder / surroundings.root
    limited = f'ulimit -n {surroundings.open_files} && exec "$@"'
    done = subprocess.run(
        ["bash", "-c", limited, "bash", BIDAFLOW, *words_of(command, folder, name)],
        env={**environment_for(Path(root)), **surroundings.variables, **variables},
        cwd=folder,
        capture_output=True,
        check=False,
    )
    return done.returncode, (done.stdout + done.stderr).decode(errors="replace")


def require_success(command: str, status: int, output: str) -> None:
    assert status == 0 and SAYS[command] in " ".join(output.split()), output
    assert "Traceback" not in output


@pytest.mark.full
@commands
@pytest.mark.parametrize("name", WORK)
def test_commands_work_in(command: str, name: str, folder: Path) -> None:
    """Each starts its own Prefect server, and, to train, its own Ray cluster."""
    require_success(command, *run(command, folder, name, WORK[name]))


@pytest.mark.full
def test_too_few_open_files_for_ray_are_refused(folder: Path) -> None:
    """Commands without Ray work with as few: see `ALL_TOGETHER`."""
    status, output = run("retrain", folder, "few", Surroundings(open_files=64))
    assert status == 1 and "At most 64 files may be open, too few for Ray." in output, output
    assert "Traceback" not in output


@pytest.mark.parametrize("command", ["check", "ask"])
def test_quick_commands_work_in_all(command: str, folder: Path, prefect_server: None) -> None:
    require_success(command, *run(command, folder, "all", ALL_TOGETHER, **tests_server()))


@commands
@pytest.mark.parametrize("name", REFUSED)
def test_surroundings_are_refused(command: str, name: str, folder: Path) -> None:
    surroundings, reason = REFUSED[name]
    status, output = run(command, folder, name, surroundings)
    assert status == 1 and reason in output, output
    assert len(output.split()) < 60 and "Traceback" not in output
