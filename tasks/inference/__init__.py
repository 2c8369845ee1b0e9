"""Answers from trained models."""
