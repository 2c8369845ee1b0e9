"""Converters from the formats of datasets and annotation tools to SQuAD's records."""
