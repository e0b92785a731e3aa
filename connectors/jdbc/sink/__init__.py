"""The sinks: topics into tables. One engine under the faces of Confluent's, Aiven's and Debezium's connectors."""
