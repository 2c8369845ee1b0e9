"""What the catalogue says of its datasets, against the real files."""

from pathlib import Path

import pytest

from models.presets import PRESETS
from tasks.catalogue import DATASETS, SQUAD, Dataset
from tasks.manifests import sha256_of
from tasks.reading import read_articles
from tasks.tiny import write_tiny

SOURCES = [source for known in DATASETS.values() for source in (known.train, known.dev) if source]


def questions(file: Path) -> int:
    return sum(len(paragraph.qas) for a in read_articles(file) for paragraph in a.paragraphs)


@pytest.mark.parametrize("name", ["dev-v1.1.json", "train-v1.1-recovered.json"])
def test_the_digest_is_the_real_files(name: str, shared_data: Path) -> None:
    (digest,) = {source.sha256 for source in SOURCES if source.name == name}
    assert sha256_of(shared_data / "squad" / name) == digest


@pytest.mark.parametrize(
    ("name", "part", "file"),
    [
        ("squad-v1.1", "10,570 dev", "dev-v1.1.json"),
        ("squad-v2.0", "11,873 dev", "dev-v2.0.json"),
        ("squad-v1.1-recovered", "54,086 of", "train-v1.1-recovered.json"),
    ],
)
def test_it_tells_the_number_of_questions(
    name: str, part: str, file: str, shared_data: Path
) -> None:
    assert part in DATASETS[name].about
    assert f"{questions(shared_data / 'squad' / file):,}" == part.split()[0]


def test_it_tells_the_number_of_questions_of_the_generated_dataset(tmp_path: Path) -> None:
    write_tiny(tmp_path, 7)
    number = sum(questions(tmp_path / name) for name in ("train.json", "dev.json"))
    assert f"{number:,} short questions" in DATASETS["tiny"].about


def test_official_addresses_end_in_the_files_names() -> None:
    addressed = {source.url: source.name for source in SOURCES if source.url}
    assert addressed == {SQUAD + name: name for name in addressed.values()}
    assert all(address.startswith("https://") for address in addressed)


@pytest.mark.parametrize("known", DATASETS.values(), ids=lambda known: known.name)
def test_suited_settings_are_possible_for_every_preset(known: Dataset) -> None:
    for preset in PRESETS.values():
        changed = preset.with_changes(**known.training)
        fields = {**vars(changed.model), **vars(changed.training)}
        assert {name: fields[name] for name in known.training} == known.training
