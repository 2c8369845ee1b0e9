"""Shows the progress of long work: lines, bars and Prefect artifacts."""
