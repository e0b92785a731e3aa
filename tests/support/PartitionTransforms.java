package sluice.tests;

import java.nio.ByteBuffer;
import java.util.HexFormat;
import java.util.List;
import java.util.function.Function;
import org.apache.iceberg.PartitionField;
import org.apache.iceberg.PartitionSpec;
import org.apache.iceberg.PartitionSpecParser;
import org.apache.iceberg.Schema;
import org.apache.iceberg.SchemaParser;
import org.apache.iceberg.shaded.com.fasterxml.jackson.databind.JsonNode;
import org.apache.iceberg.shaded.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.iceberg.types.Conversions;
import org.apache.iceberg.types.Type;
import org.apache.iceberg.util.ByteBuffers;

/** Iceberg's own partition transforms. For Janino, so without lambdas and with casts instead of generics. */
public class PartitionTransforms {
  private static final ObjectMapper MAPPER = new ObjectMapper();

  private PartitionTransforms() {}

  /** By value of a column, the values of a spec's fields; all in their binary form, in hexadecimal. */
  public static String apply(String schemaJson, String specJson, String values) throws Exception {
    Schema schema = SchemaParser.fromJson(schemaJson);
    PartitionSpec spec = PartitionSpecParser.fromJson(schema, specJson);
    JsonNode column = (JsonNode) MAPPER.readTree(values);
    List fields = spec.fields();
    String[][] found = new String[column.size()][fields.size()];
    for (int f = 0; f < fields.size(); f++) {
      PartitionField field = (PartitionField) fields.get(f);
      Type source = schema.findType(field.sourceId());
      Type result = field.transform().getResultType(source);
      Function transform = (Function) field.transform().bind(source);
      for (int i = 0; i < column.size(); i++) {
        JsonNode node = (JsonNode) column.get(i);
        Object value = node.isNull() ? null : read(source, node.asText());
        Object transformed = transform.apply(value);
        found[i][f] = transformed == null ? null : write(result, transformed);
      }
    }
    return MAPPER.writeValueAsString(found);
  }

  private static Object read(Type type, String hex) {
    Object value = Conversions.fromByteBuffer(type, ByteBuffer.wrap(HexFormat.of().parseHex(hex)));
    return value instanceof CharSequence ? value.toString() : value;
  }

  private static String write(Type type, Object value) {
    return HexFormat.of().formatHex(ByteBuffers.toByteArray(Conversions.toByteBuffer(type, value)));
  }
}
