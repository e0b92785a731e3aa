"""Reads Delta tables from their log, without Spark."""
