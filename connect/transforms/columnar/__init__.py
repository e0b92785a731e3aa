"""Applies transformations to whole batches, column by column."""
