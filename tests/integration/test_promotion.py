"""Sequential and concurrent promotions in a real registry, between models with planted scores."""

import json
import random
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from threading import Lock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from mlflow.exceptions import MlflowException
from mlflow.tracking import MlflowClient
from prefect import flow
from safetensors.torch import load_file, save_file

from flows.commands.maintenance import rollback
from flows.common.data import ingest_dataset
from flows.common.parameters import DataParameters
from flows.common.promote import (
    KEY,
    PromotionResult,
    emit_decision,
    promote_best,
    promote_by_hand,
)
from infra.artifacts.stage import Output
from infra.errors import UserError
from infra.settings import settings
from tasks.data.ingested import fingerprint
from tasks.evaluation.promotion_rule import PromotionRule
from tasks.inference.predictor import Predictor
from tasks.tracking import model_logging, registry, runs
from tests.factories.file_server import Served, serving
from tests.factories.logged_models import CONTEXT, save_untrained_model
from tests.factories.tracking_store import parent_run

pytestmark = pytest.mark.heavy

QUESTIONS = 120
RIGHT = {
    "old": lambda i: i % 10 < 5,
    "equal": lambda i: i % 10 < 5,
    "worse": lambda i: i % 10 < 2,
    "wrong": lambda i: False,
    "better": lambda i: i % 10 < 7,
    "best": lambda i: i % 10 < 9,
    # Right on all "Who" and "When" questions, and on no "Where" question.
    "uneven": lambda i: i % 3 != 2,
}
"""Whether a model answers question `i` correctly; its answer then becomes a gold answer."""


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Untrained models by name; all but `old` and `equal` answer differently."""
    root = tmp_path_factory.mktemp("models")
    saved = save_untrained_model(root)
    folders = {}
    # With these seeds, only `wrong` answers from the first sentence, so the floor is low.
    for name, seed in zip(RIGHT, (0, 0, 2, 3, 6, 10, 12), strict=True):
        folders[name] = root / name
        shutil.copytree(saved, folders[name])
        generator = torch.Generator().manual_seed(seed)
        weights = load_file(saved / "weights.safetensors")
        drawn = {n: 2 * torch.randn(w.shape, generator=generator) for n, w in weights.items()}
        save_file(drawn, folders[name] / "weights.safetensors")
        config = json.loads((saved / "config.json").read_text())
        config["variant"]["training"]["max_answer_tokens"] = 1  # right or wrong, never partly right
        (folders[name] / "config.json").write_text(json.dumps(config))
    return folders


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory, models: dict[str, Path]) -> DataParameters:
    """Questions that each model answers correctly exactly where `RIGHT` says so."""
    folder = tmp_path_factory.mktemp("dataset")
    rng = random.Random(0)
    words = sorted(set(CONTEXT.lower().replace(".", "").split()) - {"the"})
    words += ["ash", "birch", "cedar", "elm", "fir", "larch", "oak", "pine", "yew"]
    drawn = [
        (f"{('Who', 'When', 'Where')[i % 3]} {rng.choice(words)}?", rng.sample(words, 12))
        for i in range(QUESTIONS)
    ]
    pairs = [(question, f"Trees. {' '.join(context)}") for question, context in drawn]
    golds: list[list[dict[str, object]]] = [[] for _ in pairs]
    for name, folder in models.items():
        for i, row in enumerate(Predictor.load(folder).answer(pairs)):
            if RIGHT[name](i):
                golds[i].append({"text": row["answer"], "answer_start": row["start"]})
    anything = {"text": "nowhere to be found", "answer_start": 0}
    paragraphs = [
        {
            "context": context,
            "qas": [{"id": str(i), "question": question, "answers": golds[i] or [anything]}],
        }
        for i, (question, context) in enumerate(pairs)
    ]
    something = {"text": "Something", "answer_start": 0}
    learned = {"id": "train", "question": "What?", "answers": [something]}
    train = [{"context": "Something else.", "qas": [learned]}]
    articles = [paragraphs[first : first + 10] for first in range(0, QUESTIONS, 10)]
    for part, contents in {"dev": articles, "train": [train]}.items():
        data = {"data": [{"title": part, "paragraphs": article} for article in contents]}
        (folder / f"{part}.json").write_text(json.dumps(data), encoding="utf-8")
    return DataParameters(
        dataset="planted",
        train_files=[str(folder / "train.json")],
        dev_files=[str(folder / "dev.json")],
        validation_share=0,
    )


@pytest.fixture
def promote(
    prefect_server: None,
    root: Path,
    models: dict[str, Path],
    dataset: DataParameters,
    request: pytest.FixtureRequest,
) -> Iterator[Callable[..., PromotionResult]]:
    """A flow that enters a model for promotion, and announces the decision unless it is interrupted
    before; the models are logged as if just trained.

    With a parameter, `old` was trained on the contexts of so many dev questions.
    """
    write_known_contexts(models["old"], dataset, getattr(request, "param", 0))
    parent = parent_run("flow", "planted")

    def log(name: str, stage: str) -> dict[str, str]:
        run = runs.VariantRun(name, stage, {}, {}, [])
        run_id = runs.start_variant_run(parent, run)
        model_uri = model_logging.log_model(run_id, models[name], "bidaf-planted", step=0)
        return {"run_id": run_id, "model_uri": model_uri}

    logged, logging = cache(lambda name: log(name, name)), Lock()

    @flow
    def promoting(name: str, interrupted: bool = False, anew: bool = False) -> PromotionResult:
        with logging:
            facts = log(name, "anew") if anew else logged(name)
        trained = Output(models[name], facts, False)
        result = promote_best(ingest_dataset(dataset), [trained], PromotionRule())
        if not interrupted:
            emit_decision(result, "planted", "report.html", None)
        return result

    yield promoting


def write_known_contexts(model: Path, dataset: DataParameters, count: int) -> None:
    """Let a model know the contexts of the first dev questions."""
    articles = json.loads(Path(dataset.dev_files[0]).read_text("utf-8"))["data"]
    paragraphs = [paragraph for article in articles for paragraph in article["paragraphs"]]
    known = [fingerprint(paragraph["context"]) for paragraph in paragraphs[:count]]
    pq.write_table(
        pa.table({"fingerprint": pa.array(known, pa.binary(16))}), model / registry.TRAINED_CONTEXTS
    )


def version(alias: str) -> str | None:
    model = registry.find("bidaf-planted", alias)
    if model is None:
        return None
    run = MlflowClient(settings().tracking_uri).get_run(model.run_id)
    return str(run.info.run_name)


def test_champion_stays_until_a_better_model_comes(
    promote: Callable[..., PromotionResult], capsys: pytest.CaptureFixture[str]
) -> None:
    assert promote("old").decision.promoted  # type: ignore[union-attr]
    assert (version("champion"), version("previous")) == ("old", None)
    with pytest.raises(UserError, match="no previous"):
        rollback("planted")

    for name, reason in (("equal", "at least 0.5 points is required"), ("worse", "F1 fell from")):
        result = promote(name)
        assert result.decision and not result.decision.promoted
        assert reason in result.decision.reason
        assert version("champion") == "old"
    assert promote("equal").decision is None, "the same is not decided twice"

    uneven = promote("uneven")
    assert uneven.decision and uneven.decision.parts[0].gain.mean > 0.5
    assert (
        not uneven.decision.promoted
        and "on the slice 'question word where', it fell from" in uneven.decision.reason
    )

    assert promote("better").decision.promoted  # type: ignore[union-attr]
    assert (version("champion"), version("previous")) == ("better", "old")
    assert promote("better").decision is None

    capsys.readouterr()
    rollback("data/planted.json")  # named as for retrain
    assert "is the champion again, instead of version " in capsys.readouterr().out
    assert (version("champion"), version("previous")) == ("old", None)
    with pytest.raises(UserError, match="no previous champion"):
        rollback("planted")
    assert version("champion") == "old", "a second rollback brings nothing back"


@pytest.mark.parametrize(("promote", "compared"), [(20, 100), (50, 0)], indirect=["promote"])
def test_questions_that_a_champion_knows_are_left_out(
    promote: Callable[..., PromotionResult], compared: int
) -> None:
    promote("old")
    result = promote("better")
    assert result.decision is not None and result.decision.promoted == bool(compared)
    if compared:
        assert result.decision.parts[0].questions == compared
        assert f"{compared} of {QUESTIONS} dev questions: those that neither" in result.sentence
    else:
        assert "only 7 articles can decide, and 8 are needed, 1 more" in result.sentence


def test_next_run_announces_an_interrupted_promotion(
    promote: Callable[..., PromotionResult],
) -> None:
    promote("old")
    first = promote("better", interrupted=True)
    assert first.decision and first.decision.promoted
    assert promote("better").decision == first.decision
    assert promote("better").decision is None
    assert (version("champion"), version("previous")) == ("better", "old")


def test_promotion_by_hand_settles_the_decision_before(
    promote: Callable[..., PromotionResult],
) -> None:
    promote("old")
    refused = promote("equal", interrupted=True)
    assert refused.decision and not refused.decision.promoted
    promote_by_hand(refused.challenger)
    assert promote("equal").decision is None
    assert (version("champion"), version("previous")) == ("equal", "old")


def test_promotion_by_hand_lasts_until_a_new_model(
    promote: Callable[..., PromotionResult],
) -> None:
    """A run that trains nothing new must not undo it."""
    old = promote("old").challenger
    promote("better")
    promote("best", interrupted=True)
    assert version("champion") == "best"
    promote_by_hand(old)
    for name in ("better", "best"):
        assert promote(name).decision is None
        assert version("champion") == "old"
    assert promote("better", anew=True).decision.promoted  # type: ignore[union-attr]
    assert version("champion") == "better"


def test_rollback_lasts_until_a_new_model(
    promote: Callable[..., PromotionResult],
) -> None:
    """Also if the model rolled back was not promoted by a run that decided under the same rule."""
    promote("old")
    better = promote("better").challenger
    client = MlflowClient(settings().tracking_uri)
    client.delete_model_version_tag(better.name, better.version, KEY)
    rollback("planted")
    assert promote("better").decision is None
    assert version("champion") == "old"
    assert promote("better", anew=True).decision.promoted  # type: ignore[union-attr]


def test_model_below_the_floor_is_no_first_champion(
    promote: Callable[..., PromotionResult],
) -> None:
    """A refused model is not decided on again while nothing has changed."""
    result = promote("wrong")
    assert result.decision is not None and not result.decision.promoted
    assert "does not exceed the floor" in result.sentence
    assert (version("champion"), promote("wrong").decision) == (None, None)
    assert promote("old").decision.promoted  # type: ignore[union-attr]


def test_champion_of_other_contexts_is_named(
    promote: Callable[..., PromotionResult], caplog: pytest.LogCaptureFixture
) -> None:
    promote("old")
    promote("better")
    assert "was trained on none of the contexts of" in caplog.text
    assert "--data.dataset NAME" in caplog.text


def test_model_without_its_alias_is_promoted_again(
    promote: Callable[..., PromotionResult],
) -> None:
    promote("old")
    MlflowClient(settings().tracking_uri).delete_registered_model_alias("bidaf-planted", "champion")
    result = promote("old")
    assert result.decision is not None and result.decision.promoted
    assert version("champion") == "old"


def test_registry_error_is_not_a_missing_champion(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    with serving(Served(b"", faults=["status 500"])) as broken:
        monkeypatch.setenv("BIDAFLOW_MLFLOW_TRACKING_URI", broken.url)
        with pytest.raises(MlflowException):
            registry.find("bidaf-planted", registry.CHAMPION)


def test_better_of_two_concurrent_models_wins(promote: Callable[..., PromotionResult]) -> None:
    promote("old")
    with ThreadPoolExecutor(2) as both:
        results = list(both.map(promote, ["better", "best"]))
    assert version("champion") == "best"
    champions = {result.champion.version for result in results if result.champion}
    promoted = [result for result in results if result.decision and result.decision.promoted]
    # Either "best" came second and replaced "better", or it came first and stayed champion.
    assert version("previous") == ("better" if len(promoted) == 2 else "old")
    assert len(champions) == 2, "the second met the first one's champion"
