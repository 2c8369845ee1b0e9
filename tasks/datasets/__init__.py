"""Where datasets come from: the catalog, downloads, object stores, the generated dataset."""
