"""Peak memory of data preparation: it does not grow with the amount of data."""

import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.scale import STEPS, write_repeated
from infra.settings import CHECKOUT

pytestmark = [pytest.mark.heavy, pytest.mark.timeout(1500)]

TIMES = [8, pytest.param(12, marks=pytest.mark.full)]
EXACT = {"ARROW_DEFAULT_MEMORY_POOL": "system", "MALLOC_ARENA_MAX": "1"}
"""Repeatable peaks: with other allocators, they vary by about 30 MiB between runs."""
STEP = """
import sys
import time
from multiprocessing import get_context
from pathlib import Path

from benchmarks.scale import STEPS
from tasks.text import encode as encoding

encoding.TOKENS_PER_BATCH = 1 << 18  # a batch is filled by the smaller set too

def run(step, root):
    (root / step).mkdir()
    STEPS[step](root)

def anonymous_mib(pid):
    # Pages of mapped files, which the kernel drops when it likes, are not counted.
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    return max((int(line.split()[1]) >> 10 for line in status.splitlines()
                if line.startswith("RssAnon")), default=0)

for step in STEPS:
    # Each is as large at its start, with what has been imported once for all.
    process = get_context("fork").Process(target=run, args=(step, Path(sys.argv[1])))
    process.start()
    peak = 0
    while process.is_alive():
        peak = max(peak, anonymous_mib(process.pid))
        time.sleep(0.002)
    assert process.exitcode == 0, step
    print(step, peak, flush=True)
"""


def write_data(file: Path) -> None:
    """Write 5 MB of random words, which do not compress well: 280 articles of ten contexts of 120
    words, with five questions each."""
    draw = random.Random(0)
    words = ["".join(draw.choices("abcdefghijklmnopqrstuvwxyz", k=8)) for _ in range(5000)]

    def paragraph(name: str) -> dict[str, Any]:
        context = " ".join(draw.choices(words, k=120))
        questions = [" ".join(draw.choices(words, k=12)) + "?" for _ in range(5)]
        answers = [{"text": context[:20], "answer_start": 0}]
        qas = [
            {"id": f"{name}-{number}", "question": question, "answers": answers}
            for number, question in enumerate(questions)
        ]
        return {"context": context, "qas": qas}

    articles = [{"paragraphs": [paragraph(f"{n}-{i}") for i in range(10)]} for n in range(280)]
    file.write_text(json.dumps({"data": articles}), encoding="utf-8")


def peaks(root: Path, data: Path, times: int) -> dict[str, int]:
    """Peak memory of each step in MiB, each measured in its own process."""
    root.mkdir()
    write_repeated([data], times, root / "data.json")
    command = [sys.executable, "-c", STEP, str(root)]
    done = subprocess.run(
        command, cwd=CHECKOUT, env=os.environ | EXACT, stdout=subprocess.PIPE, text=True, check=True
    )
    printed = dict(line.split() for line in done.stdout.splitlines())
    assert printed.keys() == STEPS.keys()
    return {step: int(peak) for step, peak in printed.items()}


@pytest.mark.parametrize("times", TIMES)
def test_memory_does_not_grow_with_the_data(tmp_path: Path, times: int) -> None:
    write_data(tmp_path / "data.json")
    small = peaks(tmp_path / "small", tmp_path / "data.json", 1)
    large = peaks(tmp_path / "large", tmp_path / "data.json", times)
    added = (times - 1) * (tmp_path / "data.json").stat().st_size >> 20
    print(f"{added} MiB added: {small} -> {large}")
    grown = {step: large[step] - small[step] for step in STEPS}
    assert {step: mib for step, mib in grown.items() if mib > added / 2} == {}
