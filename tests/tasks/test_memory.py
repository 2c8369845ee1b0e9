"""Memory of the data's road: as much for twelve times the data as for the data."""

import random
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.scale import STEPS, write_repeated
from infra.settings import CHECKOUT
from tasks.squad import Answer, Article, Paragraph, Question

pytestmark = [pytest.mark.heavy, pytest.mark.timeout(1500)]

TIMES = 12
STEP = """
import sys
from pathlib import Path

from benchmarks.machine import peak_mib
from benchmarks.scale import STEPS
from tasks import encoding

encoding.TOKENS_PER_BATCH = 1 << 18  # a batch is filled by the smaller set too
step, root = sys.argv[1], Path(sys.argv[2])
(root / step).mkdir()
STEPS[step](root)
print(peak_mib())
"""


def random_article(number: int, words: list[str], draw: random.Random) -> Article:
    """Ten contexts of 120 words, with five questions each."""
    paragraphs = []
    for paragraph in range(10):
        context = " ".join(draw.choices(words, k=120))
        questions = [
            Question(
                id=f"{number}-{paragraph}-{question}",
                question=" ".join(draw.choices(words, k=12)) + "?",
                answers=[Answer(text=context[:20], answer_start=0)],
                is_impossible=False,
            )
            for question in range(5)
        ]
        paragraphs.append(Paragraph(context=context, qas=questions))
    return Article(title=f"article {number}", paragraphs=paragraphs)


def write_data(file: Path) -> None:
    """5 MB of random words, that no compression makes small."""
    draw = random.Random(0)
    words = ["".join(draw.choices("abcdefghijklmnopqrstuvwxyz", k=8)) for _ in range(5000)]
    articles = (random_article(number, words, draw).model_dump_json() for number in range(280))
    file.write_text('{"data": [' + ",\n".join(articles) + "]}", encoding="utf-8")


def peaks(root: Path, data: Path, times: int) -> dict[str, int]:
    """MiB that each step takes at most, in a process of its own."""
    root.mkdir()
    write_repeated([data], times, root / "data.json")
    return {step: peak(step, root) for step in STEPS}


def peak(step: str, root: Path) -> int:
    command = [sys.executable, "-c", STEP, step, str(root)]
    done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=True)
    return int(done.stdout)


def test_memory_does_not_grow_with_the_data(tmp_path: Path) -> None:
    write_data(tmp_path / "data.json")
    small = peaks(tmp_path / "small", tmp_path / "data.json", 1)
    large = peaks(tmp_path / "large", tmp_path / "data.json", TIMES)
    added = (TIMES - 1) * (tmp_path / "data.json").stat().st_size >> 20
    print(f"{added} MiB added: {small} -> {large}")
    grown = {step: large[step] - small[step] for step in STEPS}
    assert {step: mib for step, mib in grown.items() if mib > added / 2} == {}
