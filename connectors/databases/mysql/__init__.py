"""MySQL and MariaDB: connections, and rows as their protocol sends them."""
