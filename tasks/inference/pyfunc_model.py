"""The pyfunc of the logged model, which MLflow runs where the model is loaded."""

import sys
from pathlib import Path
from typing import Any, cast, get_type_hints

from mlflow.models import set_model
from mlflow.pyfunc import PythonModel
from pydantic import BaseModel, create_model

try:
    from tasks.inference.predictor import AnswerRow, Predictor
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] not in ("infra", "models", "tasks"):
        raise
    # This process has loaded a model of an earlier release, whose code has packages of the same
    # names. That model keeps the modules that it has imported.
    for module in list(sys.modules):
        if module.partition(".")[0] in ("infra", "models", "tasks"):
            del sys.modules[module]
    from tasks.inference.predictor import AnswerRow, Predictor


class QuestionInput(BaseModel):
    """A question, and the context to answer it from."""

    # Both are required, but null or nothing is an error of one item, not of the request.
    question: str | None = None
    context: str | None = None


# `AnswerRow` as a pydantic model, from which MLflow derives the schema of the answers.
AnswerOutput = create_model("AnswerOutput", **get_type_hints(AnswerRow))


class AnsweringModel(PythonModel):  # type: ignore[misc]
    """Answers questions about raw text with the model folder that is logged with it."""

    def load_context(self, context: Any) -> None:
        """Load the model folder.

        `model_config={"no_answer": "threshold"}` of `mlflow.pyfunc.load_model` selects how "no
        answer" is decided.
        """
        folder = Path(context.artifacts["model"])
        self.predictor = Predictor.load(folder, context.model_config["no_answer"])

    def predict(self, model_input: list[QuestionInput]) -> list[AnswerOutput]:
        """One answer per question, in order, as a dict of `AnswerRow`'s fields."""
        pairs = [(row.question or "", row.context or "") for row in model_input]
        # MLflow derives the schema from the return type, but callers expect plain dicts.
        return cast(list[AnswerOutput], self.predictor.answer(pairs))


set_model(AnsweringModel())
