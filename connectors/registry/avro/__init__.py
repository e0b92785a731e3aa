"""Avro: schemas both ways, and compiled codecs."""
