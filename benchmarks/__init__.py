"""Benchmark programs; their results are in benchmarks/results."""
