"""What commands do with a running worker, of Sluice or of Apache Kafka Connect, over REST."""
