"""From what a user names - a dataset, a file, a folder - to files of SQuAD-format data."""

import random
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import httpx

from infra.settings import settings
from tasks.catalogue import Source
from tasks.errors import UserError
from tasks.ingestion import ingest_articles
from tasks.squad import Article, read_articles
from tasks.stages import sha256_of
from tasks.tiny import write_tiny

Part = Literal["all", "train", "dev"]

BLOCK_BYTES = 1 << 20
TIMEOUT_SECONDS = 30.0


def generate_tiny(out: Path, seed: int) -> dict[str, Any]:
    """Write the default dataset: train.json and dev.json about an invented world."""
    return dict(write_tiny(out, seed))


def fetch(out: Path, source: Source) -> dict[str, Any]:
    """Write the source's file, from the mirror if one is set, else from its official address.

    Raises:
        UserError: it is in neither place, or its content is not what its digest says.
        httpx.HTTPError: the network or the host failed; worth another try.
    """
    target = out / source.name
    mirrored = _mirrored(source)
    if mirrored is not None:
        shutil.copyfile(mirrored, target)
    elif source.url is None:
        raise UserError(
            f"{source.name} has no official address: set BIDAFLOW_MIRROR to a folder that holds it."
        )
    else:
        _download(source.url, target)
    digest = sha256_of(target)
    if digest != source.sha256:
        raise UserError(
            f"{source.name} from {mirrored or source.url} has SHA-256 {digest}, not "
            f"{source.sha256}: it is damaged or another version; get it anew."
        )
    return {"bytes": target.stat().st_size}


def _mirrored(source: Source) -> Path | None:
    mirror = settings().mirror
    if mirror is None:
        return None
    if not mirror.is_dir():
        raise UserError(f"BIDAFLOW_MIRROR is {mirror}, which is no folder: mend or unset it.")
    return next(iter(sorted(mirror.rglob(source.name))), None)


def _download(url: str, target: Path) -> None:
    with (
        httpx.stream("GET", url, follow_redirects=True, timeout=TIMEOUT_SECONDS) as response,
        target.open("wb") as file,
    ):
        response.raise_for_status()
        for block in response.iter_bytes(BLOCK_BYTES):
            file.write(block)


def squad_files(path: Path) -> list[Path]:
    """The file, or the .json files below the folder.

    Raises:
        UserError: there is nothing of the kind.
    """
    if path.is_file():
        return [path]
    files = sorted(path.rglob("*.json"))
    if not files:
        raise UserError(
            f"{path} is neither a known dataset, nor a file, nor a folder with .json files."
        )
    return files


def by_split(files: Sequence[Path]) -> tuple[list[Path], list[Path]]:
    """Training and dev files, told apart by names that begin with "train" and "dev".

    Without a dev file all are both: their articles are to be divided.
    """
    dev = [file for file in files if file.name.startswith("dev")]
    train = [file for file in files if file.name.startswith("train")]
    return (train, dev) if train and dev else (list(files), [])


def ingest_files(
    out: Path, files: Sequence[Path], part: Part, dev_share: float, seed: int
) -> dict[str, Any]:
    """Read SQuAD-format files, keep one part of their articles, and write its three tables.

    Raises:
        UserError: a file is broken, or too few articles are there to be divided.
    """
    articles = [article for file in files for article in read_articles(file)]
    return ingest_articles(choose_part(articles, part, dev_share, seed), out)


def choose_part(
    articles: Sequence[Article], part: Part, dev_share: float, seed: int
) -> list[Article]:
    """The articles of a part; train and dev are drawn by whole articles, at random by the seed."""
    if part == "all":
        return list(articles)
    if len(articles) < 2:
        raise UserError(
            "The data hold one article only, which can't be divided into train and dev: give "
            "files for both, or more articles."
        )
    order = random.Random(seed).sample(range(len(articles)), len(articles))
    number = min(max(1, round(dev_share * len(articles))), len(articles) - 1)
    held_out = set(order[:number])
    return [a for i, a in enumerate(articles) if (i in held_out) == (part == "dev")]
