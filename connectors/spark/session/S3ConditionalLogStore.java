package sluice.spark;

import io.delta.storage.S3SingleDriverLogStore;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InterruptedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileAlreadyExistsException;
import java.util.Collections;
import java.util.Iterator;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.s3a.S3AFileSystem;
import org.apache.hadoop.fs.s3a.S3AUtils;
import org.apache.hadoop.fs.s3a.impl.PutObjectOptions;
import org.apache.hadoop.fs.store.audit.AuditSpan;
import software.amazon.awssdk.awscore.AwsRequestOverrideConfiguration;
import software.amazon.awssdk.core.RequestOverrideConfiguration;
import software.amazon.awssdk.core.exception.SdkException;
import software.amazon.awssdk.core.exception.SdkServiceException;
import software.amazon.awssdk.core.sync.RequestBody;
import software.amazon.awssdk.services.s3.S3Client;
import software.amazon.awssdk.services.s3.model.HeadObjectRequest;
import software.amazon.awssdk.services.s3.model.PutObjectRequest;

/**
 * Delta's log store for S3, with which any number of JVMs can commit to a table: an entry of the log is created by a conditional
 * PUT (If-None-Match), so of several writers of a version, exactly one succeeds.
 *
 * Delta's own store checks that an entry does not exist and then writes it, which is atomic only inside one JVM. S3A of Hadoop
 * 3.4.1 has no conditional PUT. Janino compiles this class: it knows no lambdas, and erases generic types.
 */
public class S3ConditionalLogStore extends S3SingleDriverLogStore {
    private static final String WRITE_ID = "sluice-write-id";
    private static final int ATTEMPTS = 10;
    private static final long PAUSE_MS = 50;
    private static final int NOT_FOUND = 404;
    private static final int CONFLICT = 409;
    private static final int PRECONDITION_FAILED = 412;

    /** Buckets whose store is known to honor the condition. */
    private static final Set CHECKED = ConcurrentHashMap.newKeySet();

    public S3ConditionalLogStore(Configuration hadoopConf) {
        super(hadoopConf);
    }

    public void write(Path path, Iterator actions, Boolean overwrite, Configuration hadoopConf) throws IOException {
        if (overwrite.booleanValue()) {
            super.write(path, actions, overwrite, hadoopConf);
            return;
        }
        FileSystem files = path.getFileSystem(hadoopConf);
        if (!(files instanceof S3AFileSystem)) {
            throw new IOException(path + " cannot be guarded against other writers: its file system is not S3A but " + files.getClass());
        }
        S3AFileSystem s3a = (S3AFileSystem) files;
        Path entry = s3a.makeQualified(path);
        byte[] content = join(actions);
        AuditSpan span = s3a.createSpan("op_create", entry.toString(), null);
        try {
            span.activate();
            create(s3a, entry, content, UUID.randomUUID().toString());
        } finally {
            span.close();
        }
    }

    private static void create(S3AFileSystem s3a, Path entry, byte[] content, String id) throws IOException {
        String bucket = s3a.getBucket();
        if (!put(s3a, entry, content, id) && !id.equals(readId(s3a, entry))) {
            throw new FileAlreadyExistsException(entry.toString());
        }
        if (!CHECKED.contains(bucket)) {
            // Some S3-compatible stores ignore the condition. Repeating the same content does no harm.
            if (put(s3a, entry, content, id)) {
                throw new IOException(
                    "Delta tables in the bucket " + bucket + " cannot be guarded against two writers of one version, because this "
                    + "object store ignores the condition If-None-Match of a PUT; use another store, or a local directory");
            }
            CHECKED.add(bucket);
        }
    }

    /** Returns whether the entry was created; if not, it exists. The SDK repeats a request whose answer was lost, so it may be ours. */
    private static boolean put(S3AFileSystem s3a, Path entry, byte[] content, String id) throws IOException {
        S3Client client = s3a.getS3AInternals().getAmazonS3Client("conditional PUT");
        PutObjectRequest request = request(s3a, entry, content.length, id);
        SdkException failure = null;
        for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
            try {
                client.putObject(request, RequestBody.fromBytes(content));
                return true;
            } catch (SdkException e) {
                if (status(e) == PRECONDITION_FAILED) {
                    return false;
                }
                failure = e;
            }
            if (status(failure) != CONFLICT) {
                break;
            }
            pause();  // S3 is about to accept another writer's PUT
        }
        if (status(failure) != NOT_FOUND && id.equals(tryReadId(s3a, entry))) {
            return true;
        }
        throw S3AUtils.translateException("conditional PUT", entry, failure);
    }

    private static PutObjectRequest request(S3AFileSystem s3a, Path entry, int length, String id) {
        // With the encryption, access control, and storage class that S3A is configured to use.
        PutObjectRequest.Builder builder = s3a.getRequestFactory()
            .newPutObjectRequestBuilder(s3a.pathToKey(entry), PutObjectOptions.keepingDirs(), (long) length, false);
        AwsRequestOverrideConfiguration given = builder.overrideConfiguration();
        AwsRequestOverrideConfiguration.Builder options = given == null
            ? AwsRequestOverrideConfiguration.builder()
            : (AwsRequestOverrideConfiguration.Builder) ((RequestOverrideConfiguration) given).toBuilder();
        options.putHeader("If-None-Match", "*");
        builder.overrideConfiguration(options.build());
        builder.metadata(Collections.singletonMap(WRITE_ID, id));
        return (PutObjectRequest) builder.build();
    }

    private static String readId(S3AFileSystem s3a, Path entry) throws IOException {
        try {
            S3Client client = s3a.getS3AInternals().getAmazonS3Client("HEAD after a conditional PUT");
            HeadObjectRequest request =
                (HeadObjectRequest) s3a.getRequestFactory().newHeadObjectRequestBuilder(s3a.pathToKey(entry)).build();
            return (String) client.headObject(request).metadata().get(WRITE_ID);
        } catch (SdkException e) {
            throw S3AUtils.translateException("HEAD after a conditional PUT", entry, e);
        }
    }

    private static String tryReadId(S3AFileSystem s3a, Path entry) {
        try {
            return readId(s3a, entry);
        } catch (IOException e) {
            return null;  // the failure of the PUT says more
        }
    }

    private static int status(SdkException e) {
        return e instanceof SdkServiceException ? ((SdkServiceException) e).statusCode() : 0;
    }

    private static void pause() throws IOException {
        try {
            Thread.sleep(PAUSE_MS);
        } catch (InterruptedException e) {
            throw new InterruptedIOException("interrupted between two attempts of a conditional PUT");
        }
    }

    private static byte[] join(Iterator actions) throws IOException {
        ByteArrayOutputStream joined = new ByteArrayOutputStream();
        while (actions.hasNext()) {
            joined.write(((String) actions.next()).getBytes(StandardCharsets.UTF_8));
            joined.write('\n');
        }
        return joined.toByteArray();
    }
}
