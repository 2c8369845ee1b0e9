"""The storage root: a folder, or an address in an object store."""
