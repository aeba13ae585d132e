"""Labelled fields through xarray: samples along one dimension, a grid along the others.

| file | what |
|---|---|
| `opening.py` | `field_source`: a field as a table; `field_like`: rows as a field again |
| `table.py` | `FieldSource` |
| `grid.py` | stacking and unstacking, names of cells, choosing and comparing grids |
| `places.py` | where fields lie: memory, NetCDF, Zarr, many files |
| `reader.py` | reading them in blocks |

Importing this package imports no xarray.
"""
