"""The services of `make up`: Prefect, MLflow and a worker."""
