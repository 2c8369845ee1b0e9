r"""The same retraining with a folder and with an object store as the storage root.

    python -m benchmarks.cluster.storage_root OUT_FOLDER s3://bucket/folder [flags of retrain]

runs `bidaflow retrain` with an empty folder as the root, then with an empty folder of the store and
an empty cache, and then again with another empty cache, like a second machine that finds the work
done. AWS_ENDPOINT_URL_S3 and the credentials are read from the environment. The data steps must
write the same bytes, and the trainings the same weights, or the program fails.
"""

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path
from secrets import token_hex
from tempfile import TemporaryDirectory
from typing import NamedTuple

from benchmarks.common.tables import write_table
from infra.artifacts.manifest import MANIFEST, read_manifest
from infra.settings import CHECKOUT

PROGRAM = "benchmarks.cluster.storage_root"
# Files of data and weights; others, such as reports, have times, addresses and ids in them.
COMPARED = (".arrow", ".parquet", ".safetensors")
# Stages whose keys have the id of a registered model, which differs too.
OF_MODELS = ("fetch-model/", "score/")


class Measured(NamedTuple):
    """A retraining: seconds of the whole command and of each stage, and what it wrote."""

    seconds: float
    stages: dict[str, float]
    digests: dict[str, str]  # by stage, key and file
    megabytes: float

    def row(self, root: str) -> dict[str, str]:
        """The row of the table for a storage root."""
        trained = sum(time for name, time in self.stages.items() if name.startswith("train/"))
        others = sum(self.stages.values()) - trained
        return {
            "storage root": root,
            "command, s": f"{self.seconds:.1f}",
            "trainings, s": f"{trained:.1f}",
            "other stages, s": f"{others:.1f}",
            "the rest, s": f"{self.seconds - trained - others:.1f}",
            "stages": str(len(self.stages)),
            "MB": f"{self.megabytes:.1f}",
        }


def retrain(flags: list[str], folder: Path, runs: Path, **variables: str) -> Measured:
    """Run the command, and measure it by the clock and by the stages in `folder`.

    `runs` is MLflow's database.
    """
    environment = {**os.environ, "BIDAFLOW_MLFLOW_TRACKING_URI": f"sqlite:///{runs}", **variables}
    start = time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "flows", "retrain", *flags],
        env=environment,
        cwd=CHECKOUT,
        check=True,
    )
    # Those of a root at an address are in a folder of the cache that is named after it.
    (stages,) = (*folder.glob("stages"), *folder.glob("*/stages"))
    return measured(time.perf_counter() - start, stages)


def measured(seconds: float, stages: Path) -> Measured:
    """What the stages' manifests say."""
    manifests = {
        "/".join(file.parts[-3:-1]): read_manifest(file.parent)
        for file in stages.glob(f"*/[!.]*/{MANIFEST}")
    }
    files = [entry for manifest in manifests.values() for entry in manifest["files"].values()]
    digests = {
        f"{stage}/{name}": entry["sha256"]
        for stage, manifest in manifests.items()
        for name, entry in manifest["files"].items()
        if name.endswith(COMPARED) and not stage.startswith(OF_MODELS)
    }
    times = {stage: manifest["seconds"] for stage, manifest in manifests.items()}
    return Measured(seconds, times, digests, sum(entry["bytes"] for entry in files) / 1e6)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path, metavar="OUT_FOLDER")
    parser.add_argument("address", metavar="s3://BUCKET/FOLDER")
    arguments, flags = parser.parse_known_args()
    store = {"BIDAFLOW_ROOT": f"{arguments.address.rstrip('/')}/{token_hex(4)}"}
    with TemporaryDirectory() as name:
        local, cache, other = (Path(name) / part for part in ("local", "cache", "other"))
        shared = Path(name) / "mlflow.db"
        runs = {
            "folder": retrain(flags, local, local / "mlflow.db", BIDAFLOW_ROOT=str(local)),
            "object store": retrain(flags, cache, shared, **store, BIDAFLOW_CACHE=str(cache)),
        }
        here, there = runs["folder"].digests, runs["object store"].digests
        different = [
            file for file in here.keys() | there.keys() if here.get(file) != there.get(file)
        ]
        if different:
            sys.exit(f"{len(different)} files differ between the roots, among them {different[0]}.")
        again = retrain(flags, other, shared, **store, BIDAFLOW_CACHE=str(other))
    rows = [run.row(root) for root, run in runs.items()]
    # Its stages were built by the run before it, so their seconds are not its own.
    rows.append(again._replace(stages={}).row("object store, done by another machine"))
    write_table(arguments.out, "storage-root", PROGRAM, rows, equal_files=len(here))


if __name__ == "__main__":
    main()
