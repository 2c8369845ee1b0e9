"""Generates the default dataset, `tiny`: a SQuAD-format reading test about an invented world.

A context describes four entities of one kind (people, towns, rivers, ballads or ships). It states
two relations, each for three of the four entities. A question therefore has three candidate answers
of its own relation, and a question about the fourth entity has no answer. Questions use other words
than the sentences, and every name is invented, so a model that cannot distinguish two unknown names
has to guess one of three values.
"""

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

# A name is a first, a middle and a last syllable; no common set of word vectors has such words.
FIRST = (
    "Bal Bro Cly Cor Dru Dwi Ebr Elg Fen Flo Gam Gri Hes Hul Irv Ixa Jor Jut Kel Kra Lom Lys Mog "
    "Myr Ner Nul Orv Osk Pel Pry Que Quo Rav Rud Ske Sul Tam Thu Ulm Urs Vam Vel Wex Wil Yar Yst "
    "Zin Zor"
)
MIDDLE = "ba bri da do du fi ga gu ja ke ki la lo lu mi mo nu pa ra ri so su ta ti va vo we zu"
LAST = {
    "person": "bra dric fane kos len lith mund nix phor quil rek san tha vik wyn zel",
    "town": "bost crag deep fold garth holt keld mere nook rost stow thwick wold yarn",
    "river": "bren dell fyr gwen lune mash nesk oune phil rusk sill tarn vash whin",
    "work": "bane dirl fey glow lorn mist noke pell rill shae thorn vane wist zand",
}
# Values of one or two words; none of these words is used twice in a context.
PHRASES = {
    "craft": (
        "baker barber carpenter clerk cook doctor farmer fisherman gardener hunter judge lawyer "
        "mason merchant miller miner painter potter priest sailor shepherd smith tailor weaver",
    ),
    "air": ("busy clean crowded dusty gloomy lively neat noisy quiet rainy smoky sunny windy",),
    "colour": ("amber black blue bronze brown golden green grey pink purple red silver white",),
    "mood": (
        "bitter cheerful comic gentle gloomy happy merry noble sad solemn tender wild wistful",
    ),
    "vessel": (
        "barge brig clipper cutter ferry freighter frigate galley schooner trawler whaler yacht",
    ),
    "goods": (
        "black blue brown fine golden heavy plain red soft white",
        "blankets bricks candles clocks combs gloves hats ribbons spoons tiles",
    ),
    "fish": (
        "blind green giant grey lazy pale silver spotted striped tiny",
        "bass carp crabs eels frogs perch pike salmon trout turtles",
    ),
    "heroes": (
        "angry brave cruel exiled faithful hungry lonely lost proud wise",
        "brothers giants kings knights monks queens sisters soldiers widows wolves",
    ),
    "cargo": (
        "cheap cold dried fresh raw rich salted smoked strong sweet",
        "apples beef butter cheese herring honey pepper spices tobacco wine",
    ),
}


@dataclass(frozen=True)
class Relation:
    """A property of an entity: the type of its value, and ways to state it and to ask for it.

    The statements and the questions of a relation have only function words in common.
    """

    value: str
    statements: tuple[str, ...]
    questions: tuple[str, ...]


@dataclass(frozen=True)
class EntityKind:
    """A kind of entity: the type of its names, its mentions in text, the relation stated before the
    name (the epithet), and the relations stated after it.

    An epithet is next to the name that the question mentions. From epithets a model learns to
    compare names long before it can connect a name with a value several words away.
    """

    names: str
    mentions: tuple[str, ...]
    epithet: Relation
    relations: tuple[Relation, ...]


KINDS = (
    EntityKind("person", ("{}",), Relation(
        "craft", ("the {} ",),
        ("What was the profession of {}?", "What trade did {} follow?",
         "Which job did {} do all day?"),
    ), (
        Relation("town", (" of {}", " from {}", " out of {}"),
                 ("Which town was the birthplace of {}?", "Where did the life of {} begin?",
                  "What was the home town of {}?")),
        Relation("person", (", schooled by {}", ", trained by {}", ", raised by {}"),
                 ("Who was the teacher of {}?", "Who gave lessons to {}?",
                  "By whom was {} taught as a child?")),
        Relation("year", (", dead since {}", ", buried in {}", ", gone since {}"),
                 ("When did the life of {} end?", "Which year brought the last day of {}?",
                  "In what year did people mourn for {}?")),
    )),
    EntityKind("town", ("{}", "the town of {}"), Relation(
        "air", ("the {} ",),
        ("How would a visitor describe {}?", "How does a stranger find {}?",
         "What do people think of the streets of {}?"),
    ), (
        Relation("river", (" on the {}", " beside the {}", " by the {}"),
                 ("Which stream runs past {}?", "What river flows through {}?",
                  "Where do the people of {} go for a swim?")),
        Relation("goods", (" with its {}", ", rich in {}", ", proud of its {}"),
                 ("What product is {} known for?", "Which wares come from {}?",
                  "What do the workshops of {} produce?")),
        Relation("person", (", founded by {}", ", planned by {}", ", built by {}"),
                 ("Who began the building of {}?", "Which settler brought {} into being?",
                  "Whose idea was it to create {}?")),
        Relation("year", (", burned in {}", ", in flames in {}", ", razed in {}"),
                 ("When did the great blaze destroy {}?", "Which year left {} in ashes?",
                  "In what year was there only smoke over {}?")),
    )),
    EntityKind("river", ("the {}", "the river {}"), Relation(
        "colour", ("the {} ",),
        ("What colour is the water of {}?", "What does {} look like from a hill?",
         "In what colour would one paint {}?"),
    ), (
        Relation("town", (", rising at {}", ", born near {}", ", springing from {}"),
                 ("Where does {} begin?", "Which town is at the source of {}?",
                  "Where can one find the first drops of {}?")),
        Relation("river", (", joining the {}", ", lost in the {}", ", ending in the {}"),
                 ("What larger water does {} finally reach?", "Where does {} finish its course?",
                  "Which body of water takes in {}?")),
        Relation("miles", (", {} long", ", only {} long", ", some {} long"),
                 ("What is the length of {}?", "How far does {} travel?",
                  "What distance does {} cover?")),
        Relation("fish", (" with its {}", ", full of {}", ", home of many {}"),
                 ("Which animals live in {}?", "What do people catch in {}?",
                  "Which creatures can be seen swimming in {}?")),
    )),
    EntityKind("work", ("the ballad {}", "the song {}"), Relation(
        "mood", ("the {} ",),
        ("What is the mood of {}?", "What sort of song is {}?", "How should one sing {}?"),
    ), (
        Relation("person", (" by {}", ", a work of {}", " from the pen of {}"),
                 ("Who was the author of {}?", "Which poet composed {}?",
                  "Who found the words for {}?")),
        Relation("heroes", (" about {}", " on {}", ", in praise of {}"),
                 ("What is the subject of {}?", "Who are the heroes of {}?",
                  "Which figures does {} describe?")),
        Relation("year", (", dated {}", ", printed in {}", ", finished in {}"),
                 ("When was {} published?", "Which year saw {} come out?",
                  "Since when could readers buy {}?")),
        Relation("town", (", loved in {}", ", a favourite in {}", ", sung in {}"),
                 ("Where is {} most popular?", "Which town cannot get enough of {}?",
                  "Where would a traveller hear {}?")),
    )),
    EntityKind("work", ("the {}", "the ship {}"), Relation(
        "vessel", ("the {} ",),
        ("What kind of vessel was {}?", "To which class of ships did {} belong?",
         "How was {} built and rigged?"),
    ), (
        Relation("town", (", built in {}", " from {}", " out of {}"),
                 ("Where was {} made?", "Which town produced {}?",
                  "In what place did carpenters work on {}?")),
        Relation("person", (" under {}", ", steered by {}", ", commanded by {}"),
                 ("Who was the captain of {}?", "Which skipper led {}?",
                  "Who gave the orders on {}?")),
        Relation("cargo", (" with {}", ", full of {}", ", laden with {}"),
                 ("What was the cargo of {}?", "Which goods lay in the hold of {}?",
                  "What did the crew stow on {}?")),
        Relation("year", (", sunk in {}", ", wrecked in {}", ", down since {}"),
                 ("When was {} lost at sea?", "What year saw the end of {}?",
                  "When did {} meet its final storm?")),
    )),
)  # fmt: skip

# Each sentence describes two entities; a context describes its four in an opening and a closing.
OPENINGS = ("The chronicle names {} and {}.", "Old letters mention {} and {}.",
            "Some still admire {} and {}.", "Every child knows {} and {}.",
            "The elders still remember {} and {}.")  # fmt: skip
CLOSINGS = ("Not forgotten are {} and {}.", "There are stories about {} and {}, too.",
            "Less is said about {} and {}.", "Many prefer {} and {}.",
            "After these come {} and {}.")  # fmt: skip
FILLERS = ("Few strangers ever ask.", "The winters are long.", "Not all of it is written down.",
           "{} is proud of its past.", "Such is the way of things in {}.")  # fmt: skip


class ValueGenerator:
    """Draws values that are unused in their context, and names that are unused in the corpus."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self._names: set[str] = set()
        self.in_context: set[str] = set()  # cleared for each context; names are never reused

    def value(self, kind: str) -> str:
        """A value of the type: a name, a year, a distance, one word, or an adjective and a noun."""
        if kind in LAST:
            return self.name(kind)
        if kind == "miles":
            return f"{self._draw_unused(map(str, range(100, 400)))} miles"
        if kind == "year":
            return self._draw_unused(map(str, range(1201, 1900)))
        return " ".join(self._draw_unused(words.split()) for words in PHRASES[kind])

    def name(self, kind: str) -> str:
        """A new name whose first letter differs from that of every other name in the context."""
        initial = self._draw_unused(sorted({first[0] for first in FIRST.split()}))
        first = self._rng.choice([first for first in FIRST.split() if first[0] == initial])
        while True:
            name = first + "".join(self._rng.choice(s.split()) for s in (MIDDLE, LAST[kind]))
            if name not in self._names:
                self._names.add(name)
                return name

    def _draw_unused(self, choices: Iterable[str]) -> str:
        choice = self._rng.choice([c for c in choices if c not in self.in_context])
        self.in_context.add(choice)
        return choice


def generate(
    seed: int = 7, train_articles: int = 90, dev_articles: int = 13, contexts: int = 10
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The train and dev sets as SQuAD 2.0 dictionaries, with 5 questions about each context.

    An article is an invented district of `contexts` contexts. No name is drawn twice, so no name
    occurs in both train and dev. One question in five has no answer.
    """
    rng = Random(seed)
    generator = ValueGenerator(rng)

    def article(key: str) -> dict[str, Any]:
        generator.in_context.clear()
        district = generator.name("town")
        paragraphs = [_paragraph(rng, generator, f"{key}-{i}", district) for i in range(contexts)]
        return {"title": f"The district of {district}", "paragraphs": paragraphs}

    train, dev = (
        {"version": "v2.0", "data": [article(f"{split}-{i:03}") for i in range(articles)]}
        for split, articles in (("train", train_articles), ("dev", dev_articles))
    )
    return train, dev


def write_tiny(out: Path, seed: int = 7) -> dict[str, Any]:
    """Write train.json and dev.json into `out`; return the number of questions by split."""
    questions = {}
    for split, dataset in zip(("train", "dev"), generate(seed), strict=True):
        (out / f"{split}.json").write_bytes(f"{json.dumps(dataset, indent=1)}\n".encode())
        questions[split] = sum(len(p["qas"]) for a in dataset["data"] for p in a["paragraphs"])
    return questions


def _paragraph(rng: Random, generator: ValueGenerator, key: str, district: str) -> dict[str, Any]:
    generator.in_context.clear()
    kind = rng.choice(KINDS)
    *names, absent = (generator.name(kind.names) for _ in range(5))
    relations = (kind.epithet, rng.choice(kind.relations))
    omitted = list(zip(rng.sample(range(4), 2), relations, strict=True))
    facts = {  # the values that the context states
        (entity, relation): generator.value(relation.value)
        for entity in range(4)
        for relation in relations
        if (entity, relation) not in omitted
    }
    context = _context(rng, kind, names, facts, district)
    questions = [
        (names[entity], relation, value)
        for (entity, relation), value in rng.sample(list(facts.items()), 4)
    ]
    entity, relation = rng.choice(omitted)
    questions.append((rng.choice((names[entity], names[entity], absent)), relation, ""))
    rng.shuffle(questions)
    qas = [
        {
            "id": f"{key}-{i}",
            "question": rng.choice(relation.questions).format(
                rng.choice(kind.mentions).format(name)
            ),
            "answers": [{"text": value, "answer_start": _offset(context, value)}] if value else [],
            "is_impossible": not value,
        }
        for i, (name, relation, value) in enumerate(questions)
    ]
    return {"context": context, "qas": qas}


def _context(
    rng: Random,
    kind: EntityKind,
    names: list[str],
    facts: dict[tuple[int, Relation], str],
    district: str,
) -> str:
    descriptions = []
    for entity, name in enumerate(names):
        subject, tail = rng.choice(kind.mentions).format(name), ""
        for (described, relation), value in facts.items():
            if described == entity:
                statement = rng.choice(relation.statements).format(value)
                if relation is kind.epithet:
                    subject = statement + name
                else:
                    tail = statement
        descriptions.append(subject + tail)
    rng.shuffle(descriptions)
    sentences = [
        rng.choice(OPENINGS).format(_close_insertion(descriptions[0]), descriptions[1]),
        rng.choice(CLOSINGS).format(_close_insertion(descriptions[2]), descriptions[3]),
    ]
    if rng.random() < 0.2:
        sentences.insert(rng.randrange(3), rng.choice(FILLERS).format(district))
    return " ".join(sentences)


def _offset(context: str, value: str) -> int:
    # Of whole words: a name may contain the same letters.
    return next(re.finditer(rf"\b{re.escape(value)}\b", context)).start()


def _close_insertion(description: str) -> str:
    """The text, with a closing comma if a comma opens an insertion in it."""
    return f"{description}," if "," in description else description
