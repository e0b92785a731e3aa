"""Behavior of Java that Sluice reproduces: regular expressions, dates, numbers, text, and hash order."""
