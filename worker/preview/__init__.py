"""Records through a connector's configuration without a broker: what ``sluice preview`` and config tests are built on."""
