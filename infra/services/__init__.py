"""The services of `bidaflow up`: Prefect, MLflow and a worker."""
