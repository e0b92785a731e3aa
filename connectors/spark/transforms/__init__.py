"""Compiles transformation chains to Spark SQL. Pure: nothing here needs a Spark session."""
