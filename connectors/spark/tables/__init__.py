"""Tables: writing rows and committing them with their offsets."""
