"""The herder of a cluster: workers that share connectors through a group and three topics."""
