"""MLflow: runs, registered models, lineage, and what is removed in the end."""
