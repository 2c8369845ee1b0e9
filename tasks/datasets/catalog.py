"""The catalog of named question datasets: their locations and checksums."""

from typing import Any, Literal

from pydantic import BaseModel, Field

from tasks.datasets.fetch import Source

SplitName = Literal["all", "train", "validation", "dev"]

SQUAD = "https://rajpurkar.github.io/SQuAD-explorer/dataset/"
CC_BY_SA = "CC BY-SA 4.0"

RAJPURKAR_2016 = (
    "Rajpurkar et al. 2016, SQuAD: 100,000+ Questions for Machine Comprehension of Text"
)
RAJPURKAR_2018 = "Rajpurkar et al. 2018, Know What You Don't Know: Unanswerable Questions for SQuAD"


class CatalogEntry(BaseModel, frozen=True):
    """A catalog entry: description, licence, citation and format."""

    name: str
    about: str
    licence: str
    citation: str = ""
    format: str

    @property
    def sources(self) -> list[Source]:
        """The files of the entry; empty if the project generates them."""
        return []


class Dataset(CatalogEntry, frozen=True):
    """A question dataset. `training` overrides preset settings that do not suit the dataset."""

    format: str = "SQuAD JSON"
    train: Source | None = None  # train and dev both None: the project generates them
    dev: Source | None = None  # the only file of an evaluation-only dataset
    training: dict[str, Any] = Field(default_factory=dict)
    validation_share: float = 0.1

    def source(self, part: SplitName) -> Source | None:
        """The file of a part, or the only file if there is one; None for generated data."""
        return (self.train or self.dev) if part == "train" else (self.dev or self.train)

    @property
    def sources(self) -> list[Source]:
        """The one or two files of the dataset; empty if they are generated."""
        return [source for source in (self.train, self.dev) if source is not None]


def _squad(name: str, size: int, sha256: str) -> Source:
    return Source(name=name, sha256=sha256, bytes=size, url=SQUAD + name)


SQUAD_DEV_1 = _squad(
    "dev-v1.1.json", 4_854_279, "95aa6a52d5d6a735563366753ca50492a658031da74f301ac5238b03966972c9"
)

DATASETS = {
    dataset.name: dataset
    for dataset in (
        Dataset(
            name="tiny",
            about="generated text about an invented world: 5,150 short questions",
            licence="Apache-2.0",
            # Training runs a fixed number of epochs, so nothing is selected on a validation set.
            validation_share=0,
            # Adadelta starts too slowly to train on so little data within a few minutes.
            training={
                "optimizer": "adam",
                "learning_rate": 1e-3,
                "batch_size": 32,
                "epochs": 12,
                "dropout": 0.1,
            },
        ),
        Dataset(
            name="squad-v1.1",
            about="SQuAD v1.1: 87,599 training and 10,570 dev questions on Wikipedia",
            licence=CC_BY_SA,
            citation=RAJPURKAR_2016,
            train=_squad(
                "train-v1.1.json",
                30_288_272,
                "3527663986b8295af4f7fcdff1ba1ff3f72d07d61a20f487cb238a6ef92fd955",
            ),
            dev=SQUAD_DEV_1,
        ),
        Dataset(
            name="squad-v2.0",
            about="SQuAD v2.0: 130,319 training and 11,873 dev questions; a third have no answer",
            licence=CC_BY_SA,
            citation=RAJPURKAR_2018,
            train=_squad(
                "train-v2.0.json",
                42_123_633,
                "68dcfbb971bd3e96d5b46c7177b16c1a4e7d4bdef19fb204502738552dede002",
            ),
            dev=_squad(
                "dev-v2.0.json",
                4_370_528,
                "80a5225e94905956a6446d296ca1093975c4d3b3260f1d6c8f68bc2ab77182d8",
            ),
        ),
        Dataset(
            name="squad-v1.1-recovered",
            about="54,086 of SQuAD v1.1's training questions (62 %), and its official dev set",
            licence=CC_BY_SA,
            citation=RAJPURKAR_2016,
            train=Source(
                name="train-v1.1-recovered.json",
                sha256="61b9fa25b1eba92a6c579049d30b5fae111de6659d46250a4d9a49b09d1f5abe",
                bytes=21_658_898,
            ),
            dev=SQUAD_DEV_1,
        ),
        Dataset(
            name="cs224n-dev-v2.0",
            about="6,078 questions: the half of SQuAD v2.0's dev set that is CS224n's dev set",
            licence=CC_BY_SA,
            citation=RAJPURKAR_2018,
            dev=Source(
                name="cs224n-dev-v2.0.json",
                sha256="f5e0e7cab261deddd8f44513f8e34a289fbbf15e97970b32d9c35b7b59a05d37",
                bytes=2_285_317,
            ),
        ),
        Dataset(
            name="cs224n-test-v2.0",
            about="5,795 questions: the other half; its articles are also in SQuAD v1.1's dev set",
            licence=CC_BY_SA,
            citation=RAJPURKAR_2018,
            dev=Source(
                name="cs224n-test-v2.0.json",
                sha256="9be1b5298e609bbe4613a7c1dc058a85cecff7d53e6fc1c8f208ac2ec5dce777",
                bytes=1_868_091,
            ),
        ),
        Dataset(
            name="squadshifts-new_wiki",
            about="7,938 questions on newer Wikipedia articles, to measure distribution shift",
            licence=CC_BY_SA,
            citation="Miller et al. 2020, The Effect of Natural Distribution Shift on Question "
            "Answering Models",
            dev=Source(
                name="squadshifts-new_wiki.json",
                sha256="1d50a0ca4cdab88d038b52ea8a2d0510af6038d7f41a0a256b9659237769d0ee",
                bytes=3_607_393,
            ),
        ),
        Dataset(
            name="covid_qa",
            about="1,380 questions on COVID-19 papers, with very long contexts",
            licence="Apache-2.0",
            citation="Möller et al. 2020, COVID-QA: A Question Answering Dataset for COVID-19",
            dev=Source(
                name="covid_qa.json",
                sha256="1e63c496dfdc859e617913d9ca57d221bcfcbf09d9dcd87097be92cb0265076e",
                bytes=2_697_495,
            ),
            # Most presets allow 15 answer tokens: 43 % of these answers are longer, 5 % exceed 60.
            training={"window_stride": 200, "max_answer_tokens": 60},
        ),
    )
}
