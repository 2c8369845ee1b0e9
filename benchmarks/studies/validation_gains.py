"""What a setting gains on validation: the finished trainings of several settings, side by side.

Usage: python -m benchmarks.studies.validation_gains OUT_FOLDER TRAINED… [--name validation]
       [--expected-no-answer 0.5] [--note …]

TRAINED are folders of the stage `train`, or files validation-….parquet that this program wrote
before. Those that differ only in their seeds are a row of the table, and gains are over the row of
the first one. Each saved model answers its validation split (minutes per training). Scores are over
the questions that all have in common, by id; negatives that were made by rule are left out.

If some of these questions are unanswerable, each training's no-answer threshold is the best one for
them, and EM, F1, AvNA and gains are weighted to the expected share of unanswerable questions.
Otherwise every answer is a span. Intervals resample articles and seeds, and p-values are corrected
over the rows (Holm): a setting pays if its gain is positive and starred (p below 0.05).

OUT_FOLDER gets validation.md and .json (see --name), and for each training a Parquet file with its
answers to its validation split, validation-….parquet (see `benchmarks.trainings.answers`).
"""

import argparse
from pathlib import Path

from benchmarks.trainings.answered import read_answers
from benchmarks.trainings.answers import write_validation
from benchmarks.trainings.rows import rows_of
from benchmarks.trainings.trained import Trained, Training
from benchmarks.trainings.validation import add_expected_no_answer, write_gains


def training_of(trained: Path) -> Training:
    """The training of a folder, or of a file of answers."""
    if trained.is_file():
        return read_answers(trained).training
    return Trained(trained.resolve()).training


def answers_of(trained: Path, out: Path) -> Path:
    """The file of a training's answers to validation, which is written for a folder."""
    if trained.is_file():
        return trained
    training = Trained(trained.resolve())
    file = out / f"validation-{training.training.file_name}"
    write_validation(file, training)
    print(f"{file.name}: answered validation", flush=True)
    return file


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path, metavar="OUT_FOLDER")
    parser.add_argument("trained", type=Path, nargs="+", metavar="TRAINED")
    parser.add_argument("--name", default="validation", help="name of the table's files")
    add_expected_no_answer(parser)
    parser.add_argument("--note", default="", help="note to record with the results")
    arguments = parser.parse_args()
    rows_of(list(map(training_of, arguments.trained)))  # refuses a seed given twice, before minutes
    files = [answers_of(trained, arguments.out) for trained in arguments.trained]
    program = "benchmarks.studies.validation_gains"
    expected = arguments.expected_no_answer
    write_gains(files, arguments.out, arguments.name, program, expected, note=arguments.note)


if __name__ == "__main__":
    main()
