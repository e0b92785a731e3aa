"""Protobuf: schemas both ways, and dynamic messages."""
