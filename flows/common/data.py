"""The data of a run: the files that a user names, and the splits that are ingested from them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from logging import INFO, WARNING
from pathlib import Path
from typing import Any

from prefect import get_run_logger

from flows.common.parameters import DataParameters
from infra.artifacts.stage import Output
from infra.errors import UserError
from infra.files import READ_PROGRESS
from infra.reporting.progress_reporter import showing_read_progress
from infra.run_logger import logger
from tasks.data.ingested import Portion, articles_with_questions
from tasks.data.splits import Exclusions, Overlap, Shares, feedback_contexts, has_validation
from tasks.datasets.catalog import DATASETS, FEW_QUESTIONS, FOR_FEW_QUESTIONS, Dataset, SplitName
from tasks.datasets.fetch import Source
from tasks.datasets.paths import (
    DataFile,
    assign_splits,
    dataset_name,
    find_data_files,
    require_valid_name,
    warn_of_dev_files,
)
from tasks.stages import (
    fetch_remote_stage,
    fetch_stage,
    generate_stage,
    ingest_stage,
    split_stage,
)
from tasks.tracking.runs import Split
from tasks.training.inputs import existing_splits

# Share of the training articles held out for validation, unless a dataset suggests another.
VALIDATION_SHARE = 0.1
# Above this share of contexts left out, the run warns.
NOTABLE_LOSS = 0.01


@dataclass(frozen=True)
class DataFiles:
    """A dataset's name, its files, and how to split them."""

    name: str
    train: list[Path]
    dev: list[Path]  # empty if dev is held out of the training files
    mixed: list[tuple[list[Path], float]]
    validation_share: float
    overlap: Overlap
    unused: list[str]  # names of files in the dataset's folder that are in no split

    @property
    def all(self) -> list[Path]:
        """Every file, whatever its use."""
        return [*self.train, *self.dev, *(file for files, _ in self.mixed for file in files)]


def find_files(data: DataParameters) -> DataFiles:
    """The files that the parameters name; remote files are fetched."""
    known = _known_dataset(data)
    train, dev, unused = _train_and_dev(data, known)
    own_dev = _resolve_all(data.dev_files, "dev", data.seed)
    suggested_share = known.validation_share if known else VALIDATION_SHARE
    return DataFiles(
        name=name_of_data(data),
        train=train,
        dev=own_dev or dev,
        mixed=[
            (_resolve_all(source.files, "train", data.seed), source.weight) for source in data.mix
        ],
        validation_share=(
            suggested_share if data.validation_share is None else data.validation_share
        ),
        overlap=data.overlap or ("leave out" if known and not own_dev else "refuse"),
        unused=unused,
    )


def find_evaluation_files(data: DataParameters) -> list[Path]:
    """The dev files of the dataset, or all of its files if it has none; only these are fetched."""
    if _known_dataset(data):
        return resolve(data.dataset, "dev", data.seed)
    train_files, dev_files, _ = assign_splits(find_data_files(data.dataset, local_copy))
    return _local_copies(dev_files or train_files)


def recommended_training(data: DataParameters) -> dict[str, Any]:
    """Changes to a preset's training that suit a known dataset; none for other data."""
    known = _known_dataset(data)
    return known.training if known else {}


def _known_dataset(data: DataParameters) -> Dataset | None:
    """The known dataset that the parameters name, unless they give their own training files."""
    return None if data.train_files else DATASETS.get(data.dataset)


def name_of_data(data: DataParameters) -> str:
    """The name under which runs on the data are filed.

    Raises:
        UserError: the name is reserved, or too long.
    """
    # The default does not name training files.
    unnamed = data.train_files and data.dataset == "tiny"
    name = dataset_name(data.train_files[0] if unnamed else data.dataset)
    require_valid_name(name)
    return name


def _train_and_dev(
    data: DataParameters, known: Dataset | None
) -> tuple[list[Path], list[Path], list[str]]:
    """The files of both splits, and the names of unused ones."""
    if data.train_files:
        files = _resolve_all(data.train_files, "train", data.seed)
        warn_of_dev_files(files)
        return files, [], []
    if data.dev_files and data.dataset == "tiny":
        raise UserError(
            "data.dev_files is set, but there are no files to train on. Set data.train_files, or "
            "data.dataset."
        )
    if known is None:
        train_files, dev_files, others = assign_splits(find_data_files(data.dataset, local_copy))
        unused = [file.name for file in others]
        return _local_copies(train_files), _local_copies(dev_files), unused
    train = resolve(data.dataset, "train", data.seed)
    dev = resolve(data.dataset, "dev", data.seed)
    return train, [] if dev == train else dev, []


def _resolve_all(specs: Sequence[str], split: SplitName, seed: int) -> list[Path]:
    return [file for spec in specs for file in resolve(spec, split, seed)]


def resolve(spec: str, split: SplitName, seed: int) -> list[Path]:
    """The local data files that a user names by a path, a glob, a URL, the URI of an object or a
    folder in a store, or as a known dataset, of which the file for this split is taken.

    A path may lead into a zip. What is not on this machine is fetched, or generated by the seed.

    Raises:
        UserError: a name leads to no data files, or they can't be read or fetched.
    """
    if spec not in DATASETS:
        return _local_copies(find_data_files(spec, local_copy))
    source = DATASETS[spec].source(split)
    if source is None:
        return [generate_stage(seed).folder / f"{split}.json"]
    return [fetch_stage(source).folder / source.name]


def _local_copies(files: Sequence[DataFile]) -> list[Path]:
    return [file if isinstance(file, Path) else local_copy(file) for file in files]


def local_copy(file: Source) -> Path:
    """A local copy of a remote file, which is fetched again if it has changed."""
    return fetch_remote_stage(file).folder / file.name


@dataclass(frozen=True)
class Splits:
    """A dataset's parameters, its name, and its ingested splits.

    `validation` consists of articles held out of the training files, and of passages with feedback
    held out of the files that are mixed in. Choices (when to stop, which
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


def suited_changes(splits: Splits, chosen: Mapping[str, Any]) -> dict[str, Any]:
    """Changes to a preset's training that suit own data with few questions; {} for other data.

    Fields that the user has chosen stay. So does the learning rate if the optimizer is chosen, and
    the reverse; patience needs a validation split.
    """
    if _known_dataset(splits.data) or splits.train.facts["questions"] >= FEW_QUESTIONS:
        return {}
    kept = {*chosen, *(() if splits.validation else ("patience",))}
    if kept & {"optimizer", "learning_rate"}:
        kept |= {"optimizer", "learning_rate"}
    return {name: value for name, value in FOR_FEW_QUESTIONS.items() if name not in kept}


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
    articles = sum(int(articles_with_questions(portion.folder).sum()) for portion in portions)
    if not has_validation(articles, shares):
        shares = shares.model_copy(update={"validation": 0.0})
    if dev_portions:
        dev = split_stage(dev_portions)
        exclusions = Exclusions(scored=dev.folder, overlap=files.overlap)
    else:
        dev = split_stage(portions, "dev", shares)
        exclusions = Exclusions(held_out=(dev.folder,))
    validation = None
    if shares.validation:
        with_feedback = (p for p in mixed if len(feedback_contexts(p.folder)))
        held_out = [*portions, *(replace(portion, weight=1.0) for portion in with_feedback)]
        validation = split_stage(held_out, "validation", shares, exclusions, data.negatives)
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
    portions = []
    for file in files:
        output = ingest_stage(file, data.repair, data.max_rejected, data.columns)
        for sentence in output.facts["read_as"]:  # also of a file that was ingested before
            logger().info("%s: %s", file.name, sentence)
        READ_PROGRESS.get()(file, 1.0)  # a cache hit counts as read, too
        portions.append(Portion(output.folder, file.name, weight, divided))
    return portions
