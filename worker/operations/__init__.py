"""Operations on connectors: automatic restarts, offset changes, config history, connectors.dir."""
