"""Configuration of model variants: the fields, and the published presets."""
