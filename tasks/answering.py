"""The predictor, where the code of models that earlier releases logged imports it from."""

import sys
from pathlib import Path

# MLflow has put the model's own code in front, whose `models` does not fit this predictor.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tasks.inference.predictor import Predictor as Answerer

__all__ = ["Answerer"]
