"""Signals: their actions, and the channels that carry them."""
