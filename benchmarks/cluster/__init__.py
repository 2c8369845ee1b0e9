"""What distribution costs: an object store as the storage root, and more nodes."""
