"""Scores of answers, what they mean, and the promotion rule."""
