"""Tests of the manifests."""
