"""The domains: what models train on, the domain's questions, and its texts."""

import lzma
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import nlargest
from math import log, sqrt
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from flows.common.data_files import find_files
from flows.common.encoding import corpus_files
from flows.common.parameters import CorpusParameters, DataParameters
from infra.atomic_files import write_atomically
from infra.settings import settings
from tasks.data.ingested import hash_uniform
from tasks.stages import ingesting
from tasks.text.tokenizer import tokenize

SQUAD = "squad-v1.1-recovered"
WIKIPEDIA = "enwiki2015-64M"
PARAGRAPHS = 30_000  # of Wikipedia that are about a topic: about as much text as `medquad`
SHARED_WORDS = 8  # in a row: two texts that share them have the same origin
HALVES_SEED = 7

# Titles of SQuAD about living things. Models learn from the former, and answer about the latter.
TRAIN_TITLES = frozenset(
    [
        *("Antibiotics", "Asthma", "Bacteria", "Biodiversity", "Bird", "Botany", "Brain"),
        *("Circadian_rhythm", "Diarrhea", "Dog", "Flowering_plant", "Genome", "Grape"),
        *("Immunology", "Infection", "Invertebrate", "Mammal", "Nutrition", "Pain", "Pesticide"),
        *("On_the_Origin_of_Species", "Poultry", "Predation", "Symbiosis", "Tuberculosis"),
    ]
)
DEV_TITLES = frozenset(
    [
        *("Amazon_rainforest", "Black_Death", "Chloroplast", "Ctenophora", "Immune_system"),
        *("Oxygen", "Pharmacy"),
    ]
)


@dataclass(frozen=True)
class Domain:
    """What models train on and are evaluated on, the domain's texts, and which dev contexts are the
    domain's."""

    name: str
    data: DataParameters
    texts: Callable[[], CorpusParameters]  # called within a flow
    has_title: Callable[[str], bool]  # whether a dev context with this title is the domain's


def medical_texts() -> CorpusParameters:
    """The medical corpus."""
    return CorpusParameters(files=["medquad"])


def biology_texts() -> CorpusParameters:
    """Wikipedia's paragraphs that are nearest to SQuAD's training articles about living things.

    Those that share SHARED_WORDS words in a row with a dev context are left out, so that no vectors
    are trained on the texts that models answer from.
    """
    out = settings().root.resolve() / "embeddings" / "biology.txt"
    if not out.exists():
        files = find_files(DataParameters(dataset=SQUAD))
        train, dev = _contexts(files.train), _contexts(files.dev)
        known = {run for _, text in dev for run in runs_of_words(text)}
        (wikipedia,) = corpus_files(CorpusParameters(files=[WIKIPEDIA]))
        with lzma.open(wikipedia.path, "rt", encoding="utf-8") as lines:
            others = (line for line in lines if known.isdisjoint(runs_of_words(line)))
            chosen = nearest_texts(train, TRAIN_TITLES, others, PARAGRAPHS)
        write_atomically(out, "".join(chosen))
    return CorpusParameters(files=[str(out)])


def _contexts(files: Sequence[Path]) -> list[tuple[str, str]]:
    """The title and the text of each context of SQuAD's files."""
    tables: list[Any] = [
        pq.read_table(ingesting(file).folder / "contexts.parquet") for file in files
    ]
    return [
        (title, text)
        for table in tables
        for title, text in zip(table["title"].to_pylist(), table["text"].to_pylist(), strict=True)
    ]


def runs_of_words(text: str) -> Iterator[str]:
    """All runs of SHARED_WORDS words of a text, without case and punctuation."""
    words = [word for word in _words(text) if word[0].isalnum()]
    return (
        " ".join(words[start : start + SHARED_WORDS])
        for start in range(len(words) - SHARED_WORDS + 1)
    )


def nearest_texts(
    contexts: Sequence[tuple[str, str]],
    titles: frozenset[str],
    texts: Iterable[str],
    count: int,
) -> list[str]:
    """The `count` texts nearest to the contexts, given as (title, text), that have these titles.

    Nearness is the cosine between the TF-IDF vector of a text and the mean of the titles' contexts
    minus the mean of all contexts, of which only positive elements count (Rocchio, 1971).
    """
    counts = [Counter(_words(text)) for _, text in contexts]
    frequencies = Counter(word for document in counts for word in document)
    idf = {word: log(len(counts) / n) for word, n in frequencies.items() if n > 1}
    own = [
        document for document, (title, _) in zip(counts, contexts, strict=True) if title in titles
    ]
    topic, general = (_means(documents) for documents in (own, counts))
    weights = {
        word: (n - general[word]) * idf[word] ** 2
        for word, n in topic.items()
        if word in idf and n > general[word]
    }
    scored = ((_similarity(text, weights, idf), text) for text in texts)
    return [text for _, text in nlargest(count, scored, key=lambda pair: pair[0])]


def _means(documents: Sequence[Counter[str]]) -> dict[str, float]:
    """The mean number of occurrences of each word in a document."""
    total: Counter[str] = Counter()
    for document in documents:
        total.update(document)
    return {word: n / len(documents) for word, n in total.items()}


def _similarity(text: str, weights: Mapping[str, float], idf: Mapping[str, float]) -> float:
    """The cosine of the text's TF-IDF vector and the topic's, up to the topic's length."""
    counts = Counter(_words(text))
    length = sqrt(sum((n * idf.get(word, 0.0)) ** 2 for word, n in counts.items()))
    dot = sum(n * weights.get(word, 0.0) for word, n in counts.items())
    return dot / length if length else 0.0


def _words(text: str) -> Iterator[str]:
    return (text[start:end].lower() for start, end in tokenize(text))


SELECTION, DECISION, GENERAL = "selection", "decision", "general"


def parts(domain: Domain, titles: Sequence[str], texts: Sequence[str]) -> list[str]:
    """The part of each dev context: one of the domain's halves, or general.

    Half of the domain's articles (or texts, if they have no titles), drawn by a fixed seed, decide;
    the other half selects the arms.
    """
    names = [title or text for title, text in zip(titles, texts, strict=True)]
    own = {n for n, title in zip(names, titles, strict=True) if domain.has_title(title)}
    drawn = sorted(own, key=lambda name: hash_uniform("half", HALVES_SEED, name))
    deciding = set(drawn[: len(drawn) // 2])
    return [
        GENERAL if name not in own else DECISION if name in deciding else SELECTION
        for name in names
    ]


DOMAINS = {
    domain.name: domain
    for domain in (
        Domain(
            "medical",
            DataParameters(
                dataset="domain-medical",
                train_files=[SQUAD],
                dev_files=[SQUAD, "covid_qa"],
                overlap="leave out",
            ),
            medical_texts,
            lambda title: not title,  # SQuAD's articles have titles, and covid_qa's have none
        ),
        Domain(
            "biology",
            DataParameters(
                dataset="domain-biology",
                train_files=[SQUAD],
                dev_files=[SQUAD],
                overlap="leave out",
            ),
            biology_texts,
            DEV_TITLES.__contains__,
        ),
    )
}
