"""The arms: the vectors that each one trains models with. The functions run within a flow."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex
from shutil import rmtree

import numpy as np

from flows.common.encoding import fill, find_vectors, train_from_corpus
from flows.common.parameters import CorpusParameters, VectorParameters
from infra.settings import settings
from tasks.embeddings.formats.select import load_vectors, packaged_words
from tasks.embeddings.formats.source import PACKAGED, VECTORS
from tasks.embeddings.formats.store import write_vectors
from tasks.embeddings.formats.word_vectors import WordSet
from tasks.embeddings.training.config import A_LA_CARTE, EmbeddingParameters, EmbeddingSettings

DIMENSION = 50  # of the packaged set, which all arms keep
MITTENS_MU = 0.1


@dataclass(frozen=True)
class Texts:
    """The domain's texts, and these with the dev contexts (without their questions)."""

    domain: CorpusParameters
    with_contexts: CorpusParameters


@dataclass(frozen=True)
class Arm:
    """An arm's title, and its vectors.

    `gate` is the size of a learned gate, 0 for none. `random`: what the domain adds to GloVe is
    replaced by random vectors.
    """

    title: str
    vectors: Callable[[Texts], VectorParameters]
    gate: int = 0
    random: bool = False


def filled(texts: Texts) -> VectorParameters:
    """GloVe, and the words of the domain's texts that it lacks, by their contexts."""
    return VectorParameters(source=PACKAGED, fill=A_LA_CARTE, corpus=texts.domain)


def rotated(texts: Texts) -> VectorParameters:
    """GloVe, and the words that it lacks from the domain's own set, by rotation."""
    return VectorParameters(source=PACKAGED, fill=own_set(texts))


def joined(texts: Texts) -> VectorParameters:
    """GloVe and the domain's own set side by side."""
    return VectorParameters(source=f"{PACKAGED}+{own_set(texts)}")


def pulled(texts: Texts) -> VectorParameters:
    """GloVe trained on the domain's texts and pulled towards the given vectors (Mittens)."""
    mittens = EmbeddingParameters(
        method="glove", dimension=DIMENSION, mittens_mu=MITTENS_MU, workers=1
    )
    return VectorParameters(source=_trained(texts, mittens, PACKAGED))


def continued(texts: Texts) -> VectorParameters:
    """GloVe, whose training continues by skip-gram on the domain's texts alone."""
    return VectorParameters(source=_trained(texts, SKIPGRAM, PACKAGED))


def with_contexts(texts: Texts) -> VectorParameters:
    """As `filled`, but the texts include the contexts that models answer from."""
    return VectorParameters(source=PACKAGED, fill=A_LA_CARTE, corpus=texts.with_contexts)


def all_covered(texts: Texts) -> VectorParameters:
    """As `with_contexts`, with a vector for every word of the contexts, however rare."""
    return with_contexts(texts).model_copy(update={"training": EVERY_WORD})


SKIPGRAM = EmbeddingParameters(method="skipgram", dimension=DIMENSION, workers=1)
EVERY_WORD = EmbeddingSettings(min_count=1)
ARMS = {
    "glove": Arm("GloVe", lambda _: VectorParameters(source=PACKAGED)),
    "random": Arm("random vectors for the filled words", filled, random=True),
    "a-la-carte": Arm("filled à la carte", filled),
    "procrustes": Arm("filled by Procrustes", rotated),
    "concatenated": Arm("concatenated", joined),
    "gated": Arm("gated", joined, gate=DIMENSION),
    "random-concatenated": Arm("concatenated with random vectors", joined, random=True),
    "mittens": Arm("Mittens", pulled),
    "continued": Arm("GloVe continued by skip-gram", continued),
    "contexts": Arm("filled à la carte, also from the contexts", with_contexts),
    "oracle": Arm("oracle: all words of the contexts filled", all_covered),
    "random-oracle": Arm("random vectors for all words of the contexts", all_covered, random=True),
}
REFERENCE, CONTROL = "glove", "random"
# Never among the best:
CONTROLS = (REFERENCE, CONTROL, "random-concatenated", "contexts", "oracle", "random-oracle")


def vectors_of(arm: Arm, texts: Texts, seed: int) -> VectorParameters:
    """The arm's vectors; random ones differ from seed to seed."""
    vectors = arm.vectors(texts)
    if not arm.random:
        return vectors
    if vectors.fill is None:
        main, own = vectors.parts
        return VectorParameters(source=f"{main}+{_random_set(Path(own), frozenset(), seed)}")
    filled_set = fill(find_vectors(PACKAGED), A_LA_CARTE, vectors.corpus, vectors.training).folder
    return VectorParameters(source=_random_set(filled_set / VECTORS, packaged_words(), seed))


def own_set(texts: Texts) -> str:
    """The file of a set of the domain's own, trained by skip-gram."""
    return _trained(texts, SKIPGRAM, None)


def _trained(texts: Texts, embedding: EmbeddingParameters, start: str | None) -> str:
    return str(train_from_corpus(texts.domain, embedding, start).folder / VECTORS)


def _random_set(file: Path, kept: frozenset[str] | Sequence[str], seed: int) -> str:
    folder_name = f"random-{file.parent.name}-seed-{seed}"
    out = settings().root.resolve() / "embeddings" / folder_name / VECTORS
    if not out.exists():
        folder = out.parent.with_name(f".{out.parent.name}.{token_hex(4)}")
        folder.mkdir(parents=True)
        try:
            write_random(folder, load_vectors(str(file)), kept, seed)
            folder.rename(out.parent)
        finally:
            rmtree(folder, ignore_errors=True)
    return str(out)


def write_random(
    folder: Path, word_set: WordSet, kept: frozenset[str] | Sequence[str], seed: int
) -> None:
    """Write the set with random directions for the vectors of its words outside `kept`.

    Their lengths stay, so that only the directions tell them from the vectors that they replace.
    """
    new = np.array([word not in kept for word in word_set.words])
    vectors = word_set.vectors.copy()
    drawn = np.random.default_rng(seed).standard_normal((int(new.sum()), vectors.shape[1]))
    lengths = np.linalg.norm(vectors[new], axis=1, keepdims=True)
    vectors[new] = lengths * drawn / np.linalg.norm(drawn, axis=1, keepdims=True)
    write_vectors(folder, WordSet(word_set.words, vectors), {"method": "random"})
