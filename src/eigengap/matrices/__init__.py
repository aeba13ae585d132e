"""Matrices by themselves: singular value decomposition, pseudo-inverse, low-rank approximation."""
