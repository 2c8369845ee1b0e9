"""Promotion: compare the best trained variant with the champion on the same questions."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from prefect.runtime import flow_run
from pydantic import TypeAdapter

from flows.common.splits import Splits
from infra.artifacts.digests import digest_of
from infra.artifacts.locks import exclusive_lock
from infra.artifacts.manifest import content_digest
from infra.artifacts.stage import Output
from infra.settings import settings
from tasks.evaluation.evaluate import load_split
from tasks.evaluation.promotion_rule import (
    FIRST_CHAMPION,
    Decision,
    PromotionRule,
    decide,
    markdown,
)
from tasks.evaluation.slices import guarded_slices
from tasks.inference.score_model import load_f1
from tasks.stages import scoring
from tasks.text.vocabulary import Lexicon
from tasks.tracking import registry, runs
from tasks.tracking.registry import RegisteredVersion

REASON, KEY, FLOW_RUN = "promotion", "promotion.key", "promotion.flow_run_id"
DECISION = "decision.json"


@dataclass(frozen=True)
class EvaluationSet:
    """The split whose questions decide a promotion."""

    name: str
    split: Output

    @property
    def description(self) -> str:
        """The number of questions and the name of the split, in words."""
        return f"{self.split.facts['questions']} {self.name} questions"


@dataclass(frozen=True)
class PromotionResult:
    """The two models of a promotion, the evaluation set in words, and the decision."""

    challenger: RegisteredVersion
    champion: RegisteredVersion | None  # before the decision
    evaluation_set: str
    decision: Decision | None  # None: an earlier flow run decided it

    @property
    def sentence(self) -> str:
        """The decision in one line."""
        name = f"{self.challenger.name} version {self.challenger.version}"
        if self.decision is None:
            return f"{name}: decided by an earlier run"
        verdict = "is now the champion" if self.decision.promoted else "was not promoted"
        return f"{name} {verdict} (on {self.evaluation_set}): {self.decision.reason}"


def promote_best(splits: Splits, trained: Sequence[Output], rule: PromotionRule) -> PromotionResult:
    """Promote the best trained variant to champion if the rule allows it.

    Champion and challenger are compared on the validation split if one is held out of the training
    data, otherwise on dev. A lock allows one promotion of a model at a time, so that a second
    promotion sees the champion of the first.
    """
    uri = settings().tracking_uri
    evaluation_set = (
        EvaluationSet("validation", splits.validation)
        if splits.validation
        else EvaluationSet("dev", splits.dev)
    )
    models = [registry.get_version(uri, output.facts["model_uri"]) for output in trained]
    best = _best(models, evaluation_set)
    lock = settings().root.resolve() / "locks" / f"promotion-{best.name}"
    with exclusive_lock(lock, on_wait=lambda: None):
        return _promote_if_better(uri, best, evaluation_set, rule)


def _best(models: Sequence[RegisteredVersion], evaluation_set: EvaluationSet) -> RegisteredVersion:
    scores = {model.version: _score(model, evaluation_set).facts["f1"] for model in models}
    return max(models, key=lambda model: scores[model.version])


def _score(model: RegisteredVersion, evaluation_set: EvaluationSet) -> Output:
    return scoring(model.model_id, evaluation_set.split.folder)


def _promote_if_better(
    uri: str, challenger: RegisteredVersion, evaluation_set: EvaluationSet, rule: PromotionRule
) -> PromotionResult:
    champion = registry.with_alias(uri, challenger.name, registry.CHAMPION)
    key = digest_of(
        [
            champion and champion.model_id,
            content_digest(evaluation_set.split.folder),
            rule.model_dump(),
        ]
    )
    is_champion = champion is not None and champion.version == challenger.version
    if is_champion or challenger.tags.get(KEY) == key:
        return PromotionResult(
            challenger, champion, evaluation_set.description, _earlier_decision(uri, challenger)
        )
    decision = (
        FIRST_CHAMPION if champion is None else _compare(champion, challenger, evaluation_set, rule)
    )
    # In this order, a run that is interrupted has always logged the numbers behind its changes.
    _log_decision(uri, challenger.run_id, decision)
    registry.tag(uri, challenger, {REASON: decision.reason, FLOW_RUN: str(flow_run.id)})
    registry.set_challenger(uri, challenger)
    if decision.promoted:
        registry.set_champion(uri, challenger)
    registry.tag(uri, challenger, {KEY: key})
    return PromotionResult(challenger, champion, evaluation_set.description, decision)


def _log_decision(uri: str, run_id: str, decision: Decision) -> None:
    runs.log_text(uri, run_id, "decision.md", markdown(decision))
    runs.log_text(uri, run_id, DECISION, json.dumps(decision.to_dict(), indent=1))


def _earlier_decision(uri: str, challenger: RegisteredVersion) -> Decision | None:
    """The decision of an earlier attempt of this flow run, if it got that far."""
    if challenger.tags.get(FLOW_RUN) != str(flow_run.id):
        return None
    text = runs.read_text(uri, challenger.run_id, DECISION)
    return TypeAdapter(Decision).validate_json(text)


def _compare(
    champion: RegisteredVersion,
    challenger: RegisteredVersion,
    evaluation_set: EvaluationSet,
    rule: PromotionRule,
) -> Decision:
    champion_output, challenger_output = (
        _score(champion, evaluation_set),
        _score(challenger, evaluation_set),
    )
    lexicon = Lexicon.load(challenger_output.folder / "model")
    slices = guarded_slices(load_split(evaluation_set.split.folder), lexicon)
    return decide(load_f1(champion_output.folder), load_f1(challenger_output.folder), slices, rule)
