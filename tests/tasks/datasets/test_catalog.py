"""The catalog's facts about its datasets match the real files."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from flows.commands.listings import datasets
from infra.artifacts.manifest import sha256_of
from models.configs.presets import PRESETS
from tasks.data.readers import read_articles
from tasks.datasets.catalog import DATASETS, LEXICAL_RESOURCES, Dataset
from tasks.datasets.tiny import write_tiny
from tasks.text.tokenizer import tokenize

ENTRIES = [*DATASETS.values(), *LEXICAL_RESOURCES.values()]
SOURCES = [source for entry in ENTRIES for source in entry.sources]


def questions(file: Path) -> int:
    return sum(len(paragraph.qas) for a in read_articles(file) for paragraph in a.paragraphs)


def test_digests_and_sizes_match_the_real_files(shared_data: Path) -> None:
    local_files = {file.name: file for file in shared_data.rglob("*") if file.is_file()}
    compared = [source for source in SOURCES if source.name in local_files]
    assert len(compared) >= 14
    for source in compared:
        if source.name == "dev-v2.0.json":
            continue  # this copy has the official file's questions in another order
        assert sha256_of(local_files[source.name]) == source.sha256, source.name
        assert local_files[source.name].stat().st_size == source.bytes, source.name


def test_every_file_is_verifiable_with_a_unique_name() -> None:
    for source in SOURCES:
        assert source.bytes and (source.sha256 or source.name.endswith(".zip")), source.name
        assert Path(source.name).name == source.name
        assert not source.url or re.fullmatch(rf"https://.*/{source.name}", source.url)
    assert len({source.name for source in SOURCES}) == len({*SOURCES})


def test_every_entry_has_a_license_and_origin() -> None:
    for entry in ENTRIES:
        assert entry.about and entry.licence and entry.format, entry.name
    assert [entry.name for entry in ENTRIES if not entry.citation] == ["tiny", "enwiki2015-64M"]
    assert len({entry.name for entry in ENTRIES}) == len(ENTRIES)


def test_datasets_command_shows_where_files_are(
    shared_data: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("BIDAFLOW_MIRROR", str(shared_data))
    monkeypatch.setenv("COLUMNS", "250")
    datasets()
    shown = capsys.readouterr().out
    assert re.search(r"covid_qa .* MB +in the mirror", shown)
    assert re.search(r"squad-v2\.0 .* MB +in the mirror, other size", shown)
    assert re.search(r"glove\.840B\.300d .*2\.2 GB +to download", shown)
    datasets(("covid_qa",))
    assert json.loads(capsys.readouterr().out)["dev"]["name"] == "covid_qa.json"


@pytest.mark.parametrize(
    ("name", "part", "file"),
    [
        ("squad-v1.1", "10,570 dev", "dev-v1.1.json"),
        ("squad-v2.0", "11,873 dev", "dev-v2.0.json"),
        ("squad-v1.1-recovered", "54,086 of", "train-v1.1-recovered.json"),
        ("squad-v2.0-recovered", "64,075 training", "train-v2.0-recovered.json"),
        ("cs224n-dev-v2.0", "6,078 questions", "cs224n-dev-v2.0.json"),
        ("cs224n-test-v2.0", "5,795 questions", "cs224n-test-v2.0.json"),
    ],
)
def test_about_text_gives_the_question_count(
    name: str, part: str, file: str, shared_data: Path
) -> None:
    assert part in DATASETS[name].about
    assert f"{questions(shared_data / 'squad' / file):,}" == part.split()[0]


def test_about_text_counts_the_generated_questions(tmp_path: Path) -> None:
    write_tiny(tmp_path, 7)
    number = sum(questions(tmp_path / name) for name in ("train.json", "dev.json"))
    assert f"{number:,} short questions" in DATASETS["tiny"].about


@pytest.mark.parametrize("dataset", DATASETS.values(), ids=lambda dataset: dataset.name)
def test_dataset_settings_are_valid_for_every_preset(dataset: Dataset) -> None:
    for preset in PRESETS.values():
        changed = preset.with_changes(**dataset.training)
        fields = {**vars(changed.model), **vars(changed.training)}
        assert {name: fields[name] for name in dataset.training} == dataset.training


def test_covid_qa_answer_limit_covers_95_percent(
    shared_data: Path,
) -> None:
    articles = read_articles(shared_data / "qa" / "covid_qa.json")
    qas = [qa for article in articles for paragraph in article.paragraphs for qa in paragraph.qas]
    lengths = [len(tokenize(answer.text)) for qa in qas for answer in qa.answers]
    assert np.percentile(lengths, 95) == DATASETS["covid_qa"].training["max_answer_tokens"]
    assert round(float(np.mean(np.array(lengths) > 15)), 2) == 0.43
