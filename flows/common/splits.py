"""A dataset's ingested splits: train, validation and dev."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from logging import INFO, WARNING
from pathlib import Path
from typing import Any

from prefect import get_run_logger

from flows.common.data_files import find_files
from flows.common.parameters import DataParameters
from infra.artifacts.stage import Output
from infra.errors import UserError
from infra.files import READ_PROGRESS
from infra.reporting.progress_reporter import showing_read_progress
from infra.run_logger import logger
from tasks.data.ingested import Portion, articles_with_questions
from tasks.data.splits import Exclusions, Shares, has_validation
from tasks.stages import ingest_stage, split_stage
from tasks.tracking.runs import Split
from tasks.training.inputs import existing_splits

# Above this share of contexts left out, the run warns.
NOTABLE_LOSS = 0.01


@dataclass(frozen=True)
class Splits:
    """A dataset's parameters, its name, and its ingested splits.

    `validation` consists of articles held out of the training files. Choices (when to stop, which
    threshold, which model) are made on it; `dev` is only reported. Without a validation split,
    promotion uses `dev`.
    """

    data: DataParameters
    name: str
    train: Output
    validation: Output | None
    dev: Output
    unused_files: Sequence[str] = ()  # names of files in the dataset's folder that are in no split

    @property
    def folders(self) -> dict[Split, Path]:
        """The folders of the splits that exist, train first and dev last."""
        splits = existing_splits(self.train, self.validation, self.dev)
        return {name: split.folder for name, split in splits.items()}


def ingest_dataset(data: DataParameters) -> Splits:
    """Find the dataset's files, ingest each of them, and split their articles."""
    files = find_files(data)
    dev_share = 0 if files.dev else data.dev_share
    if dev_share + files.validation_share >= 1:
        raise UserError(
            f"data.validation_share is {files.validation_share:g} and data.dev_share "
            f"{dev_share:g}, which leaves no articles to train on. Their sum must be below 1."
        )
    with showing_read_progress(files.all):
        portions = ingest_each(files.train, data)
        mixed = [
            portion
            for sources, weight in files.mixed
            for portion in ingest_each(sources, data, weight, divided=False)
        ]
        dev_portions = ingest_each(files.dev, data)
    shares = Shares(validation=files.validation_share, dev=dev_share, seed=data.seed)
    if dev_portions:
        dev = split_stage(dev_portions)
        exclusions = Exclusions(scored=dev.folder, overlap=files.overlap)
    else:
        dev = split_stage(portions, "dev", shares)
        exclusions = Exclusions(held_out=(dev.folder,))
    validation = None
    articles = sum(int(articles_with_questions(portion.folder).sum()) for portion in portions)
    if has_validation(articles, shares):
        validation = split_stage(portions, "validation", shares, exclusions, data.negatives)
        exclusions = replace(exclusions, held_out=(*exclusions.held_out, validation.folder))
    train = split_stage([*portions, *mixed], "train", shares, exclusions, data.negatives)
    for part, split in (("train", train), ("validation", validation)):
        if split is not None:
            _report_left_out(part, split)
    return Splits(data, files.name, train, validation, dev, files.unused)


def ingest_texts(dataset: str, **shares: Any) -> Splits:
    """The splits of a dataset whose texts are read, but which is not trained on: invalid answers
    and contexts in several splits do no harm."""
    return ingest_dataset(
        DataParameters(dataset=dataset, max_rejected=1, overlap="leave out", **shares)
    )


def _report_left_out(part: str, split: Output) -> None:
    """Say how many contexts a part has lost because they also occur in held-out questions."""
    lost, kept = split.facts["contexts_left_out"], split.facts["contexts"]
    if lost:
        level = WARNING if lost > NOTABLE_LOSS * (lost + kept) else INFO
        get_run_logger().log(
            level,
            "%d of the %d contexts of %s are left out, because they also occur in held-out data.",
            lost,
            lost + kept,
            part,
        )


def ingest_each(
    files: Sequence[Path], data: DataParameters, weight: float = 1.0, divided: bool = True
) -> list[Portion]:
    """Ingest files one by one, so that files ingested before come from the cache."""
    return [Portion(_ingested(file, data).folder, file.name, weight, divided) for file in files]


def _ingested(file: Path, data: DataParameters) -> Output:
    output = ingest_stage(file, data.repair, data.max_rejected, data.columns)
    for sentence in output.facts["read_as"]:  # also of a file that was ingested before
        logger().info("%s: %s", file.name, sentence)
    READ_PROGRESS.get()(file, 1.0)  # a cache hit counts as read, too
    return output
