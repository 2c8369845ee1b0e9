-- Run once, when the server has created its own database: those of Prefect, of MLflow and its users.
CREATE DATABASE prefect;
CREATE DATABASE mlflow;
CREATE DATABASE mlflow_auth;
