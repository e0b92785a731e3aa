import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.admin.AdminClientConfig;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.config.ConfigDef;

/**
 * Writes worker/validation/client_keys.jsonl: the settings of Kafka's clients, one line each, as the clients themselves define them.
 * Run it with the jars of the embedded broker when these are of a new version:
 *
 *     java -cp "$HOME/.cache/sluice/jars/kafka-&lt;digest&gt;/*" scripts/ClientKeys.java > worker/validation/client_keys.jsonl
 */
public class ClientKeys {
    public static void main(String[] args) throws Exception {
        Map<String, ConfigDef> tables = new LinkedHashMap<>();
        tables.put("producer", ProducerConfig.configDef());
        tables.put("consumer", ConsumerConfig.configDef());
        tables.put("admin", AdminClientConfig.configDef());
        Map<Map<String, Object>, List<String>> clientsByKey = new LinkedHashMap<>();
        tables.forEach((client, table) -> {
            for (ConfigDef.ConfigKey key : table.configKeys().values())
                clientsByKey.computeIfAbsent(membersOf(key), k -> new ArrayList<>()).add(client);
        });
        ObjectMapper json = new ObjectMapper();
        for (Map.Entry<Map<String, Object>, List<String>> entry : clientsByKey.entrySet()) {
            Map<String, Object> line = new LinkedHashMap<>(entry.getKey());
            line.put("clients", entry.getValue());
            System.out.println(json.writeValueAsString(line));
        }
    }

    private static Map<String, Object> membersOf(ConfigDef.ConfigKey key) {
        Map<String, Object> members = new LinkedHashMap<>();
        members.put("name", key.name);
        members.put("type", key.type.name());
        members.put("required", !key.hasDefault());
        members.put("default", key.hasDefault() ? ConfigDef.convertToString(key.defaultValue, key.type) : null);
        members.put("importance", key.importance.name());
        members.put("group", key.group);
        members.put("doc", key.documentation);
        return members;
    }
}
