import io.debezium.engine.ChangeEvent;
import io.debezium.engine.DebeziumEngine;
import io.debezium.engine.format.Json;
import java.io.FileInputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.nio.file.StandardCopyOption;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicLong;

/**
 * Runs a Debezium connector without Kafka, as an application that embeds it does, and counts its events in JSON.
 *
 * Arguments: the file with the engine's properties, and the file that has the number of events.
 */
public class EngineCounter {
    public static void main(String[] arguments) throws Exception {
        Properties properties = new Properties();
        properties.load(new FileInputStream(arguments[0]));
        final AtomicLong events = new AtomicLong();
        final DebeziumEngine engine = DebeziumEngine.create(Json.class).using(properties).notifying(
            new DebeziumEngine.ChangeConsumer() {
                public void handleBatch(List records, DebeziumEngine.RecordCommitter committer) throws InterruptedException {
                    for (int i = 0; i < records.size(); i++) {
                        if (((ChangeEvent) records.get(i)).value() != null) {
                            events.incrementAndGet();
                        }
                        committer.markProcessed(records.get(i));
                    }
                    committer.markBatchFinished();
                }
            }).build();
        new Thread(engine, "engine").start();
        Path file = Paths.get(arguments[1]);
        Path draft = Paths.get(arguments[1] + ".tmp");
        while (true) {
            Files.write(draft, Long.toString(events.get()).getBytes());
            Files.move(draft, file, StandardCopyOption.ATOMIC_MOVE, StandardCopyOption.REPLACE_EXISTING);
            Thread.sleep(50);
        }
    }
}
