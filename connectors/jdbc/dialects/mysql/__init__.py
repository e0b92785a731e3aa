"""MySQL 5.7 and later, MariaDB 10.6 and later, and compatible databases. Rows are read and written by generated code.

Transactions and savepoints roll back only tables of a transactional engine (InnoDB, not MyISAM). CREATE and ALTER end a
transaction.
"""

from connectors.jdbc.dialects.mysql.dialect import MySqlDialect

__all__ = ["MySqlDialect"]
