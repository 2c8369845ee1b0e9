"""The pyfunc of the logged model, which MLflow runs where the model is loaded."""

import filecmp
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any, cast, get_type_hints

from mlflow.models import set_model
from mlflow.pyfunc import PythonModel
from pydantic import BaseModel, create_model

OWN = ("infra", "models", "tasks")  # the packages that are logged with the model
CODE = Path(__file__).with_name("code")
"""Where MLflow keeps them beside this file. It does not exist in a checkout, whose packages are the
imported ones."""


@contextmanager
def _own_packages() -> Iterator[None]:
    """Import the packages of this model's code, whatever has been imported under their names.

    MLflow puts this code first in `sys.path`, but a process may already have modules of these
    names: its own, or those of another version of the model. They are put back afterwards, so the
    code of `Predictor` must not import modules of these packages when it runs. Meanwhile, other
    threads must not import them either, so modules with the same code are not replaced: a flow
    logs models while it writes reports.
    """
    replaced = _remove_modules() if any(map(_has_other_code, OWN)) else {}
    try:
        yield
    finally:
        if replaced:
            _remove_modules()
            sys.modules.update(replaced)


def _has_other_code(package: str) -> bool:
    """Whether the imported package of this name has other code than this model's."""
    module = sys.modules.get(package)
    if module is None or not CODE.exists():
        return False
    imported = getattr(module, "__file__", None)
    return imported is None or not _has_code(Path(imported).parent, CODE / package)


def _has_code(folder: Path, of: Path) -> bool:
    """Whether the folder has all Python files of the other, unchanged."""
    files = [str(file.relative_to(of)) for file in of.rglob("*.py")]
    same, _, _ = filecmp.cmpfiles(folder, of, files, shallow=False)
    return len(same) == len(files)


def _remove_modules() -> dict[str, ModuleType]:
    names = [name for name in sys.modules if name.partition(".")[0] in OWN]
    return {name: sys.modules.pop(name) for name in names}


with _own_packages():
    from tasks.inference.ensemble import load_model
    from tasks.inference.predictor import AnswerRow


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

        `model_config={"no_answer": "threshold", "expected_no_answer": 0.3}` of
        `mlflow.pyfunc.load_model` selects how "no answer" is decided (see `Predictor.load`).
        """
        rule = (context.model_config[name] for name in ("no_answer", "expected_no_answer"))
        self.predictor = load_model(Path(context.artifacts["model"]), *rule)

    def predict(self, model_input: list[QuestionInput]) -> list[AnswerOutput]:
        """One answer per question, in order, as a dict of `AnswerRow`'s fields."""
        pairs = [(row.question or "", row.context or "") for row in model_input]
        # MLflow derives the schema from the return type, but callers expect plain dicts.
        return cast(list[AnswerOutput], self.predictor.answer(pairs))


set_model(AnsweringModel())
