"""HTML reports, and what they show."""
