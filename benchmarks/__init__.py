"""Benchmark programs; their results are in benchmarks/results."""

from contextlib import suppress

# Sets the environment of Prefect, Ray and MLflow before a program imports them. Machines for
# `benchmarks.alone` lack the packages.
with suppress(ImportError):
    import flows  # noqa: F401
