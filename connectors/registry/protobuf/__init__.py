"""Protobuf: schema conversion and dynamic messages."""
