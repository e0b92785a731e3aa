"""Tables of well-known schemas, as dumps and SHOW CREATE TABLE of several servers have them."""

from __future__ import annotations

import pytest

from connectors.mysql.schema.ddl import DdlContext, TableDdlChange, apply, apply_changes, parse_create_table
from connectors.mysql.schema.model import MySqlTable, TableId

_DUMPS: dict[str, tuple[str, str, int, tuple[str, ...], str | None]] = {
    "sakila of MySQL 5.7": (
        """/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8 */;
CREATE TABLE `film` (
  `film_id` smallint(5) unsigned NOT NULL AUTO_INCREMENT,
  `title` varchar(128) NOT NULL,
  `description` text,
  `release_year` year(4) DEFAULT NULL,
  `language_id` tinyint(3) unsigned NOT NULL,
  `rental_duration` tinyint(3) unsigned NOT NULL DEFAULT '3',
  `rental_rate` decimal(4,2) NOT NULL DEFAULT '4.99',
  `rating` enum('G','PG','PG-13','R','NC-17') DEFAULT 'G',
  `special_features` set('Trailers','Commentaries','Deleted Scenes','Behind the Scenes') DEFAULT NULL,
  `last_update` timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,
  `location` geometry /*!80003 SRID 0 */ NOT NULL,
  PRIMARY KEY (`film_id`),
  KEY `idx_title` (`title`),
  SPATIAL KEY `idx_location` (`location`),
  CONSTRAINT `fk_film_language` FOREIGN KEY (`language_id`) REFERENCES `language` (`language_id`) ON UPDATE CASCADE
) ENGINE=InnoDB AUTO_INCREMENT=1001 DEFAULT CHARSET=utf8;
/*!40101 SET character_set_client = @saved_cs_client */;""",
        "film", 11, ("film_id",), "utf8",
    ),
    "employees": (
        """DROP TABLE IF EXISTS dept_emp, dept_manager, titles;
/*!50503 set default_storage_engine = InnoDB */;
CREATE TABLE dept_emp (
    emp_no      INT             NOT NULL,
    dept_no     CHAR(4)         NOT NULL,
    from_date   DATE            NOT NULL,
    to_date     DATE            NOT NULL,
    FOREIGN KEY (emp_no)  REFERENCES employees   (emp_no)  ON DELETE CASCADE,
    FOREIGN KEY (dept_no) REFERENCES departments (dept_no) ON DELETE CASCADE,
    PRIMARY KEY (emp_no,dept_no)
);
CREATE OR REPLACE VIEW dept_emp_latest_date AS SELECT emp_no, MAX(from_date) AS from_date FROM dept_emp GROUP BY emp_no;""",
        "dept_emp", 4, ("emp_no", "dept_no"), "latin1",
    ),
    "wordpress": (
        """CREATE TABLE wp_posts (
	ID bigint(20) unsigned NOT NULL auto_increment,
	post_date datetime NOT NULL default '0000-00-00 00:00:00',
	post_content longtext NOT NULL,
	post_status varchar(20) NOT NULL default 'publish',
	menu_order int(11) NOT NULL default '0',
	PRIMARY KEY  (ID),
	KEY post_name (post_status(191)),
	KEY type_status_date (post_status,post_date,ID)
) DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_520_ci;""",
        "wp_posts", 5, ("ID",), "utf8mb4",
    ),
    "magento": (
        """CREATE TABLE `catalog_product_entity_decimal` (
  `value_id` int NOT NULL AUTO_INCREMENT COMMENT 'Value ID',
  `attribute_id` smallint unsigned NOT NULL DEFAULT '0' COMMENT 'Attribute ID; (unsigned)',
  `store_id` smallint unsigned NOT NULL DEFAULT '0' COMMENT 'Store ID',
  `value` decimal(20,6) DEFAULT NULL COMMENT 'Value',
  `row` json DEFAULT NULL,
  PRIMARY KEY (`value_id`),
  UNIQUE KEY `CAT_PRD_ENTT_DEC_ATTR_ID_STORE_ID` (`attribute_id`,`store_id`),
  CONSTRAINT `CHK` CHECK ((`value` > 0)),
  CONSTRAINT `FK` FOREIGN KEY (`attribute_id`) REFERENCES `eav_attribute` (`attribute_id`) ON DELETE CASCADE
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb3 COMMENT='Catalog Product Decimal Attribute Backend Table'""",
        "catalog_product_entity_decimal", 5, ("value_id",), "utf8mb3",
    ),
    "MySQL 8.4 with all that it prints": (
        """CREATE TABLE `t` (
  `my_row_id` bigint unsigned NOT NULL AUTO_INCREMENT /*!80023 INVISIBLE */,
  `id` binary(16) NOT NULL DEFAULT (uuid_to_bin(uuid())),
  `first` varchar(40) COLLATE utf8mb4_0900_as_cs GENERATED ALWAYS AS (concat(`a`,_utf8mb4' ',`b`)) STORED NOT NULL,
  `v` int GENERATED ALWAYS AS ((`my_row_id` + 1)) VIRTUAL,
  `p` point NOT NULL /*!80003 SRID 4326 */,
  `vec` vector(3) DEFAULT NULL,
  `hex` binary(2) DEFAULT 0xFFFE,
  `ts` timestamp(6) NULL DEFAULT CURRENT_TIMESTAMP(6) ON UPDATE CURRENT_TIMESTAMP(6),
  PRIMARY KEY (`my_row_id`),
  UNIQUE KEY `u` (`id`),
  KEY `functional` ((cast(`v` as unsigned array))),
  KEY `desc` (`v` DESC) /*!80000 INVISIBLE */,
  FULLTEXT KEY `ft` (`first`) /*!50100 WITH PARSER `ngram` */
) /*!50100 TABLESPACE `innodb_file_per_table` */ ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_ai_ci
/*!80016 ENCRYPTION='Y' */
/*!50100 PARTITION BY RANGE (`my_row_id`)
(PARTITION p0 VALUES LESS THAN (10) COMMENT = 'a, b' ENGINE = InnoDB,
 PARTITION p1 VALUES LESS THAN MAXVALUE ENGINE = InnoDB) */""",
        "t", 8, ("my_row_id",), "utf8mb4",
    ),
    "MariaDB 11.4 with all that it prints": (
        """CREATE TABLE `t` (
  `id` uuid NOT NULL DEFAULT uuid(),
  `ip` inet6 DEFAULT '::',
  `j` longtext CHARACTER SET utf8mb4 COLLATE utf8mb4_bin DEFAULT NULL CHECK (json_valid(`j`)),
  `z` varchar(10) /*M!100301 COMPRESSED*/ DEFAULT NULL,
  `old` datetime /* mariadb-5.3 */ DEFAULT NULL,
  `n` int(11) DEFAULT nextval(`d`.`s`),
  `g` geometry REF_SYSTEM_ID=4326 DEFAULT NULL,
  `h` int(11) INVISIBLE DEFAULT 5,
  `w` int(11) DEFAULT NULL WITHOUT SYSTEM VERSIONING,
  `uca` varchar(3) CHARACTER SET utf8mb4 COLLATE utf8mb4_uca1400_ai_ci DEFAULT NULL,
  PRIMARY KEY (`id`),
  VECTOR KEY `vk` (`g`) `M`=8 `DISTANCE`=cosine,
  CONSTRAINT `c` CHECK (`h` > 0)
) ENGINE=InnoDB DEFAULT CHARSET=latin1 COLLATE=latin1_swedish_ci PAGE_CHECKSUM=1 `PAGE_COMPRESSED`=1 WITH SYSTEM VERSIONING
 PARTITION BY SYSTEM_TIME LIMIT 100 PARTITIONS 3""",
        "t", 10, ("id",), "latin1",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", _DUMPS)
def test_dump_of_a_well_known_schema(name: str) -> None:
    text, table_name, count, key, charset = _DUMPS[name]
    tables: dict[TableId, MySqlTable] = {}
    apply_changes(apply(tables, text, "d", DdlContext(is_mariadb="MariaDB" in name, server_charset="latin1")), tables, {})
    table = tables[TableId("d", table_name)]
    assert (len(table.columns), table.key, table.charset) == (count, key, charset)


def test_details_of_sakila() -> None:
    text = _DUMPS["sakila of MySQL 5.7"][0]
    table = next(c.table for c in apply({}, text, "d") if isinstance(c, TableDdlChange) and c.table)
    rating, updated = table.column("rating"), table.column("last_update")
    assert rating is not None
    assert updated is not None
    assert (rating.enum_values[2], rating.default, rating.charset) == ("PG-13", "G", "utf8")
    assert (updated.default, updated.optional) == ("1970-01-01 00:00:00", False)


def test_text_after_show_create_table_is_the_same_table() -> None:
    text = _DUMPS["magento"][0]
    assert parse_create_table(text, "d") == parse_create_table(text.replace("\n", "  ") + ";", "d")
