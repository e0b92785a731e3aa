"""The distributed worker: workers share connectors through a group and three topics."""
