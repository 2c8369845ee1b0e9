"""What a variant of the model is: its fields and the published presets."""
