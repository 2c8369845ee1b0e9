"""The JSON of requests, as OpenAPI describes it."""

from math import prod
from typing import Annotated, Any, Self

from pydantic import BaseModel, Field, TypeAdapter, model_validator

MOST_QUESTIONS = 256  # in a request
LONGEST_TEXT = 100_000  # characters of a question or context; bounds the memory of a batch
CONTEXT = "The mill stands on the hill. The inn stands by the river."
EXAMPLE = {"question": "Where does the mill stand?", "context": CONTEXT}


class Question(BaseModel):
    """A question, and the text to answer it from."""

    question: str = Field(max_length=LONGEST_TEXT, examples=[EXAMPLE["question"]])
    context: str = Field(max_length=LONGEST_TEXT, examples=[CONTEXT])


# Anything else in a list is refused by itself, not with the request.
Item = Annotated[Question | Any, Field(union_mode="left_to_right")]
Items = Annotated[list[Item], Field(min_length=1, max_length=MOST_QUESTIONS, examples=[[EXAMPLE]])]
ITEMS = TypeAdapter[list[Any]](list[Item])


class Frame(BaseModel):
    """A table in the orientation "split" of pandas."""

    columns: list[str]
    data: list[list[Any]] = Field(min_length=1, max_length=MOST_QUESTIONS)


class Invocations(BaseModel, extra="forbid"):
    """A request to MLflow's scoring server: exactly one list of questions. The model has no
    parameters."""

    inputs: Items | None = None
    instances: Items | None = Field(None, examples=[None])
    dataframe_records: Items | None = Field(None, examples=[None])
    dataframe_split: Frame | None = Field(None, examples=[None])
    params: dict[str, Any] | None = Field(None, max_length=0, examples=[None])

    def items(self) -> list[Any]:
        """The questions; other objects for what is none."""
        if frame := self.dataframe_split:
            return ITEMS.validate_python(
                [dict(zip(frame.columns, row, strict=False)) for row in frame.data]
            )
        return self.inputs or self.instances or self.dataframe_records or []

    @model_validator(mode="after")
    def _with_one_list(self) -> Self:
        if len({*self.model_fields_set} - {"params"}) != 1 or not self.items():
            raise ValueError(
                "give exactly one of inputs, instances, dataframe_records and dataframe_split"
            )
        return self


class Parameters(BaseModel):
    """Parameters of Hugging Face's task. Those that cut contexts have no effect: the model cuts
    them as in training."""

    top_k: int = Field(1, ge=1, le=20)
    max_answer_len: int | None = Field(None, ge=1, le=1000, description="In tokens.")
    handle_impossible_answer: bool = Field(False, description="Whether no answer is possible.")


class QuestionAnswering(BaseModel):
    """A request of Hugging Face's task question-answering."""

    inputs: Question | Items
    parameters: Parameters | None = None


class Tensor(BaseModel):
    """A tensor of texts of the Open Inference Protocol."""

    name: str
    shape: list[int] = Field(min_length=1, max_length=2)
    datatype: str = Field(pattern="^BYTES$")
    data: list[Any] = Field(min_length=1, max_length=MOST_QUESTIONS)


TENSORS = [
    {"name": name, "shape": [1], "datatype": "BYTES", "data": [text]}
    for name, text in EXAMPLE.items()
]


OUTPUTS = {
    "answer": "BYTES",
    "start": "INT64",
    "end": "INT64",
    "probability": "FP64",
    "no_answer_probability": "FP64",
    "error": "BYTES",
}
"""The tensors of an answer, and their types in the Open Inference Protocol."""


class Output(BaseModel):
    """The name of a tensor to return."""

    name: str = Field(pattern=f"^({'|'.join(OUTPUTS)})$")


class Inference(BaseModel):
    """A request of the Open Inference Protocol, with the tensors `question` and `context`."""

    id: str | None = None
    inputs: list[Tensor] = Field(examples=[TENSORS])
    outputs: list[Output] = Field([], description="The tensors to return; all if empty.")

    def items(self) -> list[Any]:
        """The questions; other objects for what is none."""
        data = {tensor.name: tensor.data for tensor in self.inputs}
        pairs = zip(data["question"], data["context"], strict=True)
        return ITEMS.validate_python([{"question": q, "context": c} for q, c in pairs])

    @model_validator(mode="after")
    def _with_both_tensors(self) -> Self:
        if sorted(tensor.name for tensor in self.inputs) != ["context", "question"]:
            raise ValueError("give one tensor question and one tensor context")
        sizes = [size for t in self.inputs for size in (len(t.data), prod(t.shape))]
        if len({*sizes}) > 1:
            raise ValueError("both tensors must have flat data of the same length, as shape says")
        return self


class Feedback(Question):
    """The right answer to a question, "" if the context has none."""

    answer: str = Field(examples=["on the hill"])
    start: int | None = Field(
        None, ge=0, description="Its position, needed if the context repeats it."
    )
    right: bool = Field(description="Whether the model gave this answer.")
    version: str = Field("", max_length=50, description="The version that was asked.")

    @model_validator(mode="after")
    def _with_answer_in_context(self) -> Self:
        if self.start is None and self.context.count(self.answer) == 1:
            self.start = self.context.index(self.answer)
        is_there = self.start is not None and self.context.startswith(self.answer, self.start)
        if self.answer and not is_there:
            raise ValueError(
                "the answer is not in the context, or not at `start`, or several times without it"
            )
        return self
