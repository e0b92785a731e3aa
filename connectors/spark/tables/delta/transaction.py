"""Delta's own transactions, in the JVM of the Spark session."""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from connectors.spark.tables.committed_offsets import TableCommit
from connectors.spark.tables.conflicts import CommitConflict
from connectors.spark.tables.delta.log import Action, DeltaLog

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_CONFLICTS = ("io.delta.exceptions.", "org.apache.spark.sql.delta.Concurrent", "org.apache.spark.sql.delta.MetadataChanged")


class _DeltaClasses:
    """Delta's classes in the JVM. py4j asks the JVM about each part of a name, so a name costs several round trips."""

    def __init__(self, jvm: Any) -> None:
        delta = jvm.org.apache.spark.sql.delta
        self.spark_session = jvm.org.apache.spark.sql.classic.SparkSession
        self.delta_log = delta.DeltaLog
        self.action_from_json = delta.actions.Action.fromJson
        self.write = getattr(delta, "DeltaOperations$Write")
        self.append = jvm.org.apache.spark.sql.SaveMode.Append
        self.list = jvm.java.util.ArrayList
        self.collections = jvm.scala.jdk.javaapi.CollectionConverters
        self.option = jvm.scala.Option.apply


class DeltaTransactions:
    """Transactions on the table at ``path``, whose log this is. May be used by one thread at a time."""

    def __init__(self, session: SparkSession, path: str, log: DeltaLog) -> None:
        self._jvm: Any = session._jvm
        self._session: Any = session._jsparkSession
        self._path = path
        self._files = log
        self._classes: _DeltaClasses | None = None

    def begin(self) -> DeltaTransaction:
        """Starts a transaction on the newest version."""
        if self._classes is None:
            self._classes = _DeltaClasses(self._jvm)
        # The session of the current JVM thread: Delta reads settings from it.
        self._classes.spark_session.setActiveSession(self._session)
        log = self._classes.delta_log.forTable(self._session, self._path)
        return DeltaTransaction(self._classes, log, log.startTransaction(), self._files)

    def table_exists(self) -> bool:
        return self.begin().version >= 0


class DeltaTransaction:
    """One transaction: what it reads, and one call of :meth:`commit`."""

    def __init__(self, classes: _DeltaClasses, log: Any, transaction: Any, files: DeltaLog) -> None:
        self._classes = classes
        self._log = log
        self._transaction = transaction
        self._files = files
        self.version = int(transaction.readVersion())
        """The version that it reads; -1 when there is no table."""

    def metadata(self) -> Mapping[str, Any]:
        found: Mapping[str, Any] = json.loads(self._transaction.metadata().json())["metaData"]
        return found

    def table_id(self) -> str:
        return str(self._transaction.metadata().id())

    def protocol(self) -> Mapping[str, Any]:
        found: Mapping[str, Any] = json.loads(self._transaction.protocol().json())["protocol"]
        return found

    def domains(self) -> list[Mapping[str, Any]]:
        """The ``domainMetadata`` actions of the table."""
        listed = self._classes.collections.asJava(self._transaction.snapshot().domainMetadata())
        return [json.loads(domain.json())["domainMetadata"] for domain in listed]

    def application_versions(self) -> dict[str, int]:
        """The transaction identifiers of the table, with their versions, as the snapshot has them. May run a Spark job."""
        snapshot = self._transaction.snapshot()
        checksum = snapshot.checksumOpt()
        found = checksum.get().setTransactions() if checksum.isDefined() else None
        listed = found.get() if found is not None and found.isDefined() else snapshot.setTransactions()
        return {str(t.appId()): int(t.version()) for t in self._classes.collections.asJava(listed)}

    def files(self) -> list[Action]:
        """The ``add`` actions of all data files. Runs a Spark job."""
        rows = self._transaction.snapshot().allFiles().toJSON().collectAsList()
        return [json.loads(row) for row in rows]

    def write_checkpoint(self) -> None:
        """Writes a checkpoint of the newest version."""
        self._log.checkpoint()

    def commit(
        self,
        actions: Iterable[Action],
        document: TableCommit,
        *,
        application_ids: Collection[str] = (),
        reads_table: bool = False,
    ) -> int:
        """Commits the actions; returns the version. Raises CommitConflict; after another error it is not known whether there was
        a commit.

        It is a conflict when another commit since :attr:`version` has one of ``application_ids``, or changed rows if
        ``reads_table``, or removed files that this one removes too, or changed the table's metadata.
        """
        classes, transaction = self._classes, self._transaction
        if reads_table:
            transaction.readWholeTable()
        read = transaction.readTxn()
        for identity in application_ids:
            read.addOne(identity)
        parsed = classes.list()
        for action in actions:
            parsed.add(classes.action_from_json(json.dumps(action)))
        sequence = classes.collections.asScala(parsed).toSeq()
        nothing, metadata = classes.option(None), classes.option(document.to_json())
        operation = classes.write(classes.append, nothing, nothing, metadata, nothing, nothing, nothing, nothing, nothing)
        try:
            return int(transaction.commit(sequence, operation))
        except Exception as e:
            if not _is_conflict(e):
                raise
            # A storage client that got no answer repeats its request, and meets its own commit, which Delta takes for another's.
            landed = self._find(document)
            if landed is None:
                raise CommitConflict(str(e).strip().splitlines()[0]) from e
            return landed

    def _find(self, document: TableCommit) -> int | None:
        """The version since :attr:`version` that this commit made; None if it made none."""
        version = self.version + 1
        while (logged := self._files.commit(version)) is not None:
            own = logged.user_metadata
            if own is not None and own.id == document.id:
                return version
            version += 1
        return None


def _is_conflict(error: Exception) -> bool:
    thrown = getattr(error, "java_exception", None)
    if thrown is not None:
        return str(thrown.getClass().getName()).startswith(_CONFLICTS)
    return "DELTA_CONCURRENT" in str(error) or "DELTA_METADATA_CHANGED" in str(error)


def transaction_action(application_id: str, version: int) -> Action:
    """The action that stores a version under a transaction identifier."""
    return {"txn": {"appId": application_id, "version": version, "lastUpdated": int(time.time() * 1000)}}
