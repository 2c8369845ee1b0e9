"""Flow `fill-embeddings`: add word vectors for the words of your domain that a set lacks."""

from typing import Annotated, Any

from prefect import flow
from prefect.artifacts import create_table_artifact
from pydantic import Field

from flows.commands.flow_command import flow_command
from flows.commands.terminal import show
from flows.common.command_line import command_of
from flows.common.encoding import fill, find_vectors
from flows.common.failures import report_user_errors
from flows.common.parameters import CorpusParameters, SetName, VectorFill, VectorStart
from infra.artifacts.shared_folder import shared_folder, shown_path
from infra.errors import UserError
from infra.settings import settings
from tasks.embeddings.formats.export import publish_vectors
from tasks.embeddings.formats.source import PACKAGED
from tasks.embeddings.training.config import A_LA_CARTE, EmbeddingSettings

WINDOW, MIN_COUNT = 5, 5  # unless they are set


@flow(name="fill-embeddings", description=__doc__)
@report_user_errors
def fill_embeddings(
    source: Annotated[
        VectorStart, Field(description="Set of vectors to fill. Its own words stay as they are.")
    ] = PACKAGED,
    fill_with: Annotated[
        VectorFill,
        Field(
            description="a-la-carte induces vectors of new words from their contexts in `corpus`; "
            "a set of vectors, such as one trained here, is rotated onto `source` by the words in "
            "common."
        ),
    ] = A_LA_CARTE,
    corpus: CorpusParameters = CorpusParameters(),
    window: Annotated[
        int, Field(ge=1, le=100, description="Context words on each side. a-la-carte only.")
    ] = WINDOW,
    min_count: Annotated[
        int,
        Field(
            ge=1,
            description="Minimum number of occurrences for a word to get a vector. a-la-carte "
            "only.",
        ),
    ] = MIN_COUNT,
    name: SetName = "filled",
) -> dict[str, Any]:
    """Fill the set and publish it. Returns the facts about it, and the paths of its files.

    Raises:
        UserError: settings of a-la-carte are given for filling from another set.
    """
    unset = (corpus, window, min_count) == (CorpusParameters(), WINDOW, MIN_COUNT)
    if fill_with != A_LA_CARTE and not unset:
        raise UserError(
            f"corpus, window and min_count would have no effect, because fill_with is {fill_with}. "
            f"Omit them, or set fill_with to {A_LA_CARTE}."
        )
    contexts = EmbeddingSettings(window=window, min_count=min_count)
    filled = fill(find_vectors(source), fill_with, corpus, contexts)
    folder = settings().root.resolve() / "embeddings" / name
    with shared_folder(folder):
        files = publish_vectors(filled.folder, folder, [])
    create_table_artifact([filled.facts], key="embeddings", description=f"Word vectors: {files[0]}")
    return {**filled.facts, "cached": filled.cached, "files": [shown_path(file) for file in files]}


def announce(facts: dict[str, Any]) -> None:
    """Print what was filled, where it is, and the next commands."""
    vectors = facts["files"][0]
    reused = ", reused from an earlier run" if facts["cached"] else ""
    show(
        f"\n{facts['base']} filled by {facts['method']}{reused}: {facts['filled']:,} new words, "
        f"{facts['words']:,} in total, dimension {facts['dimension']}.",
        f"Fit        mean cosine {facts['cosine']:.2f} on the {facts['anchors']:,} words in common",
    )
    if facts["examples"]:
        show(f"New words  {', '.join(facts['examples'])}")
    use = {"data.dataset": "FILE", "vectors.source": vectors}
    show(
        *(f"File       {file}" for file in facts["files"]),
        "",
        f"Next       {command_of('evaluate-embeddings', {'vectors': [vectors]})}",
        f"           {command_of('retrain', use)}",
    )


command = flow_command(fill_embeddings, announce)
