"""The plugins that call plain functions, by name."""

from connect.plugins import Kind, PluginEntry

PLUGINS: tuple[PluginEntry, ...] = (
    PluginEntry(Kind.TRANSFORMATION, "connect.functions.transformation:PythonTransformation", aliases=("Python",)),
    PluginEntry(Kind.PREDICATE, "connect.functions.predicate:PythonPredicate", aliases=("Python",)),
)
