"""How far the answers can be trusted: coverage, levels, calibration, ranks; see `__main__`."""
