"""Scoring and analysis of answers, and the promotion rule."""
