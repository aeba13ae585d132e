"""Moved to `eigengap.memory`."""

from eigengap.memory import DoesNotFitError, free_memory, require_memory, require_pairs

__all__ = ["DoesNotFitError", "free_memory", "require_memory", "require_pairs"]
