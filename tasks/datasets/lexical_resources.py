"""The catalog of named corpora, word vectors and word-similarity tests."""

from typing import Literal

from tasks.datasets.catalog import CC_BY_SA, Entry
from tasks.datasets.fetch import Source

Kind = Literal["corpus", "word vectors", "word similarity"]

WORD_LISTS = "https://raw.githubusercontent.com/mfaruqui/eval-word-vectors/master/data/word-sim/"
PENNINGTON_2014 = "Pennington et al. 2014, GloVe: Global Vectors for Word Representation"


class Collection(Entry, frozen=True):
    """A corpus, a set of word vectors, or a word-similarity test, in one file."""

    kind: Kind
    source: Source

    @property
    def sources(self) -> list[Source]:
        """The only file of the entry."""
        return [self.source]


def _words(name: str, size: int, sha256: str) -> Source:
    return Source(name=name, sha256=sha256, bytes=size, url=WORD_LISTS + name)


COLLECTIONS = {
    collection.name: collection
    for collection in (
        Collection(
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
        Collection(
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
        Collection(
            name="glove.6B",
            kind="word vectors",
            about="400,000 words of Wikipedia 2014 and Gigaword 5; d = 50, 100, 200 and 300: name "
            "glove.6B/glove.6B.100d.txt",
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
        Collection(
            name="glove.840B.300d",
            kind="word vectors",
            about="2.2 million words of the Common Crawl, upper and lower case; d = 300",
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
        Collection(
            name="fasttext-wiki-news-300d-1M",
            kind="word vectors",
            about="1 million words of Wikipedia 2017 and news; d = 300",
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
        Collection(
            name="WordSim-353",
            kind="word similarity",
            about="353 pairs of words, by relatedness",
            licence="MIT",
            citation="Finkelstein et al. 2002, Placing Search in Context: The Concept Revisited",
            format="tab-separated text",
            source=_words(
                "EN-WS-353-ALL.txt",
                7_405,
                "ce12919b240af45bdf46d243601eaca2b6212b159b5e7e9b435ee7ee40c5619c",
            ),
        ),
        Collection(
            name="SimLex-999",
            kind="word similarity",
            about="999 pairs of words, by similarity and not mere relatedness",
            licence="MIT",
            citation="Hill et al. 2015, SimLex-999: Evaluating Semantic Models With (Genuine) "
            "Similarity Estimation",
            format="tab-separated text",
            source=_words(
                "EN-SIMLEX-999.txt",
                18_024,
                "405394ffb7d25f6d0e3c041f87c9f27d29dc6b047506769953e85c4523b11685",
            ),
        ),
        Collection(
            name="RW",
            kind="word similarity",
            about="2,034 pairs with rare words",
            licence="MIT",
            citation="Luong et al. 2013, Better Word Representations with Recursive Neural "
            "Networks for Morphology",
            format="tab-separated text",
            source=_words(
                "EN-RW-STANFORD.txt",
                49_851,
                "5108d54dfc746f44f9c3d7e31d2857c37cf71430bc1594175a61a3b89bb0ae1f",
            ),
        ),
        Collection(
            name="MEN",
            kind="word similarity",
            about="3,000 pairs of words, by relatedness",
            licence="MIT",
            citation="Bruni et al. 2014, Multimodal Distributional Semantics",
            format="tab-separated text",
            source=_words(
                "EN-MEN-TR-3k.txt",
                53_593,
                "888b13580faa362c7b11da0a670258cf1b1eb4bf0ecbcd418918729a3bd3f43a",
            ),
        ),
        Collection(
            name="analogies",
            kind="word similarity",
            about="19,544 questions such as Athens : Greece = Berlin : ?",
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
