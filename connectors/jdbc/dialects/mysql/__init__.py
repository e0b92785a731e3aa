"""MySQL 5.7 and later, MariaDB 10.6 and later, and what speaks their protocol. Rows are read and written by generated code.

What a transaction and its savepoints undo is what InnoDB keeps: what was written to a MyISAM table (or another
without transactions) stays. CREATE and ALTER end a transaction.
"""

from connectors.jdbc.dialects.mysql.dialect import MySqlDialect

__all__ = ["MySqlDialect"]
