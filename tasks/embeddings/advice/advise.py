"""Advises on word vectors for a dataset: what they cover, and which way of adding words to try."""

import json
from collections.abc import Container, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from infra.artifacts.manifest import facts_of
from infra.errors import UserError
from infra.run_logger import logger
from tasks.embeddings.advice.characteristic_terms import characteristic_terms, first_of_both_kinds
from tasks.embeddings.advice.dataset_words import DatasetWords, Words, read_dataset_words
from tasks.embeddings.advice.question_coverage import (
    covered_words,
    question_coverage,
    questions_reached,
    share_of_missing,
)
from tasks.embeddings.advice.recommend import WordSource, recommend
from tasks.embeddings.advice.trial import Trial, TrialWords, nearest, try_contexts, try_rotation
from tasks.embeddings.evaluation.nearest_neighbors import Neighbours, ScoredWords
from tasks.embeddings.formats.select import load_vectors
from tasks.embeddings.formats.source import VectorInput
from tasks.embeddings.formats.word_vectors import WordSet
from tasks.embeddings.training.config import EmbeddingSettings
from tasks.embeddings.training.corpus import read_vocabulary

ADVICE = "advice.json"
MIN_COUNT = EmbeddingSettings().min_count  # occurrences that a word of a corpus needs
SHOWN_TERMS, SHOWN_NEIGHBOURS, SHOWN_MISSING = 5, 5, 12


def advise(
    out: Path,
    train: Path,
    held_out: Sequence[Path],
    main_name: str,
    sets: Mapping[str, VectorInput],
    corpora: Mapping[str, Path],
    lower_case: bool,
) -> dict[str, Any]:
    """Write advice.json.

    `train` and `held_out` are the dataset's ingested splits. What a source reaches is counted on
    the questions that are held out, because a source may have the texts of the others. One of the
    `sets` is the main one; the others, and the prepared `corpora`, are what could be added to it.
    All are by their names for people.

    Raises:
        UserError: the main set is empty, or the dataset has no questions.
    """
    main = load_vectors(str(sets[main_name]))
    if not main.words:
        raise UserError(f"{main_name} contains no words. Choose another set of vectors.")
    dataset = read_dataset_words([train, *held_out], main.rows, lower_case)
    asked = read_dataset_words(held_out, main.rows, lower_case)
    if not asked.questions:
        raise UserError("The dataset has no questions to advise on. Add some.")
    terms = characteristic_terms(dataset, main.words)
    shown = first_of_both_kinds(terms, main.rows, SHOWN_TERMS)
    work = _Work(main, dataset, asked, terms, shown, lower_case)
    found = [work.of_corpus(name, folder) for name, folder in corpora.items()]
    found += [work.of_set(name, vectors) for name, vectors in sets.items() if name != main_name]
    covered = work.covered
    coverage = {main_name: question_coverage(dataset, covered)}
    coverage |= {
        f"with {f.source.name}": question_coverage(dataset, covered | f.words) for f in found
    }
    if len(found) > 1:
        everything = covered.union(*(f.words for f in found))
        coverage["with all"] = question_coverage(dataset, everything)
    has_subwords = main.subwords is not None
    advice = recommend([f.source for f in found], len(asked.questions), has_subwords)
    result = {
        "questions": len(dataset.questions),
        "held_out": len(asked.questions),
        "dimension": main.vectors.shape[1],
        "occurrences": dataset.counts.total(),
        "coverage": {name: asdict(shares) for name, shares in coverage.items()},
        "missing": _most_frequent_missing(dataset, covered),
        "terms": [
            {"term": t, "count": dataset.counts[t], "contexts": dataset.contexts[t]} for t in shown
        ],
        "neighbours": {main_name: work.neighbours_in(main)}
        | {f.source.name: f.neighbours for f in found},
        "sources": [asdict(f.source) for f in found],
        "advice": [asdict(entry) for entry in advice],
    }
    (out / ADVICE).write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return {"questions": len(dataset.questions), "first": advice[0].way}


@dataclass(frozen=True)
class _Found:
    """A source, the dataset's words that it has, and the neighbours of the shown terms."""

    source: WordSource
    words: Words
    neighbours: dict[str, ScoredWords]


@dataclass(frozen=True)
class _Work:
    """The main set and the dataset, to find out what each source adds to them."""

    main: WordSet
    dataset: DatasetWords
    asked: DatasetWords  # only the held-out splits
    terms: list[str]
    shown: list[str]
    lower_case: bool

    @cached_property
    def covered(self) -> Words:
        """The dataset's words that the main set has."""
        return covered_words(self.dataset, self.main.rows)

    @cached_property
    def trial_words(self) -> TrialWords:
        """The words to try each source on; missing ones count if a question has them."""
        known = [term for term in self.terms if term in self.main.rows]
        missing = Words().union(*(question.all for question in self.dataset.questions))
        return TrialWords(known, missing, Words(self.shown))

    @cached_property
    def space(self) -> Neighbours:
        """The main set, to look up neighbours."""
        return Neighbours(self.main, self.lower_case)

    def of_corpus(self, name: str, corpus: Path) -> _Found:
        """What a prepared corpus adds, and where à la carte places the shown terms."""
        facts = facts_of(corpus)
        logger().info(f"Trying {name}: {facts['words']:,} words.")
        counts = {w: n for w, n in read_vocabulary(corpus, 1).items() if n >= MIN_COUNT}
        trial = try_contexts(self.main, corpus, counts, self.trial_words)
        neighbours = {
            term: nearest(self.space, trial.vectors[term], SHOWN_NEIGHBOURS, term)
            for term in self.shown
            if term in trial.vectors
        }
        return self._found(name, "corpus", counts, trial, neighbours, facts["words"])

    def of_set(self, name: str, vectors: VectorInput) -> _Found:
        """What another set adds, and its own neighbours of the shown terms."""
        other = load_vectors(str(vectors))
        logger().info(f"Trying {name}: {len(other.words):,} words.")
        trial = try_rotation(self.main, other, self.trial_words)
        return self._found(name, "set", other.rows, trial, self.neighbours_in(other))

    def neighbours_in(self, word_set: WordSet) -> dict[str, ScoredWords]:
        """The neighbours of the shown terms that a set has."""
        space = self.space if word_set is self.main else Neighbours(word_set, self.lower_case)
        known = [t for t in self.shown if t in word_set.rows and space.vector(t) is not None]
        return {term: space.neighbours(term, SHOWN_NEIGHBOURS) for term in known}

    def _found(
        self,
        name: str,
        kind: Literal["corpus", "set"],
        known: Container[str],
        trial: Trial,
        neighbours: dict[str, ScoredWords],
        tokens: int = 0,
    ) -> _Found:
        words = covered_words(self.dataset, known)
        new = words - self.covered
        source = WordSource(
            name=name,
            kind=kind,
            new_words=len(new),
            share_of_missing=share_of_missing(self.dataset, self.covered, new),
            reached=questions_reached(self.asked, new),
            coverage=question_coverage(self.dataset, words).occurrences,
            hidden_terms=trial.terms,
            placed=trial.placed,
            tokens=tokens,
            obstacle=trial.obstacle,
        )
        return _Found(source, words, neighbours)


def _most_frequent_missing(dataset: DatasetWords, covered: Words) -> list[tuple[str, int]]:
    missing = {word: count for word, count in dataset.counts.items() if word not in covered}
    ordered = sorted(missing, key=lambda word: (-missing[word], word))
    return [(word, missing[word]) for word in ordered[:SHOWN_MISSING]]
