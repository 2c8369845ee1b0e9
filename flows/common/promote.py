"""Promotion: compare the best trained variant with the champion on the same questions.

Each decision is an event in Prefect, to which automations react.
"""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from prefect import get_run_logger
from prefect.events import emit_event
from prefect.runtime import flow_run
from pydantic import TypeAdapter

from flows.common.data import Splits
from infra.artifacts.locks import exclusive_lock, lease
from infra.artifacts.manifest import content_digest, digest_of
from infra.artifacts.stage import Output
from infra.settings import settings
from tasks.evaluation.evaluate import load_split
from tasks.evaluation.promotion_rule import (
    Decision,
    PromotionRule,
    decide_promotion,
    markdown,
)
from tasks.evaluation.slices import guarded_slices
from tasks.inference.score_model import load_f1, warn_of_unread
from tasks.inference.trained_contexts import chose_epoch, new_to_models, trained_contexts
from tasks.stages import score_stage
from tasks.text.vocabulary import Lexicon
from tasks.tracking import registry, runs
from tasks.tracking.registry import RegisteredVersion

REASON, KEY, ANNOUNCED = "promotion", "promotion.key", "promotion.announced"
# The newest version when this one became champion by hand: a run compares only later ones with it.
BY_HAND = "promotion.by_hand"
DECISION = "decision.json"
# Events, and the beginning of the ids of their resources, the registered models.
PROMOTED, REFUSED, RESOURCE = "bidaflow.model.promoted", "bidaflow.model.refused", "bidaflow.model"


@dataclass(frozen=True)
class PromotionResult:
    """The two models of a promotion, the evaluation set, and the decision."""

    challenger: RegisteredVersion
    champion: RegisteredVersion | None  # before the decision
    split: str  # name of the evaluation set
    questions: int  # of the evaluation set
    f1: float  # of the challenger on the evaluation set, 0 to 100
    decision: Decision | None  # None: an earlier flow run announced it

    @property
    def sentence(self) -> str:
        """The decision in one line."""
        if self.decision is None:
            return f"{registry.title(self.challenger)}: decided by an earlier run."
        sentence = verdict(self.challenger, self.decision)
        if self.decision.overall is None:
            return sentence
        compared = self.decision.overall.questions
        among = f"{self.questions} {self.split} questions"
        if compared == self.questions:
            return f"{sentence} Compared on {among}."
        return (
            f"{sentence} Compared on {compared} of {among}: those that neither trained a model nor "
            "chose its epoch."
        )


def verdict(challenger: RegisteredVersion, decision: Decision) -> str:
    """The decision on a version in one sentence."""
    verb = "is now the champion" if decision.promoted else "was not promoted"
    return f"{registry.title(challenger)} {verb}: {decision.reason}."


def promote_best(splits: Splits, trained: Sequence[Output], rule: PromotionRule) -> PromotionResult:
    """Promote the best trained variant to champion if the rule allows it.

    Champion and challenger are compared on the validation split if one is held out of the training
    data, otherwise on dev, without the contexts that either was trained on. A second promotion at
    the same time sees the champion of the first.
    """
    split, name = (splits.validation, "validation") if splits.validation else (splits.dev, "dev")
    models = [_registered(output) for output in trained]
    scores = [score_stage(model.model_id, split.folder).facts["f1"] for model in models]
    with deciding_on_champion(models[0].name):
        champion = registry.find(models[0].name, registry.CHAMPION)
        later = [n for n, model in enumerate(models) if not _passed_over(model, champion)]
        number = max(later or range(len(models)), key=scores.__getitem__)
        best = _registered(trained[number])  # another run may have tagged it with its decision
        decision = _decide_once(
            champion, best, split.folder, name == "validation", rule, len(models)
        )
    questions = split.facts["questions"]
    return PromotionResult(best, champion, name, questions, scores[number], decision)


def promote_by_hand(model: RegisteredVersion) -> RegisteredVersion | None:
    """Make a version the champion without a comparison. Returns the champion before it."""
    with deciding_on_champion(model.name):
        _pass_over_others(model)
        before = registry.set_champion(model)
        sentence = f"{registry.title(model)} is now the champion: promoted by hand."
        registry.tag(model, {REASON: sentence, ANNOUNCED: "true"})
    return before


def roll_back(name: str) -> tuple[RegisteredVersion, RegisteredVersion | None]:
    """Make the previous champion of a model the champion again. Returns it, and the version that it
    replaces.

    Raises:
        UserError: there is no previous champion.
    """
    with deciding_on_champion(name):
        if (previous := registry.find(name, registry.PREVIOUS)) is not None:
            _pass_over_others(previous)
        restored, replaced = registry.rollback(name)
        sentence = f"{registry.title(restored)} is the champion again: rolled back by hand."
        registry.tag(restored, {REASON: sentence})
        if replaced is not None:
            registry.tag(replaced, {REASON: f"{registry.title(replaced)} was rolled back."})
        return restored, replaced


def _pass_over_others(model: RegisteredVersion) -> None:
    """Let runs compare only later versions with this one, which is about to become champion by
    hand; first, so that no run undoes this if the process is interrupted."""
    registry.tag(model, {BY_HAND: str(registry.newest_version(model.name))})


def _registered(trained: Output) -> RegisteredVersion:
    """The version that a trained variant was registered as."""
    facts = trained.facts
    return registry.get_version(facts["model_uri"], facts["run_id"])


@contextmanager
def deciding_on_champion(model: str) -> Iterator[None]:
    """Let one process at a time change a model's champion within the block, by a lock and, on
    several machines, a lease of Prefect's server."""
    promotion = f"promotion-{model}"
    with (
        exclusive_lock(
            settings().root.resolve() / "locks" / promotion,
            "Another run decides on a promotion; waiting for it to finish.",
        ),
        lease(promotion, strict=True),
    ):
        yield


def _decide_once(
    champion: RegisteredVersion | None,
    challenger: RegisteredVersion,
    split: Path,
    is_validation: bool,
    rule: PromotionRule,
    candidates: int,
) -> Decision | None:
    """Decide, record the decision and act on it; None if an earlier flow run has announced it.

    The challenger is the best of so many candidates.
    """
    key = digest_of([champion and champion.model_id, content_digest(split), rule.model_dump()])
    if _passed_over(challenger, champion):
        return None
    is_champion = champion is not None and champion.version == challenger.version
    decided = is_champion or challenger.tags.get(KEY) == key
    # Without a champion, the one that an earlier decision promoted has lost the alias.
    if decided and (champion is not None or not _earlier_decision(challenger).promoted):
        # The run that took this decision may have been interrupted before it announced it.
        unannounced = challenger.tags.get(ANNOUNCED) == "false"
        return _earlier_decision(challenger) if unannounced else None
    decision = _compare(champion, challenger, split, is_validation, rule, candidates)
    # In this order, a run that is interrupted has always logged the numbers behind its changes.
    sentence = verdict(challenger, decision)
    log_decision(challenger.run_id, f"{sentence}\n\n{markdown(decision)}", decision)
    registry.tag(challenger, {REASON: sentence, ANNOUNCED: "false"})
    registry.set_challenger(challenger)
    if decision.promoted:
        registry.set_champion(challenger)
    registry.tag(challenger, {KEY: key})
    return decision


def _earlier_decision(model: RegisteredVersion) -> Decision:
    """The decision that a run has logged about a version."""
    text = runs.read_text(model.run_id, DECISION)
    return TypeAdapter(Decision).validate_json(text)


def _passed_over(model: RegisteredVersion, champion: RegisteredVersion | None) -> bool:
    """Whether a version was there when somebody made another one the champion by hand."""
    return (
        champion is not None
        and champion.version != model.version
        and int(model.version) <= int(champion.tags.get(BY_HAND, 0))
    )


def log_decision(run_id: str, text: str, decision: Decision) -> None:
    """Log a decision to an MLflow run: a text about it, and its numbers."""
    runs.log_text(run_id, "decision.md", text)
    runs.log_text(run_id, DECISION, json.dumps(asdict(decision), indent=1))


def emit_decision(
    result: PromotionResult, dataset: str, report: str, mlflow_run: str | None
) -> None:
    """Emit whether a model was promoted, with the URLs of the report and of the run in MLflow, and
    record in the registry that this was done.

    Prefect adds the flow run, its flow and its deployment. If it can't be reached, this is logged,
    not raised.
    """
    if result.decision is None:  # an earlier run has emitted it
        return
    model = result.challenger
    emit_event(
        PROMOTED if result.decision.promoted else REFUSED,
        resource={
            "prefect.resource.id": f"{RESOURCE}.{model.name}",
            "prefect.resource.name": f"{model.name} version {model.version}",
        },
        payload={
            "dataset": dataset,
            "model": model.name,
            "version": model.version,
            "variant": model.tags.get("variant"),
            "f1": round(result.f1, 2),
            "decision": result.sentence,
            "report": report,
            "mlflow_run": mlflow_run,
            "flow_run": flow_run.ui_url,
        },
    )
    registry.tag(model, {ANNOUNCED: "true"})


def _compare(
    champion: RegisteredVersion | None,
    challenger: RegisteredVersion,
    split: Path,
    is_validation: bool,
    rule: PromotionRule,
    candidates: int,
) -> Decision:
    """Decide on the questions about contexts on which neither of the models was trained.

    A champion may have been trained on the challenger's validation split if the split's settings
    have changed since then; so may the model of a warm start.
    """
    models = [challenger] if champion is None else [challenger, champion]
    outputs = [score_stage(model.model_id, split) for model in models]
    for model, output in zip(models, outputs, strict=True):
        warn_of_unread(registry.title(model), output.facts)
    folders = [output.folder / "model" for output in outputs]
    contexts = [trained_contexts(folder) for folder in folders]
    if champion is not None and contexts[0].isdisjoint(contexts[1]):
        get_run_logger().warning(
            f"The champion {registry.title(champion)} was trained on none of the contexts of "
            f"{registry.title(challenger)}. If they belong to different projects, give this one a "
            "name of its own: --data.dataset NAME with --data.train-files FILE."
        )
    f1 = [load_f1(output.folder) for output in outputs]
    questions = load_split(split)
    return decide_promotion(
        questions,
        new_to_models(questions, contexts),
        is_validation and any(map(chose_epoch, folders)),
        f1[0],
        None if champion is None else f1[1],
        guarded_slices(questions, Lexicon.load(folders[0])),
        rule,
        candidates,
    )
