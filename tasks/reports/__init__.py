"""HTML reports, and the data that they show."""
