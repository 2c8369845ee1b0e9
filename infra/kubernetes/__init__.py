"""Kubernetes manifests of a cluster, and the program that fills in their values."""
