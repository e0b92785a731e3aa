package sluice.spark;

import java.io.StringWriter;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import org.apache.iceberg.AppendFiles;
import org.apache.iceberg.CachingCatalog;
import org.apache.iceberg.DataFile;
import org.apache.iceberg.DataFiles;
import org.apache.iceberg.DeleteFile;
import org.apache.iceberg.ExpireSnapshots;
import org.apache.iceberg.FileMetadata;
import org.apache.iceberg.FileScanTask;
import org.apache.iceberg.HasTableOperations;
import org.apache.iceberg.Metrics;
import org.apache.iceberg.MetricsConfig;
import org.apache.iceberg.OverwriteFiles;
import org.apache.iceberg.PartitionData;
import org.apache.iceberg.PartitionSpec;
import org.apache.iceberg.PartitionSpecParser;
import org.apache.iceberg.RewriteFiles;
import org.apache.iceberg.RowDelta;
import org.apache.iceberg.Schema;
import org.apache.iceberg.SchemaParser;
import org.apache.iceberg.Snapshot;
import org.apache.iceberg.SnapshotAncestryValidator;
import org.apache.iceberg.SnapshotRef;
import org.apache.iceberg.SnapshotUpdate;
import org.apache.iceberg.StructLike;
import org.apache.iceberg.Table;
import org.apache.iceberg.TableOperations;
import org.apache.iceberg.TableUtil;
import org.apache.iceberg.UpdateProperties;
import org.apache.iceberg.UpdateSchema;
import org.apache.iceberg.catalog.Catalog;
import org.apache.iceberg.catalog.Namespace;
import org.apache.iceberg.catalog.SupportsNamespaces;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.exceptions.AlreadyExistsException;
import org.apache.iceberg.exceptions.CommitFailedException;
import org.apache.iceberg.exceptions.CommitStateUnknownException;
import org.apache.iceberg.exceptions.ForbiddenException;
import org.apache.iceberg.exceptions.NoSuchNamespaceException;
import org.apache.iceberg.exceptions.NoSuchTableException;
import org.apache.iceberg.exceptions.NotFoundException;
import org.apache.iceberg.exceptions.ValidationException;
import org.apache.iceberg.expressions.Expressions;
import org.apache.iceberg.hadoop.HadoopTables;
import org.apache.iceberg.io.CloseableIterable;
import org.apache.iceberg.parquet.ParquetUtil;
import org.apache.iceberg.shaded.com.fasterxml.jackson.core.JsonFactory;
import org.apache.iceberg.shaded.com.fasterxml.jackson.core.JsonGenerator;
import org.apache.iceberg.shaded.com.fasterxml.jackson.databind.JsonNode;
import org.apache.iceberg.shaded.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.iceberg.spark.Spark3Util;
import org.apache.iceberg.types.Conversions;
import org.apache.iceberg.types.Type;
import org.apache.iceberg.types.Types;
import org.apache.iceberg.util.ByteBuffers;
import org.apache.spark.sql.SparkSession;

/**
 * What the sink asks of Iceberg, with few calls: each takes and returns JSON. For Janino, so without lambdas and with casts
 * instead of generics.
 */
public class IcebergTables {
  /** The summary of each snapshot of the sink has properties with this prefix. */
  private static final String OFFSETS = "sluice.offsets.";

  private static final String COMMIT = "sluice.commit";

  private static final ObjectMapper MAPPER = new ObjectMapper();

  private IcebergTables() {}

  /** The catalog of this name in the settings of the session. */
  public static Catalog catalog(SparkSession spark, String name) {
    // Catalogs read their properties from the session of the current thread.
    org.apache.spark.sql.classic.SparkSession.setActiveSession((org.apache.spark.sql.classic.SparkSession) spark);
    return Spark3Util.loadIcebergCatalog(spark, name);
  }

  /** The table of a catalog, or without one at a location; null if it does not exist. */
  public static Table load(SparkSession spark, Catalog catalog, List namespace, String nameOrLocation) {
    try {
      if (catalog == null) {
        return hadoopTables(spark).load(nameOrLocation);
      }
      return catalog.loadTable(identifier(namespace, nameOrLocation));
    } catch (NoSuchTableException e) {
      return null;
    }
  }

  /** Creates a table, and the namespaces that it lacks. Does nothing if the table exists. */
  public static void create(
      SparkSession spark, Catalog catalog, List namespace, String nameOrLocation, String schema, String spec, Map properties)
      throws Exception {
    Schema columns = SchemaParser.fromJson(schema);
    PartitionSpec partitions = PartitionSpecParser.fromJson(columns, spec);
    try {
      if (catalog == null) {
        hadoopTables(spark).create(columns, partitions, properties, nameOrLocation);
        return;
      }
      if (unwrapped(catalog) instanceof SupportsNamespaces) {
        createNamespaces((SupportsNamespaces) unwrapped(catalog), namespace);
      }
      catalog.createTable(identifier(namespace, nameOrLocation), columns, partitions, properties);
    } catch (AlreadyExistsException e) {
      if (load(spark, catalog, namespace, nameOrLocation) == null) {
        // Iceberg says that, too, when the catalog refuses the commit, for example because it does not lock the table.
        throw new CommitFailedException(
            "the catalog reports that another writer has created the table, but does not have it", new Object[0]);
      }
    }
  }

  private static void createNamespaces(SupportsNamespaces catalog, List namespace) {
    for (int depth = 1; depth <= namespace.size(); depth++) {
      Namespace level = Namespace.of((String[]) namespace.subList(0, depth).toArray(new String[0]));
      if (!catalog.namespaceExists(level)) {
        try {
          catalog.createNamespace(level);
        } catch (AlreadyExistsException e) {
          continue;
        } catch (ForbiddenException e) {
          throw new ForbiddenException(
              "the namespace %s does not exist, and the catalog refuses to create it (%s): create it, or give the sink the right to",
              new Object[] {level, e.getMessage()});
        }
      }
    }
  }

  private static HadoopTables hadoopTables(SparkSession spark) {
    return new HadoopTables(
        ((org.apache.spark.sql.classic.SparkSession) spark).sessionState().newHadoopConf());
  }

  private static TableIdentifier identifier(List namespace, String name) {
    return TableIdentifier.of(Namespace.of((String[]) namespace.toArray(new String[0])), name);
  }

  /** The tables of a namespace and of those below it, by their names relative to it. */
  public static String tableNames(Catalog catalog, List namespace) throws Exception {
    List found = new ArrayList();
    collectNames(catalog, Namespace.of((String[]) namespace.toArray(new String[0])), "", found);
    return MAPPER.writeValueAsString(found);
  }

  private static void collectNames(Catalog catalog, Namespace namespace, String prefix, List found) throws Exception {
    try {
      for (Iterator i = catalog.listTables(namespace).iterator(); i.hasNext(); ) {
        found.add(prefix + ((TableIdentifier) i.next()).name());
      }
    } catch (NoSuchNamespaceException e) {
      return;
    } catch (RuntimeException e) {
      // Many catalogs have tables only in namespaces.
      if (!namespace.isEmpty()) {
        throw e;
      }
    }
    if (unwrapped(catalog) instanceof SupportsNamespaces) {
      for (Iterator i = namespacesIn((SupportsNamespaces) unwrapped(catalog), namespace).iterator(); i.hasNext(); ) {
        Namespace below = (Namespace) i.next();
        collectNames(catalog, below, prefix + below.level(below.length() - 1) + ".", found);
      }
    }
  }

  /** The namespaces directly in another; none if that does not exist, as the root of a Hadoop catalog that is still empty. */
  private static List namespacesIn(SupportsNamespaces catalog, Namespace namespace) {
    try {
      return catalog.listNamespaces(namespace);
    } catch (NoSuchNamespaceException e) {
      return new ArrayList();
    }
  }

  /** The newest snapshot of a branch; that of main if there is no such branch yet, since it will begin there. */
  private static Snapshot newest(Table table, String branch) {
    SnapshotRef ref = (SnapshotRef) table.refs().get(branch);
    if (ref != null && !ref.isBranch()) {
      throw new IllegalArgumentException(branch + " is a tag of the table, and rows can be written to a branch only");
    }
    return ref == null ? table.currentSnapshot() : table.snapshot(ref.snapshotId());
  }

  /** The newest state of a branch, without its files. */
  public static String read(Table table, String branch) throws Exception {
    table.refresh();
    StringWriter text = new StringWriter();
    JsonGenerator json = new JsonFactory().createGenerator(text);
    json.writeStartObject();
    json.writeStringField("uuid", String.valueOf(table.uuid()));
    json.writeStringField("location", table.location());
    json.writeNumberField("format", TableUtil.formatVersion(table));
    json.writeFieldName("schema");
    json.writeRawValue(SchemaParser.toJson(table.schema()));
    json.writeFieldName("spec");
    json.writeRawValue(PartitionSpecParser.toJson(table.spec()));
    json.writeArrayFieldStart("specs");
    for (Iterator i = table.specs().values().iterator(); i.hasNext(); ) {
      json.writeRawValue(PartitionSpecParser.toJson((PartitionSpec) i.next()));
    }
    json.writeEndArray();
    json.writeStringField("data", table.locationProvider().newDataLocation("x"));
    json.writeObjectFieldStart("properties");
    for (Iterator i = table.properties().entrySet().iterator(); i.hasNext(); ) {
      Map.Entry entry = (Map.Entry) i.next();
      json.writeStringField((String) entry.getKey(), (String) entry.getValue());
    }
    json.writeEndObject();
    Snapshot current = newest(table, branch);
    if (current != null) {
      json.writeNumberField("snapshot", current.snapshotId());
      json.writeNumberField("sequence", current.sequenceNumber());
    }
    json.writeEndObject();
    json.close();
    return text.toString();
  }

  /**
   * Snapshots from the newest one of a branch back to its ancestor `since`, which is left out, or to the newest one with offsets if
   * `since` is 0 or no ancestor. `end` says why the list ended: since, offsets, root, or lost (an ancestor has expired).
   */
  public static String history(Table table, String branch, long since) throws Exception {
    StringWriter text = new StringWriter();
    JsonGenerator json = new JsonFactory().createGenerator(text);
    json.writeStartObject();
    json.writeArrayFieldStart("snapshots");
    boolean passes = since != 0 && isAncestor(table, branch, since);
    String end = "root";
    Snapshot at = newest(table, branch);
    while (at != null) {
      if (passes && at.snapshotId() == since) {
        end = "since";
        break;
      }
      json.writeStartObject();
      json.writeNumberField("id", at.snapshotId());
      json.writeStringField("operation", String.valueOf(at.operation()));
      json.writeObjectFieldStart("summary");
      for (Iterator i = summary(at).entrySet().iterator(); i.hasNext(); ) {
        Map.Entry entry = (Map.Entry) i.next();
        json.writeStringField((String) entry.getKey(), (String) entry.getValue());
      }
      json.writeEndObject();
      json.writeEndObject();
      if (!passes && hasOffsets(at)) {
        end = "offsets";
        break;
      }
      if (at.parentId() != null && table.snapshot(at.parentId().longValue()) == null) {
        end = "lost";
      }
      at = at.parentId() == null ? null : table.snapshot(at.parentId().longValue());
    }
    json.writeEndArray();
    json.writeStringField("end", end);
    json.writeEndObject();
    json.close();
    return text.toString();
  }

  private static boolean isAncestor(Table table, String branch, long id) {
    Snapshot at = newest(table, branch);
    while (at != null && at.snapshotId() != id) {
      at = at.parentId() == null ? null : table.snapshot(at.parentId().longValue());
    }
    return at != null;
  }

  private static boolean hasOffsets(Snapshot snapshot) {
    for (Iterator i = summary(snapshot).keySet().iterator(); i.hasNext(); ) {
      if (((String) i.next()).startsWith(OFFSETS)) {
        return true;
      }
    }
    return false;
  }

  /** Whether another writer has replaced all rows, as effect_of in offsets.py says. */
  private static boolean replacesRows(Snapshot snapshot) {
    Map summary = summary(snapshot);
    Object added = summary.get("added-data-files");
    return "true".equals(summary.get("replace-partitions"))
        && (added == null ? "0" : added).equals(summary.get("total-data-files"))
        && summary.get(COMMIT) == null;
  }

  /** The data files of a snapshot, with their delete files. */
  public static String files(Table table, long snapshot) throws Exception {
    StringWriter text = new StringWriter();
    JsonGenerator json = new JsonFactory().createGenerator(text);
    json.writeStartArray();
    CloseableIterable tasks = table.newScan().useSnapshot(snapshot).planFiles();
    try {
      for (Iterator i = tasks.iterator(); i.hasNext(); ) {
        FileScanTask task = (FileScanTask) i.next();
        json.writeStartObject();
        writeData(json, table, (DataFile) task.file());
        json.writeArrayFieldStart("deletes");
        for (Iterator d = task.deletes().iterator(); d.hasNext(); ) {
          json.writeStartObject();
          writeDelete(json, table, (DeleteFile) d.next());
          json.writeEndObject();
        }
        json.writeEndArray();
        json.writeEndObject();
      }
    } finally {
      tasks.close();
    }
    json.writeEndArray();
    json.close();
    return text.toString();
  }

  /** What a snapshot added and removed. */
  public static String changes(Table table, long id) throws Exception {
    Snapshot snapshot = table.snapshot(id);
    StringWriter text = new StringWriter();
    JsonGenerator json = new JsonFactory().createGenerator(text);
    json.writeStartObject();
    json.writeArrayFieldStart("added");
    for (Iterator i = snapshot.addedDataFiles(table.io()).iterator(); i.hasNext(); ) {
      json.writeStartObject();
      writeData(json, table, (DataFile) i.next());
      json.writeEndObject();
    }
    json.writeEndArray();
    json.writeArrayFieldStart("removed");
    for (Iterator i = snapshot.removedDataFiles(table.io()).iterator(); i.hasNext(); ) {
      json.writeString(((DataFile) i.next()).location());
    }
    json.writeEndArray();
    json.writeArrayFieldStart("deletes");
    for (Iterator i = snapshot.addedDeleteFiles(table.io()).iterator(); i.hasNext(); ) {
      json.writeStartObject();
      writeDelete(json, table, (DeleteFile) i.next());
      json.writeEndObject();
    }
    json.writeEndArray();
    json.writeArrayFieldStart("undeleted");
    for (Iterator i = snapshot.removedDeleteFiles(table.io()).iterator(); i.hasNext(); ) {
      json.writeString(String.valueOf(((DeleteFile) i.next()).referencedDataFile()));
    }
    json.writeEndArray();
    json.writeEndObject();
    json.close();
    return text.toString();
  }

  private static void writeData(JsonGenerator json, Table table, DataFile file) throws Exception {
    json.writeStringField("path", file.location());
    json.writeStringField("format", file.format().name());
    json.writeNumberField("size", file.fileSizeInBytes());
    json.writeNumberField("rows", file.recordCount());
    writePartition(json, table, file.specId(), file.partition());
    if (file.firstRowId() != null) {
      json.writeNumberField("first_row", file.firstRowId().longValue());
    }
    if (file.dataSequenceNumber() != null) {
      json.writeNumberField("sequence", file.dataSequenceNumber().longValue());
    }
  }

  private static void writeDelete(JsonGenerator json, Table table, DeleteFile file) throws Exception {
    json.writeStringField("path", file.location());
    json.writeStringField("content", file.content().name());
    json.writeStringField("format", file.format().name());
    json.writeNumberField("size", file.fileSizeInBytes());
    json.writeNumberField("rows", file.recordCount());
    writePartition(json, table, file.specId(), file.partition());
    if (file.referencedDataFile() != null) {
      json.writeStringField("of", file.referencedDataFile());
    }
    if (file.contentOffset() != null) {
      json.writeNumberField("offset", file.contentOffset().longValue());
      json.writeNumberField("length", file.contentSizeInBytes().longValue());
    }
  }

  private static void writePartition(JsonGenerator json, Table table, int id, StructLike partition) throws Exception {
    PartitionSpec spec = (PartitionSpec) table.specs().get(Integer.valueOf(id));
    json.writeNumberField("spec", id);
    json.writeArrayFieldStart("partition");
    List fields = spec.partitionType().fields();
    for (int i = 0; i < fields.size(); i++) {
      Type type = ((Types.NestedField) fields.get(i)).type();
      Object value = partition.get(i, type.typeId().javaClass());
      if (value == null) {
        json.writeNull();
      } else {
        json.writeString(HexFormat.of().formatHex(ByteBuffers.toByteArray(Conversions.toByteBuffer(type, value))));
      }
    }
    json.writeEndArray();
  }

  private static PartitionData partition(PartitionSpec spec, JsonNode values) {
    PartitionData data = new PartitionData(spec.partitionType());
    List fields = spec.partitionType().fields();
    for (int i = 0; i < fields.size(); i++) {
      JsonNode value = at(values, i);
      Type type = ((Types.NestedField) fields.get(i)).type();
      data.set(i, value == null || value.isNull() ? null : value(type, value.asText()));
    }
    return data;
  }

  /** The value of its binary form, in hexadecimal. */
  private static Object value(Type type, String hex) {
    Object value = Conversions.fromByteBuffer(type, ByteBuffer.wrap(HexFormat.of().parseHex(hex)));
    return value instanceof CharSequence ? value.toString() : value;
  }

  private static JsonNode at(JsonNode object, String name) {
    return (JsonNode) object.get(name);
  }

  private static JsonNode at(JsonNode array, int index) {
    return (JsonNode) array.get(index);
  }

  private static PartitionSpec spec(Table table, JsonNode file) {
    return (PartitionSpec) table.specs().get(Integer.valueOf(at(file, "spec").asInt()));
  }

  private static DataFile data(Table table, JsonNode file, boolean isNew) {
    PartitionSpec spec = spec(table, file);
    DataFiles.Builder builder = DataFiles.builder(spec).withPath(at(file, "path").asText()).withFormat(at(file, "format").asText());
    builder.withFileSizeInBytes(at(file, "size").asLong()).withRecordCount(at(file, "rows").asLong());
    if (spec.isPartitioned()) {
      builder.withPartition(partition(spec, at(file, "partition")));
    }
    if (isNew) {
      Metrics metrics =
          ParquetUtil.fileMetrics(table.io().newInputFile(at(file, "path").asText()), MetricsConfig.forTable(table));
      builder.withMetrics(metrics);
    }
    return builder.build();
  }

  private static DeleteFile delete(Table table, JsonNode file) {
    PartitionSpec spec = spec(table, file);
    FileMetadata.Builder builder = FileMetadata.deleteFileBuilder(spec).ofPositionDeletes();
    builder.withPath(at(file, "path").asText()).withFormat(at(file, "format").asText());
    builder.withFileSizeInBytes(at(file, "size").asLong()).withRecordCount(at(file, "rows").asLong());
    if (spec.isPartitioned()) {
      builder.withPartition(partition(spec, at(file, "partition")));
    }
    if (file.has("of")) {
      builder.withReferencedDataFile(at(file, "of").asText());
    }
    if (file.has("offset")) {
      builder.withContentOffset(at(file, "offset").asLong()).withContentSizeInBytes(at(file, "length").asLong());
    }
    return builder.build();
  }

  /**
   * Commits a change to a branch; returns the ID of its snapshot, a conflict, or why the catalog did not lock the table: then
   * nothing was committed. Everything else that fails is thrown, and it is not known whether there was a commit.
   */
  public static String commit(Table table, String branch, String request) throws Exception {
    JsonNode change = (JsonNode) MAPPER.readTree(request);
    Leftovers leftovers = new Leftovers();
    try {
      update(table, branch, change, leftovers).commit();
    } catch (ValidationException e) {
      return refused(table, branch, change, leftovers, "conflict", e);
    } catch (CommitFailedException e) {
      return refused(table, branch, change, leftovers, isLockFailure(e) ? "unlocked" : "conflict", e);
    } catch (IllegalArgumentException e) {
      return refusedWithoutBase(table, branch, change, leftovers, e);
    } catch (NotFoundException e) {
      return refusedWithoutBase(table, branch, change, leftovers, e);
    }
    leftovers.delete(table);
    return answer(own(table, change));
  }

  /**
   * Answers as refused does if the snapshot that the change is based on has expired since: then Iceberg refuses it as an argument,
   * or misses the manifests of those that came next. Otherwise throws the error.
   */
  private static String refusedWithoutBase(Table table, String branch, JsonNode change, Leftovers leftovers, RuntimeException e)
      throws Exception {
    table.refresh();
    long base = at(change, "base").asLong();
    if (base == 0 || isAncestor(table, branch, base)) {
      throw e;
    }
    return refused(table, branch, change, leftovers, "conflict", e);
  }

  /**
   * Answers why nothing was committed, if that is certain. A client that got no answer repeats its request, and meets its own
   * commit, which it takes for that of another writer: then answers with the snapshot. Throws when that cannot be found out.
   */
  private static String refused(
      Table table, String branch, JsonNode change, Leftovers leftovers, String answer, RuntimeException e) throws Exception {
    table.refresh();
    Snapshot own = own(table, change);
    if (own != null) {
      return answer(own);
    }
    if (!hasAllSince(table, branch, at(change, "base").asLong())) {
      throw new CommitStateUnknownException(e);
    }
    leftovers.delete(table);
    return answer(answer, e);
  }

  /** The snapshot that a change has made; null if there is none. */
  private static Snapshot own(Table table, JsonNode change) {
    String id = at(at(change, "summary"), COMMIT).asText();
    for (Iterator i = table.snapshots().iterator(); i.hasNext(); ) {
      Snapshot at = (Snapshot) i.next();
      if (id.equals(summary(at).get(COMMIT))) {
        return at;
      }
    }
    return null;
  }

  /** Whether no snapshot that a branch has got since another one (0: since it was empty) has expired. */
  private static boolean hasAllSince(Table table, String branch, long base) {
    Snapshot at = newest(table, branch);
    while (at != null && at.snapshotId() != base && at.parentId() != null && at.parentId().longValue() != base) {
      at = table.snapshot(at.parentId().longValue());
      if (at == null) {
        return false;
      }
    }
    return true;
  }

  /** Properties of a snapshot; none for one of a writer that makes no summaries. */
  private static Map summary(Snapshot snapshot) {
    Map found = snapshot.summary();
    return found == null ? new HashMap() : found;
  }

  /** The update of a branch that commits a change. */
  private static SnapshotUpdate update(Table table, String branch, JsonNode change, Leftovers leftovers) {
    SnapshotUpdate update = prepare(table, change);
    update.deleteWith(leftovers);
    for (Iterator i = at(change, "summary").fields(); i.hasNext(); ) {
      Map.Entry entry = (Map.Entry) i.next();
      update.set((String) entry.getKey(), ((JsonNode) entry.getValue()).asText());
    }
    update.toBranch(branch);
    return (SnapshotUpdate) update.validateWith(
        new UnmovedOffsets(((HasTableOperations) table).operations(), change));
  }

  /** The catalog behind Spark's cache of tables, which hides what else it can do. */
  private static Catalog unwrapped(Catalog catalog) throws Exception {
    if (!(catalog instanceof CachingCatalog)) {
      return catalog;
    }
    java.lang.reflect.Field field = CachingCatalog.class.getDeclaredField("catalog");
    field.setAccessible(true);
    return (Catalog) field.get(catalog);
  }

  /** Whether a Hive metastore has not locked the table. The class is not public. */
  private static boolean isLockFailure(CommitFailedException e) {
    return e.getCause() != null && e.getCause().getClass().getSimpleName().equals("LockException");
  }

  private static String answer(String name, Exception e) throws Exception {
    Map answer = new HashMap();
    answer.put(name, String.valueOf(e.getMessage()));
    return MAPPER.writeValueAsString(answer);
  }

  private static String answer(Snapshot at) throws Exception {
    if (at == null) {
      throw new IllegalStateException("the snapshot of the commit has disappeared");
    }
    Map answer = new HashMap();
    answer.put("snapshot", Long.valueOf(at.snapshotId()));
    answer.put("parent", at.parentId());
    answer.put("sequence", Long.valueOf(at.sequenceNumber()));
    answer.put("summary", at.summary());
    return MAPPER.writeValueAsString(answer);
  }

  private static SnapshotUpdate prepare(Table table, JsonNode change) {
    String kind = at(change, "kind").asText();
    JsonNode added = at(change, "add"), removed = at(change, "remove");
    JsonNode vectors = at(change, "add_vectors"), oldVectors = at(change, "remove_vectors");
    if (kind.equals("append")) {
      AppendFiles append = table.newAppend();
      for (int i = 0; i < added.size(); i++) {
        append.appendFile(data(table, at(added, i), true));
      }
      return append;
    }
    long base = at(change, "base").asLong();
    if (kind.equals("overwrite")) {
      OverwriteFiles overwrite = table.newOverwrite().conflictDetectionFilter(Expressions.alwaysTrue());
      for (int i = 0; i < removed.size(); i++) {
        overwrite.deleteFile(data(table, at(removed, i), false));
      }
      for (int i = 0; i < added.size(); i++) {
        overwrite.addFile(data(table, at(added, i), true));
      }
      if (base != 0) {
        overwrite.validateFromSnapshot(base);
      }
      return overwrite.validateNoConflictingData().validateNoConflictingDeletes();
    }
    if (kind.equals("rewrite")) {
      RewriteFiles rewrite = table.newRewrite().validateFromSnapshot(base);
      for (int i = 0; i < removed.size(); i++) {
        rewrite.deleteFile(data(table, at(removed, i), false));
      }
      for (int i = 0; i < oldVectors.size(); i++) {
        rewrite.deleteFile(delete(table, at(oldVectors, i)));
      }
      for (int i = 0; i < added.size(); i++) {
        rewrite.addFile(data(table, at(added, i), true));
      }
      for (int i = 0; i < vectors.size(); i++) {
        rewrite.addFile(delete(table, at(vectors, i)));
      }
      return rewrite;
    }
    RowDelta delta = table.newRowDelta().conflictDetectionFilter(Expressions.alwaysTrue());
    for (int i = 0; i < added.size(); i++) {
      delta.addRows(data(table, at(added, i), true));
    }
    for (int i = 0; i < removed.size(); i++) {
      delta.removeRows(data(table, at(removed, i), false));
    }
    // A vector for a file that somebody has rewritten meanwhile would delete nothing.
    List<CharSequence> files = new ArrayList<>();
    for (int i = 0; i < vectors.size(); i++) {
      DeleteFile vector = delete(table, at(vectors, i));
      delta.addDeletes(vector);
      if (vector.referencedDataFile() != null) {
        files.add(vector.referencedDataFile());
      }
    }
    delta.validateDataFilesExist(files);
    for (int i = 0; i < oldVectors.size(); i++) {
      delta.removeDeletes(delete(table, at(oldVectors, i)));
    }
    if (base != 0) {
      delta.validateFromSnapshot(base);
    }
    return delta.validateDeletedFiles().validateNoConflictingDataFiles().validateNoConflictingDeleteFiles();
  }

  /**
   * Manifests and manifest lists that a commit has written and Iceberg would delete: after a refusal, also those of an attempt
   * that got no answer. They are deleted once it is certain that no snapshot has them.
   */
  private static class Leftovers implements java.util.function.Consumer {
    private final List paths = new ArrayList();

    public synchronized void accept(Object path) {
      this.paths.add(path);
    }

    public void delete(Table table) {
      for (Iterator i = this.paths.iterator(); i.hasNext(); ) {
        try {
          table.io().deleteFile((String) i.next());
        } catch (RuntimeException e) {
          continue; // remove_orphan_files finds it
        }
      }
    }
  }

  /**
   * Refuses a commit if the offsets in the table are not those of the expected snapshot (0: none), if somebody has replaced the
   * rows since the snapshot on which the change is based, or if the files have other columns: rows would have the defaults of
   * columns that were added since.
   */
  private static class UnmovedOffsets implements SnapshotAncestryValidator {
    private final TableOperations operations;
    private final long base;
    private final long expected;
    private final int schema;

    UnmovedOffsets(TableOperations operations, JsonNode change) {
      this.operations = operations;
      this.base = at(change, "base").asLong();
      this.expected = at(change, "expected").asLong();
      this.schema = at(change, "schema").asInt();
    }

    public Boolean apply(Iterable snapshots) {
      return Boolean.valueOf(validate(snapshots));
    }

    public boolean validate(Iterable snapshots) {
      if (this.operations.current().currentSchemaId() != this.schema) {
        return false;
      }
      for (Iterator i = snapshots.iterator(); i.hasNext(); ) {
        Snapshot at = (Snapshot) i.next();
        if (at.snapshotId() == this.base || at.snapshotId() == this.expected) {
          return true;
        }
        if (replacesRows(at) || hasOffsets(at)) {
          return false;
        }
      }
      return this.expected == 0;
    }

    public String errorMessage() {
      return "another task has committed offsets, or somebody has replaced the rows or changed the columns";
    }
  }

  /** Adds the columns of a schema that the table lacks, by their names. */
  public static void addColumns(Table table, String schema) {
    table.refresh();
    table.updateSchema().unionByNameWith(SchemaParser.fromJson(schema)).commit();
  }

  /** Gives columns (by path) other primitive types. */
  public static void changeTypes(Table table, Map types) {
    table.refresh();
    UpdateSchema update = table.updateSchema();
    for (Iterator i = types.entrySet().iterator(); i.hasNext(); ) {
      Map.Entry entry = (Map.Entry) i.next();
      update.updateColumn((String) entry.getKey(), Types.fromPrimitiveString((String) entry.getValue()));
    }
    update.commit();
  }

  public static void setProperty(Table table, String name, String value) {
    table.refresh();
    UpdateProperties update = table.updateProperties().set(name, value);
    update.commit();
  }

  public static void removeProperty(Table table, String name) {
    table.refresh();
    table.updateProperties().remove(name).commit();
  }

  /** The number of snapshots, that of snapshots from before a time to which no branch or tag points, and the oldest time of these. */
  public static String countSnapshots(Table table, long before) throws Exception {
    Map referenced = new HashMap();
    for (Iterator i = table.refs().values().iterator(); i.hasNext(); ) {
      referenced.put(Long.valueOf(((SnapshotRef) i.next()).snapshotId()), "");
    }
    long count = 0, old = 0, oldest = before;
    for (Iterator i = table.snapshots().iterator(); i.hasNext(); ) {
      Snapshot at = (Snapshot) i.next();
      count++;
      if (at.timestampMillis() < before && !referenced.containsKey(Long.valueOf(at.snapshotId()))) {
        old++;
        oldest = Math.min(oldest, at.timestampMillis());
      }
    }
    Map answer = new HashMap();
    answer.put("count", Long.valueOf(count));
    answer.put("old", Long.valueOf(old));
    answer.put("oldest", Long.valueOf(oldest));
    return MAPPER.writeValueAsString(answer);
  }

  /** Removes snapshots that are older than the table keeps them, and their files. */
  public static void expire(Table table) {
    table.refresh();
    ExpireSnapshots expire = table.expireSnapshots().cleanExpiredFiles(true);
    expire.commit();
  }
}
