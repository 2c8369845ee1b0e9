"""What is measured and how; the results lie in benchmarks/results."""
