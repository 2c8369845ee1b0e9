"""The logged model, as code that MLflow runs where the model is loaded: questions to answers."""

from pathlib import Path
from typing import Any, cast

from mlflow.models import set_model
from mlflow.pyfunc import PythonModel
from pydantic import BaseModel

from tasks.answering import Answerer


class Asked(BaseModel):
    """A question, and the text that holds its answer."""

    question: str
    context: str


class Answered(BaseModel):
    """An answer, as the model's schema tells it: `tasks.answering.AnswerRow` in pydantic."""

    answer: str
    start: int
    end: int
    score: float
    no_answer_probability: float


class AnsweringModel(PythonModel):  # type: ignore[misc]
    """Answers questions from raw text with the model folder logged beside it."""

    def load_context(self, context: Any) -> None:
        """Read the model folder; `model_config={"no_answer": "threshold"}` of
        `mlflow.pyfunc.load_model` chooses how "no answer" is told."""
        folder = Path(context.artifacts["model"])
        self.answerer = Answerer.load(folder, context.model_config["no_answer"])

    def predict(self, model_input: list[Asked]) -> list[Answered]:
        """One answer per question, in order, as a dict of `Answered`'s fields."""
        pairs = [(asked.question, asked.context) for asked in model_input]
        # MLflow makes the schema from the return type; its callers want plain dicts.
        return cast(list[Answered], self.answerer.answer(pairs))


set_model(AnsweringModel())
