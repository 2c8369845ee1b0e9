r"""Compares tokenisers by vector coverage, exact answers, speed and number of tokens.

The study of 2026-11-21 that chose the rules of tasks/text/tokenizer.py: results in
results/tokenizers.json and .md, which explains the columns.

    python -m benchmarks.studies.tokenizers OUT.json train-v1.1-recovered.json dev-v1.1.json

Requires `tokenizers`, `spacy` and `nltk` besides the project's packages. Prints the tables, and
writes OUT.json.
"""

import re
import sys
from collections import Counter
from collections.abc import Callable, Container, Mapping, Sequence
from pathlib import Path
from time import process_time
from typing import Any

import spacy
from nltk.tokenize import NLTKWordTokenizer
from tokenizers.pre_tokenizers import BertPreTokenizer, Whitespace

from benchmarks.common.machine import machine, print_result, today
from benchmarks.common.tables import markdown
from models.squad_metrics import f1
from tasks.data.alignment import align
from tasks.data.readers import read_articles
from tasks.data.schema import Paragraph
from tasks.embeddings.formats.select import packaged_words
from tasks.text.tokenizer import tokenize
from tasks.text.vocabulary import is_known

Spans = Callable[[str], Sequence[tuple[int, int]]]
"""Returns the (start, end) of every token of a text."""

LETTERS = r"[^\W_]+"
CONTRACTION = r"(?i:[^\W_]+?(?=n['’]t\b)|n['’]t\b|(?<=\w)['’](?:s|m|d|ll|re|ve)\b)"
ABBREVIATION = r"[^\W\d_](?:\.[^\W\d_])+(?!\w)\.?"
NUMBER = r"\d+(?:[.,]\d+)+"
WHOLE = rf"{ABBREVIATION}|{NUMBER}"
NAME = r"[^\W_]+(?:['’&](?!(?i:s|m|d|ll|re|ve)\b)[^\W_]+)*"
PATTERNS = {
    "re 0: white space": r"\S+",
    "re 1: runs of letters and digits, other characters alone": rf"{LETTERS}|\S",
    "re 2: 1 + contractions split (do n't, Levi 's)": rf"{CONTRACTION}|{LETTERS}|\S",
    "re 3: 2 + U.S. and 1,000.5 whole": rf"{WHOLE}|{CONTRACTION}|{LETTERS}|\S",
    "re 4: 3 + O'Neil and AT&T whole": rf"{WHOLE}|{CONTRACTION}|{NAME}|\S",
    "re 5: 4 + gold-themed whole": rf"{WHOLE}|{CONTRACTION}|{NAME}(?:-{NAME})*|\S",
    "re 6: 4 + digits apart from letters (42 nd)": (
        rf"{WHOLE}|{CONTRACTION}|\d+|[^\W\d_]+(?:['’&](?!(?i:s|m|d|ll|re|ve)\b)[^\W\d_]+)*|\S"
    ),
}
KEPT_WHOLE = {
    "abbreviations (U.S.)": ABBREVIATION,
    "numbers (1,000.5)": NUMBER,
    "names with an apostrophe (O'Neil)": r"(?!(?i:n['’]t)$)\w+(?:['’]\w+)+",
    "names with an ampersand (AT&T)": r"[A-Z]+(?:&[A-Z]+)+",
}
"""Tokens that the project's tokeniser keeps whole and others split. Splitting them raises the
coverage (U . S . are four known words) but loses their meaning."""


def matching(pattern: str) -> Spans:
    """A tokeniser whose tokens are the matches of a regular expression."""
    find = re.compile(pattern).finditer
    return lambda text: [match.span() for match in find(text)]


def hugging_face(splitter: Any) -> Spans:
    """A tokeniser from a pre-tokeniser of Hugging Face."""
    return lambda text: [span for _, span in splitter.pre_tokenize_str(text)]


def blank_english() -> Spans:
    """The rule-based tokeniser of spaCy's blank English pipeline, without white-space tokens."""
    split = spacy.blank("en").make_doc
    return lambda text: [(t.idx, t.idx + len(t)) for t in split(text) if not t.is_space]


split_treebank = NLTKWordTokenizer().span_tokenize
CANDIDATES: dict[str, Spans] = {
    "bidaflow (tasks/text/tokenizer.py)": tokenize,
    **{name: matching(pattern) for name, pattern in PATTERNS.items()},
    "HF tokenizers Whitespace": hugging_face(Whitespace()),
    "HF tokenizers BertPreTokenizer": hugging_face(BertPreTokenizer()),
    "spaCy blank('en')": blank_english(),
    "NLTK span_tokenize": lambda text: list(split_treebank(text)),
}


def measure(
    spans: Spans, paragraphs: Sequence[Paragraph], known: Container[str]
) -> dict[str, float]:
    """A candidate's row; shares in per cent, speed in thousand tokens per second of CPU time."""
    words: Counter[str] = Counter()
    outcomes: Counter[str] = Counter()
    oracle: list[float] = []
    for paragraph in paragraphs:
        text, tokens = paragraph.context, spans(paragraph.context)
        words.update(text[start:end].lower() for start, end in tokens)
        starts, ends = [start for start, _ in tokens], [end for _, end in tokens]
        for question in paragraph.qas:
            aligned = align(question, text, starts, ends)
            outcomes[aligned.outcome] += 1
            span = "" if aligned.start < 0 else text[starts[aligned.start] : ends[aligned.end]]
            oracle.append(f1(span, [answer.text for answer in question.answers]))
    covered = [word for word in words if is_known(word, known, lower_case=True)]
    seconds = min(cpu_seconds(spans, paragraphs) for _ in range(3))
    return {
        "tokens covered %": 100 * sum(words[word] for word in covered) / words.total(),
        "types covered %": 100 * len(covered) / len(words),
        "exact answers %": 100 * outcomes["exact"] / outcomes.total(),
        "oracle F1": 100 * sum(oracle) / len(oracle),
        "tokens per context": words.total() / len(paragraphs),
        "thousand tokens/s": words.total() / seconds / 1000,
    }


def cpu_seconds(spans: Spans, paragraphs: Sequence[Paragraph]) -> float:
    """CPU time to tokenise all contexts once."""
    start = process_time()
    for paragraph in paragraphs:
        spans(paragraph.context)
    return process_time() - start


def kept_whole(
    paragraphs: Sequence[Paragraph], known: Container[str]
) -> dict[str, dict[str, float]]:
    """The tokens of each kind of `KEPT_WHOLE`, and the share with a vector in per cent."""
    forms = Counter(p.context[start:end] for p in paragraphs for start, end in tokenize(p.context))
    kinds = {}
    for kind, pattern in KEPT_WHOLE.items():
        counts = {form: n for form, n in forms.items() if re.fullmatch(pattern, form)}
        covered = sum(n for form, n in counts.items() if is_known(form, known, lower_case=True))
        total = sum(counts.values())
        kinds[kind] = {"tokens": total, "covered %": 100 * covered / max(total, 1)}
    return kinds


def table(measured: Mapping[str, Mapping[str, float]]) -> str:
    """A Markdown table with a row for each name."""
    return markdown(
        [
            {"": name} | {column: f"{value:,.2f}" for column, value in row.items()}
            for name, row in measured.items()
        ]
    )


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    out, *files = map(Path, sys.argv[1:])
    articles = [article for file in files for article in read_articles(file)]
    paragraphs = [paragraph for article in articles for paragraph in article.paragraphs]
    known = packaged_words()
    result: dict[str, Any] = {
        "machine": machine(),
        "date": today(),
        "data": [file.name for file in files],
        "contexts": len(paragraphs),
        "questions": sum(len(paragraph.qas) for paragraph in paragraphs),
        "rows": {name: measure(spans, paragraphs, known) for name, spans in CANDIDATES.items()},
        "kept_whole": kept_whole(paragraphs, known),
    }
    print_result(result, out)
    print(table(result["rows"]), table(result["kept_whole"]), sep="\n")
