"""Source offsets: how they are written down, where they are kept, how they are looked up."""
