"""Flow `advise-embeddings`: say what word vectors can do for a dataset, before any training."""

import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from prefect import flow
from prefect.artifacts import create_table_artifact
from pydantic import Field
from rich.box import SIMPLE_HEAD
from rich.table import Column, Table
from rich.text import Text

from flows.commands.flow_command import flow_command
from flows.commands.terminal import show, table
from flows.common.command_line import command_of
from flows.common.display_names import names_of_vectors, require_unique
from flows.common.encoding import corpus_files, find_vectors, prepare_corpus
from flows.common.failures import report_user_errors
from flows.common.parameters import CorpusParameters, VectorParameters
from flows.common.splits import ingest_texts
from tasks.embeddings.advice.advise import ADVICE
from tasks.embeddings.advice.dataset_words import NEARBY
from tasks.embeddings.advice.recommend import VERDICTS
from tasks.embeddings.formats.source import PACKAGED, VectorSource
from tasks.embeddings.training.config import A_LA_CARTE
from tasks.embeddings.training.corpus_files import TextFile
from tasks.stages import advising
from tasks.text.build_vocabulary import VocabularyParameters

OWN_TEXTS, CORPUS = "own texts", "the corpus"
METHOD = "skipgram"  # of a set that is trained to be concatenated
MITTENS_MU = 0.1
STYLES = dict(zip(VERDICTS, ("bold green", "", "green", "dim"), strict=True))
STYLE = {"box": SIMPLE_HEAD, "show_edge": False, "padding": (0, 1, 0, 0)}


@flow(name="advise-embeddings", description=__doc__)
@report_user_errors
def advise_embeddings(
    dataset: Annotated[
        str, Field(min_length=1, description="Dataset to advise on: a known one, or a path.")
    ] = "tiny",
    vectors: Annotated[
        list[VectorSource],
        Field(
            min_length=1,
            description="The set that models would use, and then sets that could be added to it.",
        ),
    ] = [PACKAGED],
    corpus: CorpusParameters = CorpusParameters(),
) -> dict[str, Any]:
    """Measure what the vectors cover, and advise on the way of adding words to try first.

    The training contexts of the dataset always count as a corpus, too. Returns the numbers and the
    advice.
    """
    require_unique(vectors=vectors)
    names = names_of_vectors([VectorParameters(source=spec) for spec in vectors])
    splits = ingest_texts(dataset)
    own = TextFile(splits.train.folder / "contexts.parquet")
    corpora = {OWN_TEXTS: prepare_corpus([own], corpus).folder}
    if corpus.files or corpus.dataset is not None:
        corpora[CORPUS] = prepare_corpus(corpus_files(corpus), corpus).folder
    sets = dict(zip(names, map(find_vectors, vectors), strict=True))
    held_out = [split.folder for split in (splits.validation, splits.dev) if split is not None]
    output = advising(splits.train.folder, held_out, names[0], sets, corpora, corpus.lower_case)
    advice = json.loads((output.folder / ADVICE).read_text(encoding="utf-8"))
    ways = commands(dataset, vectors, names, corpus, advice["dimension"])
    create_table_artifact(
        _rows(advice["advice"], ways),
        key="embeddings-advice",
        description=f"Which way of adding words to {names[0]} to try first, for {splits.name}",
    )
    return {**advice, "dataset": splits.name, "commands": ways}


def _rows(advice: Sequence[Mapping[str, Any]], ways: Mapping[str, str]) -> list[dict[str, str]]:
    """A row for each way and source, with the reason and the command."""
    return [
        {
            "verdict": entry["verdict"],
            "way": entry["way"],
            "with": entry["source"] or "",
            "why": entry["reason"],
            "command": ways.get(_key(entry), ""),  # none without a second set
        }
        for entry in advice
    ]


def _key(entry: Mapping[str, Any]) -> str:
    """The name of an advice's command in `commands`."""
    return " · ".join(filter(None, (entry["way"], entry["source"])))


def commands(
    dataset: str, vectors: Sequence[str], names: Sequence[str], corpus: CorpusParameters, size: int
) -> dict[str, str]:
    """The command for each way with each source, by "way · source"; `size` is the dimension of the
    main set, the first of the `vectors`."""
    main, *others = vectors
    vocabulary = VocabularyParameters(lower_case=corpus.lower_case)

    def retrain(source: str, changes: Mapping[str, Any] | None = None) -> str:
        given = None if source == PACKAGED else source
        fields = {"data.dataset": dataset, "vectors.source": given, **(changes or {})}
        return command_of("retrain", {**fields, "vocabulary": vocabulary})

    def joined(name: str, other: str, changes: Mapping[str, Any]) -> dict[str, str]:
        both = f"{main}+{other}"
        return {
            f"concatenate · {name}": retrain(both, changes),
            f"concatenate with a gate · {name}": retrain(
                both, {**changes, "training.vector_gate": size}
            ),
        }

    texts = {OWN_TEXTS: corpus.model_copy(update={"files": [], "dataset": dataset}), CORPUS: corpus}
    found = {"keep the set as it is": retrain(main)}
    for name, text in texts.items():
        fill = {"vectors.fill": A_LA_CARTE, "vectors.corpus": text}
        mittens = {"embedding.method": "glove", "embedding.dimension": size}
        mittens |= {"embedding.mittens_mu": MITTENS_MU, "start": main, "corpus": text}
        mittens |= {"name": "mittens" if name == CORPUS else "mittens-own"}
        found[f"fill a-la-carte · {name}"] = retrain(main, fill)
        found[f"Mittens · {name}"] = command_of("train-embeddings", mittens)
        found |= joined(name, METHOD, {"vectors.corpus": text})
    for name, other in zip(names[1:], others, strict=True):
        found[f"fill by rotation · {name}"] = retrain(main, {"vectors.fill": other})
        found |= joined(name, other, {})
    return found


def announce(advice: dict[str, Any]) -> None:
    """Print the numbers, and the advice that rests on them, with the commands to try."""
    missing = ", ".join(f"{word} ({count:,})" for word, count in advice["missing"])
    promising = [a for a in advice["advice"] if a["verdict"] in ("try first", "then")]
    keys = [_key(entry) for entry in promising]
    show(
        _coverage_table(advice),
        f"Missing    {missing or 'none'}",
        _source_table(advice),
        _neighbour_table(advice),
        _advice_table(advice),
        *(f"{'' if i else 'Next':11}{advice['commands'][key]}" for i, key in enumerate(keys)),
    )


def _coverage_table(advice: dict[str, Any]) -> Table:
    columns: list[str | Column] = [
        "vectors",
        *(Column(title, justify="right") for title in ("text", "answers")),
        *(
            Column(title, justify="right")
            for title in ("in question", "in answer", f"{NEARBY} words around it", "any of these")
        ),
    ]
    places = ("missing_in_question", "missing_in_answer", "missing_nearby")
    rows = [
        (
            name,
            *(f"{shares[field]:.1%}" for field in ("occurrences", "answers")),
            *(f"{shares[place]:,}" for place in places),
            f"{shares['missing']:,} ({shares['missing'] / advice['questions']:.0%})",
        )
        for name, shares in advice["coverage"].items()
    ]
    title = (
        f"{advice['dataset']}: share of words with a vector, and questions (of "
        f"{advice['questions']:,}) with a missing word"
    )
    return table(columns, rows, title=title, **STYLE)


def _source_table(advice: dict[str, Any]) -> Table:
    columns: list[str | Column] = [
        "source",
        *(
            Column(title, justify="right")
            for title in ("new words", "of missing text", "held-out reached", "terms placed")
        ),
    ]
    rows = [
        (
            source["name"],
            f"{source['new_words']:,}",
            f"{source['share_of_missing']:.0%}",
            f"{source['reached']:,} ({source['reached'] / advice['held_out']:.0%})",
            "too few"
            if source["placed"] is None
            else f"{source['placed']:.0%} of {source['hidden_terms']:,}",
        )
        for source in advice["sources"]
    ]
    title = (
        f"What each source adds. Held-out reached: questions (of {advice['held_out']:,}) with a "
        "word that it adds. Terms placed: share of hidden terms, as rare there as the missing "
        "words, whose own vectors are among the 10 nearest to the place that it gives them"
    )
    return table(columns, rows, title=title, **STYLE)


def _neighbour_table(advice: dict[str, Any]) -> Table:
    rows = [
        (
            f"{term['term']} ({term['count']:,} in {term['contexts']:,})" if number == 0 else "",
            name,
            ", ".join(word for word, _ in neighbours[term["term"]]),
        )
        for term in advice["terms"]
        for number, (name, neighbours) in enumerate(
            (n, found) for n, found in advice["neighbours"].items() if term["term"] in found
        )
    ]
    title = "Neighbours of characteristic terms (with their occurrences, and the texts they are in)"
    return table(
        ["term", "vectors", Column("nearest", overflow="fold")], rows, title=title, **STYLE
    )


def _advice_table(advice: dict[str, Any]) -> Table:
    rows = [
        (
            Text(a["verdict"], STYLES[a["verdict"]]),
            Text(a["way"], STYLES[a["verdict"]]),
            a["source"] or "",
            a["reason"],
        )
        for a in advice["advice"]
    ]
    return table(["", "way", "with", "why"], rows, title="Advice", **STYLE)


command = flow_command(advise_embeddings, announce, positional="--dataset")
