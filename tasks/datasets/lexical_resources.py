"""The catalog of named corpora, word vectors and word-similarity tests."""

from typing import Literal

from tasks.datasets.catalog import CC_BY_SA, CatalogEntry
from tasks.datasets.fetch import Source

ResourceKind = Literal["corpus", "word vectors", "word similarity"]

WORD_LISTS = "https://raw.githubusercontent.com/mfaruqui/eval-word-vectors/master/data/word-sim/"
PENNINGTON_2014 = "Pennington et al. 2014, GloVe: Global Vectors for Word Representation"


class LexicalResource(CatalogEntry, frozen=True):
    """A corpus, a set of word vectors, or a word-similarity test, in one file."""

    kind: ResourceKind
    source: Source

    @property
    def sources(self) -> list[Source]:
        """The only file of the entry."""
        return [self.source]


def _word_pairs(name: str, size: int, sha256: str) -> Source:
    return Source(name=name, sha256=sha256, bytes=size, url=WORD_LISTS + name)


LEXICAL_RESOURCES = {
    resource.name: resource
    for resource in (
        LexicalResource(
            name="enwiki2015-64M",
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
