"""Flow `train`: train, evaluate and register variants on a dataset, and write a report."""

from typing import Any

from prefect import flow
from rich.table import Column

from flows.commands.flow_command import flow_command
from flows.commands.terminal import show, table
from flows.common.data import ingest_dataset, recommended_training
from flows.common.display_names import require_unique
from flows.common.failures import TRAINING_FLOW, report_user_errors
from flows.common.parameters import (
    DataParameters,
    TrainingParameters,
    Variants,
    VectorParameters,
    VocabularyParameters,
)
from flows.common.presets import configure
from flows.common.publish import TrainedVariants, publish
from flows.common.training import Training, model_to_start_from, suited_to, train_all
from flows.common.vectors import composes_oov_words, encode_dataset, vectors_for
from infra.cluster.allotment import Resources
from models.configs.variant import VariantConfig
from tasks.stages import error_report_stage, report_stage

# The columns that the terminal shows; the report and Prefect show all columns.
TERMINAL_COLUMNS = ("variant", "EM", "F1", "NLL", "AvNA", "examples/s")


def train_variants(
    data: DataParameters,
    variants: Variants,
    training: TrainingParameters,
    vectors: VectorParameters,
    vocabulary: VocabularyParameters,
    resources: Resources,
) -> TrainedVariants:
    """Ingest, encode, train and report: the steps that `train` and `retrain` share.

    A step whose inputs, parameters and code are unchanged comes from the cache.
    """
    configs, vectors = checked(data, variants, training, vectors)
    start = model_to_start_from(training.start_from)
    splits = ingest_dataset(data)
    encoded = encode_dataset(splits, vectors, vocabulary.config, composes_oov_words(configs))
    suited = suited_to(configs, splits, training.changes())
    trainings = [Training(config, splits, encoded, start) for config in suited]
    trained = train_all(trainings, resources)
    folders = [output.folder for output in trained]
    report = report_stage(splits.name, folders, splits.folders, encoded.vocabulary.folder)
    errors = [error_report_stage(splits.name, folder, splits.dev.folder) for folder in folders]
    return TrainedVariants(splits, trained, report, errors)


def checked(
    data: DataParameters,
    variants: Variants,
    training: TrainingParameters,
    vectors: VectorParameters,
) -> tuple[list[VariantConfig], VectorParameters]:
    """The configured variants and the vectors that they need, checked before any data is read.

    Raises:
        UserError: a variant is invalid or listed twice, or the vectors do not suit it.
    """
    recommended = recommended_training(data)
    configs = [configure(name, recommended, training.changes()) for name in variants]
    require_unique(variants=[config.name for config in configs])
    return configs, vectors_for(configs, vectors)


@flow(
    name="train",
    description=__doc__,
    **TRAINING_FLOW,
)
@report_user_errors
def train(
    data: DataParameters,
    variants: Variants = ["baseline", "char"],
    training: TrainingParameters = TrainingParameters(),
    vectors: VectorParameters = VectorParameters(),
    vocabulary: VocabularyParameters = VocabularyParameters(),
    resources: Resources = Resources(),
) -> dict[str, Any]:
    """Train the variants on a dataset, and return their scores and the path of the report.

    The champion does not change: only `retrain` promotes.
    """
    trained = train_variants(data, variants, training, vectors, vocabulary, resources)
    return trained.summary(publish(trained))


def announce(summary: dict[str, Any]) -> None:
    """Print the table, the path of the report, and the next commands."""
    if not summary["trained"] and not summary["decision"]:
        show(f"\n{summary['unchanged']}\nLatest results:")
    rows = summary["rows"]
    first, *others = shown = [name for name in TERMINAL_COLUMNS if name in rows[0]]
    columns = [Column(first, no_wrap=True), *(Column(name, justify="right") for name in others)]
    decision = summary["decision"]
    dataset = summary["dataset"]
    if summary["model"]:
        options, asked = f"--model {summary['model']} ", "this run's best model"
    else:
        options, asked = "" if dataset == "tiny" else f"--dataset {dataset} ", "the champion"
    show(
        table(
            columns,
            [[row[name] for name in shown] for row in rows],
            title=f"{dataset}: {summary['questions']} dev questions",
        ),
        *([f"Promotion  {decision}"] if decision else []),
        f"Report     {summary['report']}",
        "",
        f"Next       bidaflow ask {options}QUESTION --context FILE   ask {asked}",
        "           bidaflow up                            start Prefect and MLflow with their UIs",
        "           bidaflow retrain --data.dataset FILE   train on your own SQuAD-format data",
    )


command = flow_command(train, announce, data=DataParameters())
