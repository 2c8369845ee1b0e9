"""Tokens, vocabularies, and texts encoded by them."""
