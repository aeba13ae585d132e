"""Comparing models: on held-out rows and cells, and by likelihood-ratio tests."""
