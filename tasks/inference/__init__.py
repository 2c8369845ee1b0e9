"""Inference: answers from trained models."""
