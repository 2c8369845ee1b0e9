"""The rules by which a model predicts that a question has no answer."""

from typing import Literal

# "No answer" is predicted if it is more probable than every span ("argmax"), or if its
# log-probability exceeds the best span's by the threshold chosen on validation ("threshold").
NoAnswer = Literal["argmax", "threshold"]
