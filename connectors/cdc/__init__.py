"""What change data capture connectors share, whatever their database: keys, envelopes, signals, snapshots, and offsets."""
