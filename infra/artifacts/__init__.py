"""The stage cache: stages, their manifests, digests and locks."""
