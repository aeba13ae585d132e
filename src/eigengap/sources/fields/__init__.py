"""Labelled fields through xarray: samples along one dimension, a grid along the others.

| file | what |
|---|---|
| `table.py` | `FieldSource`, a field as a table, whose rows become fields again |
| `grid.py` | stacking and unstacking, names of cells, choosing and comparing grids |
| `places.py` | where fields lie: memory, NetCDF, Zarr, many files |
| `reader.py` | reading them in blocks |

Importing this package imports no xarray.
"""
