"""How questions are marked whose answers people confirmed or corrected."""

FEEDBACK = "feedback-"
"""What their ids begin with."""
