"""Tables in files: one reader for each format (`sources.opening` finds the one for a path)."""
