"""MLflow tracking: runs, registered models, lineage, retention and garbage collection."""
