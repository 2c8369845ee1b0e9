"""What flows share."""
