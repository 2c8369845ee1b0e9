"""Infrastructure of the pipeline: settings, environment, stage cache, Ray cluster, services."""
