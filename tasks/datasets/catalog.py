"""The catalogs of question datasets, corpora, word vectors and word-similarity tests, by name."""

from typing import Any, Literal

from pydantic import BaseModel, Field

from tasks.datasets.fetch import Source

SplitName = Literal["all", "train", "validation", "dev"]

# Experiments in MLflow, and folders of reports, which are filed beside those of the datasets.
EMBEDDINGS, COMPARISONS, EVALUATIONS = "embeddings", "comparisons", "evaluations"
RESERVED_NAMES = (EMBEDDINGS, COMPARISONS, EVALUATIONS)

CC_BY_SA = "CC BY-SA 4.0"

RAJPURKAR_2016 = (
    "Rajpurkar et al. 2016, SQuAD: 100,000+ Questions for Machine Comprehension of Text"
)
RAJPURKAR_2018 = "Rajpurkar et al. 2018, Know What You Don't Know: Unanswerable Questions for SQuAD"


class CatalogEntry(BaseModel, frozen=True):
    """A catalog entry: description, licence, citation and format."""

    name: str
    contents: str  # what it has and how much, in at most 22 characters
    about: str
    licence: str
    citation: str = ""
    format: str

    @property
    def sources(self) -> list[Source]:
        """The files of the entry; empty if the project generates them."""
        return [value for _, value in self if isinstance(value, Source)]


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


def _squad(name: str, size: int, sha256: str) -> Source:
    return Source(
        name=name,
        sha256=sha256,
        bytes=size,
        url=f"https://rajpurkar.github.io/SQuAD-explorer/dataset/{name}",
    )


SQUAD_DEV_1 = _squad(
    "dev-v1.1.json", 4_854_279, "95aa6a52d5d6a735563366753ca50492a658031da74f301ac5238b03966972c9"
)

CS224N_DEV_2 = Source(
    name="cs224n-dev-v2.0.json",
    sha256="f5e0e7cab261deddd8f44513f8e34a289fbbf15e97970b32d9c35b7b59a05d37",
    bytes=2_285_317,
)

DATASETS = {
    dataset.name: dataset
    for dataset in (
        Dataset(
            name="tiny",
            contents="5,150 questions",
            about="generated text about an invented world: 5,150 short questions",
            licence="Apache-2.0",
            # Training runs a fixed number of epochs, so nothing is selected on a validation set.
            validation_share=0,
            # Adadelta, large batches and dropout all start too slowly to train on so little data
            # within two minutes.
            training={
                "optimizer": "adam",
                "learning_rate": 1e-3,
                "batch_size": 16,
                "epochs": 7,
                "hidden_size": 64,
                "dropout": 0.0,
            },
        ),
        Dataset(
            name="squad-v1.1",
            contents="98,169 questions",
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
            contents="142,192 questions",
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
            contents="64,656 questions",
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
            name="squad-v2.0-recovered",
            contents="70,153 questions",
            about="64,075 training questions: those of squad-v1.1-recovered and 9,989 of SQuAD "
            "v2.0's unanswerable ones; dev is cs224n-dev-v2.0",
            licence=CC_BY_SA,
            citation=RAJPURKAR_2018,
            train=Source(
                name="train-v2.0-recovered.json",
                sha256="9987cf46c8802130b5f46adf0171642058853460ae20401a9fac51b43f3fdddb",
                bytes=23_390_468,
            ),
            dev=CS224N_DEV_2,
        ),
        Dataset(
            name="cs224n-dev-v2.0",
            contents="6,078 questions",
            about="6,078 questions: the half of SQuAD v2.0's dev set that is CS224n's dev set",
            licence=CC_BY_SA,
            citation=RAJPURKAR_2018,
            dev=CS224N_DEV_2,
        ),
        Dataset(
            name="cs224n-test-v2.0",
            contents="5,795 questions",
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
            contents="7,938 questions",
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
            contents="1,380 questions",
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

# On a few thousand questions, the presets' Adadelta starts too slowly. These changes suit data of
# one's own with fewer training questions than `FEW_QUESTIONS`.
FEW_QUESTIONS = 10_000
FOR_FEW_QUESTIONS: dict[str, Any] = {"optimizer": "adam", "learning_rate": 1e-3, "patience": 3}


PENNINGTON_2014 = "Pennington et al. 2014, GloVe: Global Vectors for Word Representation"


class LexicalResource(CatalogEntry, frozen=True):
    """A corpus, a set of word vectors, or a word-similarity test, in one file."""

    kind: Literal["corpus", "word vectors", "word similarity"]
    source: Source


def _word_pairs(name: str, size: int, sha256: str) -> Source:
    return Source(
        name=name,
        sha256=sha256,
        bytes=size,
        url="https://raw.githubusercontent.com/mfaruqui/eval-word-vectors/master/data/word-sim/"
        f"{name}",
    )


LEXICAL_RESOURCES = {
    resource.name: resource
    for resource in (
        LexicalResource(
            name="enwiki2015-64M",
            contents="64.0 M words of text",
            kind="corpus",
            about="English Wikipedia of 2015: 846,408 paragraphs, 64.0 million words",
            licence=CC_BY_SA,
            format="text, xz",
            source=Source(
                name="enwiki2015-64M.txt.xz",
                sha256="39a110a1505fd331899858c4c40d407ca0cbeb15092c296dfb52b532750dada2",
                bytes=108_574_940,
            ),
        ),
        LexicalResource(
            name="medquad",
            contents="3.4 M words of text",
            kind="corpus",
            about="medical questions and answers: 3.4 million words",
            licence="CC BY 4.0",
            citation="Ben Abacha and Demner-Fushman 2019, A Question-Entailment Approach to "
            "Question Answering",
            format="text, xz",
            source=Source(
                name="medquad.txt.xz",
                sha256="4f61e83f7f5fc0a9e9026962bd0bd7564d31cc10fb0c0bfb182afbdf0dcc03e9",
                bytes=2_754_600,
            ),
        ),
        LexicalResource(
            name="glove.6B",
            contents="400,000 word vectors",
            kind="word vectors",
            about="400,000 words from Wikipedia 2014 and Gigaword 5; 50, 100, 200 or 300 "
            "dimensions, for example glove.6B/glove.6B.100d.txt",
            licence="PDDL",
            citation=PENNINGTON_2014,
            format="GloVe text, zip",
            source=Source(
                name="glove.6B.zip",
                sha256="617afb2fe6cbd085c235baf7a465b96f4112bd7f7ccb2b2cbd649fed9cbcf2fb",
                bytes=862_182_613,
                url="https://nlp.stanford.edu/data/glove.6B.zip",
            ),
        ),
        LexicalResource(
            name="glove.840B.300d",
            contents="2.2 M word vectors",
            kind="word vectors",
            about="2.2 million cased words from Common Crawl; 300 dimensions",
            licence="PDDL",
            citation=PENNINGTON_2014,
            format="GloVe text, zip",
            source=Source(
                name="glove.840B.300d.zip",
                sha256="c06db255e65095393609f19a4cfca20bf3a71e20cc53e892aafa490347e3849f",
                bytes=2_176_768_927,
                url="https://nlp.stanford.edu/data/glove.840B.300d.zip",
            ),
        ),
        LexicalResource(
            name="fasttext-wiki-news-300d-1M",
            contents="1 M word vectors",
            kind="word vectors",
            about="1 million words from Wikipedia 2017 and news; 300 dimensions",
            licence="CC BY-SA 3.0",
            citation="Mikolov et al. 2018, Advances in Pre-Training Distributed Word "
            "Representations",
            format="fastText text, zip",
            source=Source(
                name="wiki-news-300d-1M.vec.zip",
                bytes=681_808_098,
                url="https://dl.fbaipublicfiles.com/fasttext/vectors-english/"
                "wiki-news-300d-1M.vec.zip",
            ),
        ),
        LexicalResource(
            name="WordSim-353",
            contents="353 word pairs",
            kind="word similarity",
            about="353 word pairs rated for relatedness",
            licence="MIT",
            citation="Finkelstein et al. 2002, Placing Search in Context: The Concept Revisited",
            format="tab-separated text",
            source=_word_pairs(
                "EN-WS-353-ALL.txt",
                7_405,
                "ce12919b240af45bdf46d243601eaca2b6212b159b5e7e9b435ee7ee40c5619c",
            ),
        ),
        LexicalResource(
            name="SimLex-999",
            contents="999 word pairs",
            kind="word similarity",
            about="999 word pairs rated for similarity, as opposed to relatedness",
            licence="MIT",
            citation="Hill et al. 2015, SimLex-999: Evaluating Semantic Models With (Genuine) "
            "Similarity Estimation",
            format="tab-separated text",
            source=_word_pairs(
                "EN-SIMLEX-999.txt",
                18_024,
                "405394ffb7d25f6d0e3c041f87c9f27d29dc6b047506769953e85c4523b11685",
            ),
        ),
        LexicalResource(
            name="RW",
            contents="2,034 word pairs",
            kind="word similarity",
            about="2,034 pairs with rare words, rated for similarity",
            licence="MIT",
            citation="Luong et al. 2013, Better Word Representations with Recursive Neural "
            "Networks for Morphology",
            format="tab-separated text",
            source=_word_pairs(
                "EN-RW-STANFORD.txt",
                49_851,
                "5108d54dfc746f44f9c3d7e31d2857c37cf71430bc1594175a61a3b89bb0ae1f",
            ),
        ),
        LexicalResource(
            name="MEN",
            contents="3,000 word pairs",
            kind="word similarity",
            about="3,000 word pairs rated for relatedness",
            licence="MIT",
            citation="Bruni et al. 2014, Multimodal Distributional Semantics",
            format="tab-separated text",
            source=_word_pairs(
                "EN-MEN-TR-3k.txt",
                53_593,
                "888b13580faa362c7b11da0a670258cf1b1eb4bf0ecbcd418918729a3bd3f43a",
            ),
        ),
        LexicalResource(
            name="analogies",
            contents="19,544 analogies",
            kind="word similarity",
            about="19,544 analogies such as Athens : Greece = Berlin : ?",
            licence="Apache-2.0",
            citation="Mikolov et al. 2013, Efficient Estimation of Word Representations in Vector "
            "Space",
            format="word2vec's questions-words",
            source=Source(
                name="questions-words.txt",
                sha256="8c29b3332afc46f3fb8be04cb5297bf96f39aa7131272dff57869b4485b22a36",
                bytes=603_955,
                url="https://raw.githubusercontent.com/tmikolov/word2vec/master/"
                "questions-words.txt",
            ),
        ),
    )
}
