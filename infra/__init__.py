"""Where the pipeline runs: settings, environment, deployment files."""
