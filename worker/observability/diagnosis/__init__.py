"""Diagnosis: pure rules over a snapshot of a cluster say what is wrong, since when, why, and which command fixes it.

:mod:`.snapshot` has the facts, :mod:`.rules` the rules, :mod:`.error_causes` the causes of failures by their texts, and
:mod:`.kafka_facts` asks Kafka. The rules run in a worker (``GET /sluice/diagnosis``), and in ``sluice diagnose`` for a worker of
Apache Kafka Connect.
"""
