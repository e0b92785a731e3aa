"""Settings of a sink that uses an embedded Spark cluster for a few records."""

from __future__ import annotations

from sluice.embedded.spark_cluster import EmbeddedSparkCluster


def fast_settings(cluster: EmbeddedSparkCluster) -> dict[str, str]:
    """The connector's settings of the cluster, with small executors, and a driver that starts fast, as executors do: a driver of
    a cluster has the optimizing compiler, which costs a test more CPU time than it saves."""
    return {
        **cluster.connector_settings(),
        "spark.conf.spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
        "spark.conf.spark.executor.memory": "512m",
    }
