"""The selection of words and characters, and the lookup of forms."""

import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.text.build_vocabulary import coverage
from tasks.text.vocabulary import UNKNOWN, Lexicon
from tests.factories.splits import ingest
from tests.factories.vectors import write_lines
from tests.factories.vocabularies import write_vocabulary


class Built:
    """A vocabulary built from a training text, another text, and the words of a vector set."""

    def __init__(self, folder: Path, train: str, other: str, vectors: str, **chosen: Any) -> None:
        splits = [ingest(folder / "a", (train, ["?"])), ingest(folder / "b", (other, ["?"]))]
        lines = [f"{word} {row}.5" for row, word in enumerate(vectors.split())]
        source = write_lines(folder / "v.txt", *lines)
        counts = {"min_count": 2, "min_character_count": 1}
        _, self.out = write_vocabulary(folder, splits, source, **counts | chosen)

    def table(self, name: str) -> dict[str, list[Any]]:
        return pq.read_table(self.out / f"{name}.parquet").to_pydict()

    @property
    def words(self) -> list[str]:
        """All words except <padding> and <unknown>."""
        return self.table("words")["word"][2:]

    @property
    def lexicon(self) -> Lexicon:
        return Lexicon.load(self.out)


def test_words_are_selected_and_ordered_by_count(tmp_path: Path) -> None:
    # "?" is the question in each split: it has no vector and occurs once in training.
    built = Built(tmp_path, "The the owl owl owl ant bee cat", "bee dog emu", "zoo cat dog bee the")
    table = built.table("words")
    assert table["word"] == ["<padding>", "<unknown>", "owl", "the", "bee", "cat"]
    assert table["count"] == [0, 2, 3, 2, 1, 1]
    assert table["in_vectors"] == [False, False, False, True, True, True]
    assert table["index"] == list(range(6))


@pytest.mark.parametrize("first", [0, 1])
def test_other_splits_add_forms_but_no_words(tmp_path: Path, first: int) -> None:
    """A model must not know a word because a question that it is evaluated on has it."""
    vectors, files = "zoo owl yak emu", []
    for other in ("ant", "yak emu yak emu"):
        folder = tmp_path / other
        folder.mkdir()
        built = Built(folder, "owl owl", other, vectors, pretrained_words=first)
        assert built.words == ["owl", "zoo"][: 1 + first]
        files.append([(built.out / f"{n}.parquet").read_bytes() for n in ("words", "characters")])
        types = built.table("types")
        assert types["form"][-len(set(other.split())) :] == sorted(set(other.split()))[::1]
        assert types["word"][-1] == UNKNOWN
    assert files[0] == files[1]


def test_pretrained_words_come_last_in_their_order(tmp_path: Path) -> None:
    built = Built(tmp_path, "owl owl", "yak", "zoo ape owl yak bat", pretrained_words=3)
    assert built.words == ["owl", "zoo", "ape"]


def test_lower_case_lookup_drops_cased_vector_words(tmp_path: Path) -> None:
    built = Built(tmp_path, "owl owl", "yak", "Zoo ape", pretrained_words=2)
    assert built.words == ["owl", "ape"]


def test_casing_can_be_kept(tmp_path: Path) -> None:
    built = Built(tmp_path, "Owl Owl owl owl ANT", "b", "ant", lower_case=False)
    assert built.words == ["Owl", "owl"]
    assert built.lexicon.word("OWL") == UNKNOWN
    assert not built.lexicon.lower_case


def test_casing_policy_is_stored_with_the_words(tmp_path: Path) -> None:
    built = Built(tmp_path, "Owl owl", "b", "ant")
    assert built.lexicon.lower_case
    assert built.lexicon.word("OWL") == built.table("words")["word"].index("owl")


@given(
    st.lists(st.sampled_from(["a", "A", "b", "’", "'", "–", "--", "“"])),
    st.integers(1, 3),
)
@settings(max_examples=30, deadline=None)
def test_training_counts_match_lookups(
    tmp_path_factory: pytest.TempPathFactory, tokens: list[str], min_count: int
) -> None:
    built = Built(
        tmp_path_factory.mktemp("split"),
        " ".join(tokens),
        "b",
        "’ --",
        min_count=min_count,
    )
    counts: Counter[int] = Counter(map(built.lexicon.word, [*tokens, "?"]))
    assert built.table("words")["count"] == [counts[i] for i in range(len(built.words) + 2)]


def test_typographic_marks_fall_back_to_plain_ones(tmp_path: Path) -> None:
    built = Built(tmp_path, "it’s “so” –", "b", "’s 's \" --")
    lexicon, words = built.lexicon, built.table("words")["word"]
    assert words[2:] == ['"', "--", "’s"]
    assert words[lexicon.word("’s")] == "’s"
    assert words[lexicon.word("“")] == words[lexicon.word("”")] == '"'
    assert words[lexicon.word("–")] == "--"
    assert "“" in built.table("types")["form"]


def test_characters_keep_case_and_count_by_tokens(tmp_path: Path) -> None:
    built = Built(tmp_path, "Oo Oo o x", "yes", "owl", min_character_count=2)
    table = built.table("characters")
    assert table["character"] == ["<padding>", "<unknown>", "o", "O"]
    assert table["count"] == [0, 2, 3, 2]  # x and the question mark are unknown
    assert built.lexicon.characters("Oxo") == [3, UNKNOWN, 2]
    assert built.lexicon.characters("é🦉") == [UNKNOWN, UNKNOWN]


def test_types_list_each_form_with_its_characters(tmp_path: Path) -> None:
    url = "w" * 300
    built = Built(tmp_path, f"Owl owl owl {url}", "Owl emu", "owl")
    table = built.table("types")
    assert table["form"] == ["<padding>", "<unknown>", "owl", "?", "Owl", url, "emu"]
    assert table["word"] == [0, 1, 2, 1, 2, 1, 1]
    assert table["characters"][:2] == [[], [UNKNOWN]]
    assert table["characters"][5] == built.lexicon.characters("w") * 300
    assert table["index"] == list(range(7))


def test_types_match_the_stored_lexicon(tmp_path: Path) -> None:
    built = Built(tmp_path, "Owl owl – “ant” ANT ’s", "Emu owl ß", "owl ’s ant --")
    table, lexicon = built.table("types"), built.lexicon
    assert table["word"][2:] == [lexicon.word(form) for form in table["form"][2:]]
    assert table["characters"][2:] == [lexicon.characters(form) for form in table["form"][2:]]


def test_coverage_is_measured_with_and_without_case() -> None:
    counts = {"owl": 5, "Owl": 2, "–": 1, "emu": 2}
    shares = coverage(counts, {"owl": 0, "--": 1, "EMU": 2}, lower_case=True)
    assert shares == {
        "forms_looked_up": 0.75,
        "tokens_looked_up": 0.8,
        "forms_in_other_case": 0.5,
        "tokens_in_other_case": 0.6,
        "forms_in_any_case": 1.0,
        "tokens_in_any_case": 1.0,
    }
    as_written = coverage(counts, {"owl": 0}, lower_case=False)
    assert (as_written["tokens_looked_up"], as_written["tokens_in_other_case"]) == (0.5, 0.7)


def test_coverage_of_nothing_is_zero() -> None:
    assert set(coverage({}, {"owl": 0}, lower_case=True).values()) == {0.0}


def test_equal_inputs_give_equal_bytes(tmp_path: Path) -> None:
    files = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        built = Built(tmp_path / name, "a b c d b “x”", "e f g", "z y x g f", pretrained_words=3)
        files.append({path.name: path.read_bytes() for path in built.out.iterdir()})
    assert files[0] == files[1]
    assert set(files[0]) == {"words.parquet", "characters.parquet", "types.parquet"}


def test_lexicon_imports_no_heavy_packages() -> None:
    code = (
        "import sys, tasks.text.vocabulary; "
        "assert not {'pyarrow', 'numpy', 'pandas'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
