"""Pair counts and training of GloVe, against loops that follow the paper and glove.c."""

import tracemalloc
from collections import defaultdict
from pathlib import Path

import numpy as np
import psutil
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.embeddings.training import glove
from tasks.embeddings.training.config import EmbeddingParameters
from tasks.embeddings.training.cooccurrence import count_pairs
from tasks.embeddings.training.corpus import read_vocabulary
from tasks.embeddings.training.glove import PAIR, State, fit, scatter, step, train_glove
from tests.factories.corpus import corpus_of, two_topic_sentences

Counts = dict[tuple[int, int], float]


def parameters(**changes: float) -> EmbeddingParameters:
    values = {"method": "glove", "dimension": 8, "min_count": 1, "workers": 1, **changes}
    return EmbeddingParameters.model_validate(values)


def reference_counts(lines: list[list[str]], rows: dict[str, int], window: int) -> Counts:
    """The full symmetric matrix: both orders of each pair of words within the window."""
    counts: Counts = defaultdict(float)
    for line in lines:
        ids = [rows[word] for word in line if word in rows]
        for i, word in enumerate(ids):
            for j in range(max(0, i - window), i):
                counts[word, ids[j]] += 1 / (i - j)
                counts[ids[j], word] += 1 / (i - j)
    return counts


def counted(folder: Path, rows: dict[str, int], window: int, memory: int, words: int = 0) -> Counts:
    """The counts of `count_pairs`, mirrored into the full matrix."""
    counts: Counts = {}
    (folder / "scratch").mkdir(exist_ok=True)
    opened = psutil.Process().num_fds()
    for keys, sums in count_pairs(folder, words, rows, window, memory, folder / "scratch"):
        assert psutil.Process().num_fds() <= opened + 3, "files are not kept open"
        for key, value in zip(keys.tolist(), sums.tolist(), strict=True):
            i, j = divmod(key, len(rows))
            assert i <= j and (i, j) not in counts, "each pair occurs once"
            counts[i, j] = value
    return counts | {(j, i): value for (i, j), value in counts.items()}


@settings(max_examples=20)
@given(
    st.lists(st.lists(st.sampled_from("abcdefgh"), max_size=30), min_size=1, max_size=20),
    st.integers(1, 7),
)
def test_pair_counts_match_a_reference_loop(
    tmp_path_factory: pytest.TempPathFactory, lines: list[list[str]], window: int
) -> None:
    folder = corpus_of(tmp_path_factory.mktemp("corpus"), lines)
    rows = {word: row for row, word in enumerate("hgfdcba")}  # "e" has no row
    counts = counted(folder, rows, window, memory=1)
    expected = reference_counts(lines, rows, window)
    assert counts.keys() == expected.keys()
    assert all(counts[key] == pytest.approx(expected[key]) for key in expected)


def test_counts_spilled_to_disk_are_equal(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    words = [f"w{i}" for i in range(300)]
    lines = [rng.choice(words, 200).tolist() for _ in range(60)]
    folder = corpus_of(tmp_path, lines)
    rows = {word: row for row, word in enumerate(words)}
    spilled = counted(folder, rows, 5, memory=1 << 18, words=12_000)
    assert len(list((folder / "scratch").glob("part-*"))) > 5
    expected = reference_counts(lines, rows, 5)
    assert spilled.keys() == expected.keys()
    assert all(spilled[key] == pytest.approx(expected[key], rel=1e-5) for key in expected)


def test_memory_for_counts_is_bounded(tmp_path: Path) -> None:
    words = [f"w{i}" for i in range(4000)]
    rows = {word: row for row, word in enumerate(words)}
    rng = np.random.default_rng(0)
    ids = (len(words) * rng.random((500, 400)) ** 2).astype(int)  # low ids are more frequent
    memory = 16 << 20
    list(
        count_pairs(corpus_of(tmp_path, [["w0", "w1"]]), 2, rows, 10, memory, tmp_path)
    )  # compile outside the measurement
    folder = corpus_of(tmp_path, [[words[i] for i in line] for line in ids.tolist()])
    tracemalloc.start()
    runs = count_pairs(folder, ids.size, rows, 10, memory, tmp_path)
    files = scatter(runs, len(rows), 8, tmp_path, rng)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    pairs = sum(file.stat().st_size for file in files) // PAIR.itemsize
    assert pairs * 24 > memory, "the pairs would not fit in memory"
    assert peak < 1.1 * memory


def reference_descent(
    pairs: list[tuple[int, int, float]], state: State, x_max: float, alpha: float, rate: float
) -> float:
    """Half the loss of eq. 8 with the weights of eq. 9. Updates `state` by glove.c's Adagrad.

    The loop processes one pair and one vector component at a time.
    """
    loss = 0.0
    w, c = state.words.astype(float), state.contexts.astype(float)
    ws, cs = state.word_squares.astype(float), state.context_squares.astype(float)
    for i, j, x in pairs:
        weight = min(1.0, (x / x_max) ** alpha)
        for a, b in [(i, j)] if i == j else [(i, j), (j, i)]:
            difference = w[a, :-1] @ c[b, :-1] + w[a, -1] + c[b, -1] - np.log(x)
            loss += weight * difference**2 / 2
            for k in range(w.shape[1]):
                bias = k == w.shape[1] - 1
                for_w = rate * weight * difference * (1.0 if bias else c[b, k])
                for_c = rate * weight * difference * (1.0 if bias else w[a, k])
                w[a, k] -= for_w / ws[a, k] ** 0.5
                c[b, k] -= for_c / cs[b, k] ** 0.5
                ws[a, k] += for_w**2
                cs[b, k] += for_c**2
    state.words[:], state.contexts[:] = w, c
    state.word_squares[:], state.context_squares[:] = ws, cs
    return loss


def test_loss_and_steps_match_a_reference_loop() -> None:
    rng = np.random.default_rng(1)
    pairs = [(i, j, float(rng.uniform(0.1, 250))) for i in range(9) for j in range(i, 9)]
    ours = State.draw(9, 6, np.random.default_rng(2))
    theirs = State.draw(9, 6, np.random.default_rng(2))
    for _ in range(5):
        loss = step(ours, np.array(pairs, PAIR), parameters(x_max=90, alpha=0.6))
        assert loss == pytest.approx(reference_descent(pairs, theirs, 90, 0.6, 0.05), rel=1e-4)
    np.testing.assert_allclose(ours.words, theirs.words, atol=1e-4)
    np.testing.assert_allclose(ours.contexts, theirs.contexts, atol=1e-4)


def test_epoch_loss_is_the_mean_over_all_pairs(tmp_path: Path) -> None:
    pairs = [(0, 1, 5.0), (2, 2, 300.0)]  # none of the three updates affects another
    np.array(pairs, PAIR).tofile(tmp_path / "pairs.bin")
    expected = reference_descent(pairs, State.draw(3, 4, np.random.default_rng(0)), 100, 0.75, 0.05)
    state = State.draw(3, 4, np.random.default_rng(0))
    files, rng = [tmp_path / "pairs.bin"], np.random.default_rng(0)
    losses, _ = fit(state, files, 2, parameters(epochs=1), rng)
    assert losses == [pytest.approx(expected / 3)]


def test_large_initial_vectors_take_bounded_steps() -> None:
    state = State.draw(2, 4, np.random.default_rng(0))
    state.words[:] = state.contexts[:] = 50
    step(state, np.array([(0, 1, 200.0)], PAIR), parameters())
    np.testing.assert_allclose(state.words, 50 - 0.05 * 100)


def test_loss_falls_and_one_worker_is_deterministic(tmp_path: Path) -> None:
    folder = corpus_of(tmp_path, two_topic_sentences())
    facts = {"words": 8000}
    first, training_facts = train_glove(folder, facts, parameters(memory_mb=16), None, tmp_path)
    second, _ = train_glove(folder, facts, parameters(memory_mb=16), None, tmp_path)
    losses = training_facts["losses"]
    assert losses[-1] < 0.5 * losses[0]
    np.testing.assert_array_equal(first.vectors, second.vectors)
    other, _ = train_glove(folder, facts, parameters(memory_mb=16, seed=1), None, tmp_path)
    assert not np.allclose(first.vectors, other.vectors)
    assert not list(tmp_path.glob(".counts-*")), "the temporary counts are removed"


def test_temporary_counts_use_the_given_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("corpus", "out"):
        (tmp_path / name).mkdir()
    folder = corpus_of(tmp_path / "corpus", two_topic_sentences(20))
    seen: list[Path] = []

    def record_files(state: State, files: list[Path], *rest: object) -> tuple[list[float], float]:
        seen.extend(files)
        return [], 1.0

    monkeypatch.setattr(glove, "fit", record_files)
    train_glove(folder, {"words": 400}, parameters(), None, tmp_path / "out")
    assert seen and all(file.parent.parent == tmp_path / "out" for file in seen)
    assert not list((tmp_path / "out").iterdir()), "the temporary counts are removed"


def test_vectors_follow_vocabulary_order(tmp_path: Path) -> None:
    folder = corpus_of(tmp_path, two_topic_sentences())
    trained, _ = train_glove(folder, {"words": 8000}, parameters(epochs=1), None, tmp_path)
    assert trained.words == list(read_vocabulary(folder, 1))
    assert glove.PAIR.itemsize == 12
