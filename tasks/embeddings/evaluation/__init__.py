"""Evaluation of word vectors: similarity, analogies, bias, coverage."""
