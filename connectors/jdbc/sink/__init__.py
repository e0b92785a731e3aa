"""JDBC sinks: write topics to tables. Confluent's, Aiven's and Debezium's flavors share this code."""
