/** Hive's metastore. Its database gets the transaction tables first, which schematool creates elsewhere. */
public final class MetastoreWithLocks {
  public static void main(String[] arguments) throws Throwable {
    org.apache.hadoop.hive.metastore.txn.TxnDbUtil.prepDb(new org.apache.hadoop.hive.conf.HiveConf());
    org.apache.hadoop.hive.metastore.HiveMetaStore.main(arguments);
  }
}
