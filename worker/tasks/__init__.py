"""The parts that source and sink tasks share: the worker task, converters, and the transformation chain."""
