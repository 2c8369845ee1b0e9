"""Makes root.tar.xz and answers.json, in a checkout of 1a2e412 at /var/tmp/last-release/checkout.

python -m infra.environment python …/make.py
"""

import json
import logging
import os
import random
import shutil
import sqlite3
import subprocess
import sys
import tarfile
import time
from pathlib import Path
from typing import Any

import httpx

HOME = Path("/var/tmp/last-release")
CHECKOUT, ROOT, TICKETS, VECTORS = (
    HOME / name for name in ("checkout", "root", "tickets", "vectors.txt")
)
HERE = Path(__file__).resolve().parent
PORTS = {"BIDAFLOW_PREFECT_PORT": "27411", "BIDAFLOW_MLFLOW_PORT": "27412"}
API = f"http://127.0.0.1:{PORTS['BIDAFLOW_PREFECT_PORT']}/api"
ENVIRONMENT = {
    **{k: v for k, v in os.environ.items() if not k.startswith("PREFECT_")},
    **PORTS,
    "BIDAFLOW_ROOT": str(ROOT),
    "OMP_NUM_THREADS": "1",
}
DATA = {"dataset": str(TICKETS), "validation_share": 0}
FLAGS = """--data.validation-share 0 --variants char,char-selfattn
--training.epochs 1 --training.hidden-size 4
--training.characters.embedding-size 8 --training.characters.filters 8
--resources.workers 1 --resources.cpus-per-worker 1"""
NOT_KEPT = ("logs", "ray", "under-way", "locks", "services.json")


def write_data() -> None:
    """Articles of the generated dataset, and vectors of four numbers for all their words."""
    from tasks.tiny import generate
    from tasks.tokenizer import tokenize

    words: set[str] = set()
    TICKETS.mkdir(parents=True)
    for name, data, articles in zip(("train", "dev"), generate(3), (4, 3), strict=True):
        part = {**data, "data": data["data"][:articles]}
        (TICKETS / f"{name}.json").write_text(json.dumps(part), encoding="utf-8")
        for paragraph in (p for article in part["data"] for p in article["paragraphs"]):
            for text in (paragraph["context"], *(q["question"] for q in paragraph["qas"])):
                words |= {text[start:end].lower() for start, end in tokenize(text)}
    draw = random.Random(0).uniform
    lines = [f"{w} {' '.join(f'{draw(-1, 1):.2f}' for _ in range(4))}\n" for w in sorted(words)]
    VECTORS.write_text("".join(lines), encoding="utf-8")


def python(*arguments: str, **options: Any) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", *arguments]
    return subprocess.Popen(command, env=ENVIRONMENT, cwd=CHECKOUT, text=True, **options)


def ask(method: str, path: str, body: Any = None) -> Any:
    answer = httpx.request(method, API + path, json=body, timeout=120).raise_for_status()
    return answer.json() if answer.content else None


def edit_as_people_do() -> None:
    """What the UI sends: schedules and parameters, a pause, a later run, a duplicate."""
    deployments = {one["name"]: one for one in ask("POST", "/deployments/filter", {})}
    address = {name: f"/deployments/{one['id']}" for name, one in deployments.items()}
    (weekly,) = deployments["retrain"]["schedules"]
    small = {"epochs": 1, "hidden_size": 4}
    edited = {
        "schedule": {"cron": "30 5 * * 2", "timezone": "Asia/Tokyo"},
        "active": False,
        "parameters": {"data": DATA, "vectors": {"source": str(VECTORS)}, "training": small},
    }
    ask("PATCH", f"{address['retrain']}/schedules/{weekly['id']}", edited)
    ask("PATCH", address["train"], {"parameters": {"variants": ["char"], "data": DATA}})
    ask("POST", f"{address['ingest']}/pause_deployment")

    judge = address["judge-embeddings"]
    ask("PATCH", judge, {"parameters": {"lower_case": False}})
    yearly = {
        "schedule": {"cron": "0 4 1 1 *", "timezone": "Europe/London"},
        "active": True,
        "slug": "yearly",
        "parameters": {
            "vectors": [str(VECTORS)],
            "dataset": str(TICKETS),
            "look": {"words": ["mill"]},
            "lower_case": True,
            "fetch": False,
        },
    }
    hourly = {"schedule": {"interval": 3600.0, "timezone": "UTC"}, "active": False}
    ask("POST", f"{judge}/schedules", [yearly, hourly])
    later = {"type": "SCHEDULED", "state_details": {"scheduled_time": "2099-01-01T00:00:00Z"}}
    run = {"name": "new-year-2099", "parameters": {"vectors": [str(VECTORS)]}, "state": later}
    ask("POST", f"{judge}/create_flow_run", run)
    copied = ("flow_id", "description", "parameter_openapi_schema", "enforce_parameter_schema")
    copied += ("tags", "work_pool_name", "job_variables", "pull_steps", "entrypoint")
    duplicate = {name: deployments["judge-embeddings"][name] for name in copied}
    parameters = {"dataset": str(TICKETS)}
    ask("POST", "/deployments/", {**duplicate, "name": "judge-tickets", "parameters": parameters})


def edit() -> None:
    up = python("infra.services", "up", stdout=subprocess.PIPE)
    assert up.stdout is not None
    for line in up.stdout:
        if line.startswith("Stop "):
            break
    edit_as_people_do()
    while len(ask("POST", "/flow_runs/filter", {})) < 3:  # the schedule's run is created, too
        time.sleep(2)
    assert python("infra.services", "down").wait() == 0
    up.wait()


def write_answers() -> None:
    """The champion's answers to some questions of dev, as MLflow loads it."""
    import mlflow

    logging.getLogger("mlflow").setLevel(logging.ERROR)
    mlflow.set_tracking_uri(f"sqlite:///{ROOT}/mlflow.db")
    data = json.loads((TICKETS / "dev.json").read_text(encoding="utf-8"))
    paragraphs = [p for article in data["data"] for p in article["paragraphs"]]
    asked = [
        {"question": paragraph["qas"][i % 5]["question"], "context": paragraph["context"]}
        for i, paragraph in enumerate(paragraphs[::3])
    ]
    asked.append({"question": "Who wrote it?", "context": "It was written by Ada."})
    answers = mlflow.pyfunc.load_model("models:/bidaf-tickets@champion").predict(asked)
    known = {"questions": asked, "answers": answers}
    (HERE / "answers.json").write_text(json.dumps(known, indent=1) + "\n", encoding="utf-8")


def pack() -> None:
    for name in NOT_KEPT:
        folder = ROOT / name
        shutil.rmtree(folder) if folder.is_dir() else folder.unlink(missing_ok=True)
    for file in ("mlflow.db", "prefect/prefect.db"):
        database = sqlite3.connect(ROOT / file, isolation_level=None)
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        database.execute("PRAGMA journal_mode = DELETE")
        if file.startswith("prefect"):
            for table in ("events", "event_resources", "log"):
                database.execute(f"DELETE FROM {table}")
        database.execute("VACUUM")
        database.close()
    with tarfile.open(HERE / "root.tar.xz", "w:xz", preset=9) as archive:
        for path in (ROOT, TICKETS, VECTORS):
            archive.add(path, path.name)


if __name__ == "__main__":
    sys.path.insert(0, str(CHECKOUT))
    sys.dont_write_bytecode = True
    write_data()
    flags = ["--data.dataset", str(TICKETS), "--vectors.source", str(VECTORS), *FLAGS.split()]
    assert python("flows.retrain", *flags).wait() == 0
    edit()
    write_answers()
    pack()
