"""Where tables are kept: declarations, files, commits, reads.  The only home of pyspark, delta and deltalake."""

from warehouse.catalog import find_table, list_tables
from warehouse.settings import Settings, load_settings
from warehouse.spec import TableSpec
from warehouse.table import Snapshot, Table

__all__ = ["Settings", "Snapshot", "Table", "TableSpec", "find_table", "list_tables", "load_settings"]
