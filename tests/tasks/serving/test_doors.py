"""What each door answers, and what it refuses."""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.testclient import TestClient

from tasks.inference.predictor import Predictor
from tasks.serving import doors
from tasks.serving.schemas import LONGEST_TEXT
from tests.factories.logged_models import CONTEXT, MODEL_INPUT
from tests.factories.serving import NAME, OTHER_TEXT, QUESTION, client, serve_untrained, tensors

INFER = f"/v2/models/{NAME}/infer"
TENSORS = tensors(
    question=[row["question"] for row in MODEL_INPUT], context=[CONTEXT for _ in MODEL_INPUT]
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return serve_untrained(tmp_path_factory.mktemp("served") / "versions")


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[TestClient]:
    with client(folder) as opened:
        yield opened


@pytest.fixture(scope="module")
def answers(folder: Path) -> list[dict[str, Any]]:
    """What the model itself answers to the questions of `MODEL_INPUT`."""
    predictor = Predictor.load(folder / "saved")
    return [{**predictor.answer([(r["question"], r["context"])])[0]} for r in MODEL_INPUT]


def assert_close(rows: list[dict[str, Any]], expected: list[dict[str, Any]]) -> None:
    for row, other in zip(rows, expected, strict=True):
        assert row == pytest.approx(other)


@pytest.mark.parametrize(
    "body",
    [
        {"inputs": MODEL_INPUT},
        {"instances": MODEL_INPUT, "params": {}},
        {"dataframe_records": MODEL_INPUT},
        {
            "dataframe_split": {
                "columns": ["context", "question"],
                "data": [[row["context"], row["question"]] for row in MODEL_INPUT],
            }
        },
    ],
)
def test_mlflows_door(body: Any, server: TestClient, answers: list[dict[str, Any]]) -> None:
    response = server.post("/invocations", json=body)
    assert response.status_code == 200
    assert response.headers["x-model-version"] == f"{NAME}/1"
    assert_close(response.json()["predictions"], answers)


def test_hugging_faces_door(server: TestClient, answers: list[dict[str, Any]]) -> None:
    expected = [
        {
            "answer": row["answer"],
            "score": pytest.approx(row["probability"]),
            "start": row["start"],
            "end": row["end"],
        }
        for row in answers
    ]
    assert server.post("/", json={"inputs": QUESTION}).json() == expected[0]
    assert server.post("/", json={"inputs": MODEL_INPUT, "parameters": None}).json() == expected
    body = {"inputs": QUESTION, "parameters": {"top_k": 3, "max_answer_len": 1, "doc_stride": 9}}
    words = server.post("/", json=body).json()
    assert len(words) == 3
    assert all(CONTEXT[w["start"] : w["end"]] == w["answer"] for w in words)
    assert not any(" " in word["answer"] for word in words)


def test_no_answer_only_where_it_is_allowed(folder: Path) -> None:
    """As with Hugging Face, there is always an answer unless the request allows none."""
    with client(folder) as server:
        model = server.app.app.state.replica.model  # type: ignore[attr-defined]
        object.__setattr__(model.predictor, "threshold", -1e9)  # no answer beats every span
        none = {"answer": "", "start": 0, "end": 0}
        allowed = {"inputs": QUESTION, "parameters": {"handle_impossible_answer": True}}
        assert server.post("/", json=allowed).json().items() >= none.items()
        answer = server.post("/", json={"inputs": QUESTION}).json()["answer"]
        assert answer and answer in CONTEXT
        (row,) = server.post("/invocations", json={"inputs": [QUESTION]}).json()["predictions"]
        assert (row["answer"], row["start"], row["end"]) == ("", -1, -1)


def test_open_inference_door(server: TestClient, answers: list[dict[str, Any]]) -> None:
    for address in (INFER, f"/v2/models/{NAME}/versions/1/infer"):
        reply = server.post(address, json={"id": "a", "inputs": TENSORS}).json()
        assert (reply["model_name"], reply["model_version"], reply["id"]) == (NAME, "1", "a")
        columns = {output["name"]: output["data"] for output in reply["outputs"]}
        rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        assert_close(rows, answers)
        assert {tuple(output["shape"]) for output in reply["outputs"]} == {(2,)}
    metadata = server.get(f"/v2/models/{NAME}").json()
    assert [tensor["name"] for tensor in metadata["inputs"]] == ["question", "context"]
    assert server.get(f"/v2/models/{NAME}/versions/1/ready").json()["ready"] is True


def test_only_the_named_outputs_are_returned(server: TestClient) -> None:
    body = {"inputs": TENSORS, "outputs": [{"name": "start"}, {"name": "answer"}]}
    outputs = server.post(INFER, json=body).json()["outputs"]
    assert [(tensor["name"], tensor["datatype"]) for tensor in outputs] == [
        ("start", "INT64"),
        ("answer", "BYTES"),
    ]


@pytest.mark.parametrize(
    "address", ["/v2/models/other/infer", f"/v2/models/{NAME}/versions/2/infer"]
)
def test_another_model_is_not_answered_for(address: str, server: TestClient) -> None:
    response = server.post(address, json={"inputs": TENSORS})
    assert response.status_code == 404
    assert response.json() == {"error": f"This server has only {NAME} version 1."}


def test_each_item_is_answered_or_refused_by_itself(
    server: TestClient, answers: list[dict[str, Any]]
) -> None:
    long = {"question": "Where?", "context": "x" * (LONGEST_TEXT + 1)}
    items = [
        QUESTION,
        None,
        {"question": "", "context": "x"},
        {"question": 5},
        long,
        MODEL_INPUT[1],
    ]
    first, *refused, last = server.post("/invocations", json={"inputs": items}).json()[
        "predictions"
    ]
    assert_close([first, last], answers)
    assert [row["error"] for row in refused] == [
        doors.NO_QUESTION,
        "The question is empty. Provide some text.",
        doors.NO_QUESTION,
        doors.NO_QUESTION,
    ]
    listed = server.post("/", json={"inputs": items, "parameters": {"top_k": 2}}).json()
    assert [bool(rows[0].get("error")) for rows in listed] == [False, *[True] * 4, False]
    alone = server.post("/", json={"inputs": long})
    assert alone.status_code == 422
    assert "inputs.Question.context: String should have at most 100000" in alone.json()["error"]


def test_explanation_is_of_the_answer(server: TestClient) -> None:
    """Offsets count code points, also after characters that JavaScript counts twice."""
    reply = server.post("/explain", json=OTHER_TEXT).json()
    assert (reply["model"], reply["version"]) == (NAME, "1")
    for row in reply["answers"]:
        assert OTHER_TEXT["context"][row["start"] : row["end"]] == row["answer"]
    for name, text in OTHER_TEXT.items():
        tokens = reply["attention"][name]
        words = [text[start:end] for start, end, _ in tokens]
        assert " ".join(words).replace(" .", ".").replace(" ?", "?").replace(" ,", ",") == text
        assert max(weight for _, _, weight in tokens) == 1
        assert min(weight for _, _, weight in tokens) >= 0


def test_probes_and_versions(server: TestClient) -> None:
    for path in ("/ping", "/health", "/v2/health/live", "/v2/health/ready", "/version", "/v2"):
        assert server.get(path).status_code == 200, path


def test_openapi_has_examples_that_are_answered(server: TestClient) -> None:
    schemas = server.get("/openapi.json").json()["components"]["schemas"]

    def example(name: str) -> dict[str, Any]:
        fields = schemas[name]["properties"]
        found = {key: field["examples"][0] for key, field in fields.items() if "examples" in field}
        return {key: value for key, value in found.items() if value is not None}

    assert server.post("/explain", json=example("Question")).status_code == 200
    assert server.post("/invocations", json={"inputs": [example("Question")]}).status_code == 200
    assert server.post(INFER, json=example("Inference")).status_code == 200


def test_page_loads_nothing_from_elsewhere(server: TestClient) -> None:
    for path in ("/", "/page.css", "/page.js"):
        response = server.get(path)
        assert response.status_code == 200
        assert "://" not in response.text
        assert response.headers["content-security-policy"].startswith("default-src 'none';")


def malformed(count: int) -> Iterator[tuple[str, bytes]]:
    """A door and a body that it has to refuse."""
    draws = random.Random(0)
    valid = {"/invocations": {"inputs": MODEL_INPUT}, "/": {"inputs": QUESTION}}
    valid[INFER] = {"inputs": TENSORS}
    junk = [None, 5, "x", [], {}, [[]], {"inputs": 5}, {"inputs": []}, {"inputs": {}}, True]
    for number in range(count):
        door = list(valid)[number % 3]
        text = httpx.Request("POST", "http://x", json=valid[door]).content
        if number % 2:
            yield door, text[: draws.randrange(len(text) - 1)]  # cut off
        elif number % 5 == 0:
            yield door, draws.randbytes(50)
        elif number % 7 == 0:
            yield door, b"[" * 100_000
        else:
            yield door, httpx.Request("POST", "http://x", json=draws.choice(junk)).content


def test_malformed_requests_get_one_sentence(server: TestClient) -> None:
    for door, body in malformed(200):
        response = server.post(door, content=body, headers={"content-type": "application/json"})
        assert 400 <= response.status_code < 500, (door, body[:80])
        sentence = response.json()["error"]
        assert sentence.endswith(".") and "\n" not in sentence and len(sentence) < 200, sentence


@pytest.mark.parametrize(
    ("door", "body", "sentence"),
    [
        ("/invocations", {"inputs": [QUESTION], "instances": [QUESTION]}, "exactly one of inputs"),
        ("/invocations", {"inputs": [QUESTION], "params": {"n": 1}}, "params: "),
        ("/invocations", {"inputs": [QUESTION] * 257}, "at most 256"),
        ("/", {"inputs": QUESTION, "parameters": {"top_k": 0}}, "parameters.top_k: "),
        (INFER, {"inputs": TENSORS[:1]}, "one tensor question and one tensor context"),
        (INFER, {"inputs": [{**TENSORS[0], "shape": [3]}, TENSORS[1]]}, "same length"),
        (INFER, {"inputs": [{**TENSORS[0], "datatype": "FP32"}, TENSORS[1]]}, "datatype"),
        (
            INFER,
            {"inputs": TENSORS, "outputs": [{"name": "logits"}]},
            "outputs.0.name: ",
        ),
    ],
)
def test_invalid_requests_are_explained(
    door: str, body: Any, sentence: str, server: TestClient
) -> None:
    response = server.post(door, json=body)
    assert response.status_code == 422
    assert sentence in response.json()["error"]


def test_unpaired_surrogates_are_no_server_error(server: TestClient) -> None:
    body = b'{"inputs": {"question": "Where is \\ud83d?", "context": "\\ud83d by the mill."}}'
    response = server.post("/", content=body, headers={"content-type": "application/json"})
    assert response.status_code in (200, 422)
