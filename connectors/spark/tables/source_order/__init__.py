"""The order of a table's rows by their positions in the source, kept with the table (``sequence.by=source``)."""
