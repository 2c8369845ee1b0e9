"""Dataset sources: the catalog, downloads, object stores and the generated dataset."""
