"""Command-line arguments that several programs have."""

import argparse


def add_expected_no_answer(parser: argparse.ArgumentParser) -> None:
    """Add --expected-no-answer: the share of unanswerable questions to choose thresholds for."""
    parser.add_argument(
        "--expected-no-answer",
        type=_share,
        default=0.5,
        metavar="SHARE",
        help="share of unanswerable questions that thresholds are chosen for (default: 0.5)",
    )


def _share(text: str) -> float:
    value = float(text)
    if not 0 < value < 1:
        raise argparse.ArgumentTypeError(f"{text} is not between 0 and 1")
    return value
