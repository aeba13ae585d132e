"""Where data live: arrays, frames, files, fields, Dask, and files to write to.

This is the front door: other rooms import from here, and fits from `base` and `wording` only.
Packages that not everybody has installed are loaded when they are needed.
"""

from __future__ import annotations

from eigengap.sources.array import F8, ArraySource, in_memory, is_dask, is_field, library_of
from eigengap.sources.base import (
    Block,
    Drawn,
    ObservedCells,
    Rows,
    Source,
    dense_rows,
    least_keys,
    require_frequencies,
    require_unique,
)
from eigengap.sources.blocked import DerivedSource, HeldOut, Rescaled, fold_of_cells, hidden_cells
from eigengap.sources.cells import MIXED, is_number
from eigengap.sources.checks import (
    EXACT,
    as_weight,
    check_two_dimensional,
    count_missing,
    missing_codes,
    resolve_columns,
    warn_of_codes,
    with_missing_for,
)
from eigengap.sources.coded import MixedTable, holds_numbers, open_table
from eigengap.sources.conversion import as_source, in_memory_table, lies_elsewhere
from eigengap.sources.fields.places import is_field_path
from eigengap.sources.fields.table import FieldSource, field_like
from eigengap.sources.files.columns import (
    Columns,
    arrow_path,
    arrow_to_float,
    compression_of,
    foreign_kind,
    write_columns,
)
from eigengap.sources.files.csv.cells import (
    MISSING_TEXTS,
    NULL_WORDS,
    TRUTH_VALUES,
    WHITE,
    Cells,
    Likeness,
    likeness_of,
)
from eigengap.sources.files.csv.dialect import SEPARATOR_LINE, find_dialect, is_date
from eigengap.sources.files.csv.faults import describe_label_rows, label_rows, require_even
from eigengap.sources.files.csv.reader import HEAD_BYTES, THREADED, CsvReader
from eigengap.sources.files.csv.rows import BOM, SKIP_NOTHING, SkippedLines, newline_of, row_chunks
from eigengap.sources.files.parquet import ParquetReader, index_columns
from eigengap.sources.files.paths import find_files, format_of
from eigengap.sources.frames import (
    TO_MISSING,
    TO_NUMERIC,
    boolean_columns,
    eager_frame,
    labels_of,
    like,
    made_floating,
    made_missing,
    native_column,
    new_frame,
    selected,
    typed_like,
    whole_columns,
    with_new_columns,
)
from eigengap.sources.levels import DATES, TIMES, ColumnType, Schema, are_codes
from eigengap.sources.limits import limits_of
from eigengap.sources.opening import agree_on_decimals, codes_of, open_source, parquet_parts
from eigengap.sources.reader import FileReader
from eigengap.sources.sinks import open_sink
from eigengap.sources.sinks.base import FileSink, Sink
from eigengap.sources.sinks.formats import TextSink, csv_header
from eigengap.sources.streaming import stream
from eigengap.sources.wording import column, named_columns, quote, short, show
