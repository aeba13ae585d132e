"""A package, so that no other distribution's `tests` is found instead of it."""
