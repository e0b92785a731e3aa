# A worker with Python, a Java runtime for Spark, and Spark's JARs, so that it starts without downloads.
FROM python:3.11-slim-bookworm

RUN apt-get update \
    && apt-get install -y --no-install-recommends openjdk-17-jre-headless tini \
    && rm -rf /var/lib/apt/lists/*

RUN useradd --create-home --uid 10001 sluice
ENV SLUICE_CACHE_DIR=/opt/sluice/cache \
    SLUICE_SPARK_JARS=/opt/sluice/spark-jars \
    PYTHONUNBUFFERED=1
WORKDIR /opt/sluice

# Packages first: they change less often than the code, and their layer is large.
COPY constraints.txt pyproject.toml README.md LICENSE NOTICE ./
RUN mkdir connect connectors worker rest sluice configs \
    && pip install --no-cache-dir --constraint constraints.txt --editable '.[all]'

COPY connect connect
COPY connectors connectors
COPY worker worker
COPY rest rest
COPY sluice sluice
COPY configs configs

# The directory's name contains a digest; the link gives it a fixed name.
RUN python -c "from sluice.embedded import jars; jars.ensure_jars('spark')" \
    && ln -s "$(python -c "from sluice.embedded import jars; print(jars.folder_of(jars.jar_set('spark')))")" "$SLUICE_SPARK_JARS" \
    && mkdir -p /tmp/sluice && chown sluice: /tmp/sluice

# As a number, which Kubernetes needs to know that it is not root.
USER 10001
EXPOSE 8083
# Reaps Spark's JVM, which is a grandchild process.
ENTRYPOINT ["tini", "--"]
CMD ["connect-standalone", "configs/connect-standalone.properties"]
