"""The JARs of Apache Kafka Connect, for tests only: the product does not need them.

Resolved once from connect-runtime, connect-file, connect-basic-auth-extension and connect-test-plugins (the verifiable and mock
connectors, whose throttle is in kafka-server-common), with Log4j for the worker's log as in the distribution.
"""

from __future__ import annotations

from sluice.embedded.jar_sets import Jar, JarSet

_COORDINATES = """
    org.apache.kafka:connect-api:4.3.1
    org.apache.kafka:connect-basic-auth-extension:4.3.1
    org.apache.kafka:connect-file:4.3.1
    org.apache.kafka:connect-json:4.3.1
    org.apache.kafka:connect-runtime:4.3.1
    org.apache.kafka:connect-test-plugins:4.3.1
    org.apache.kafka:connect-transforms:4.3.1
    org.apache.kafka:kafka-clients:4.3.1
    org.apache.kafka:kafka-server-common:4.3.1
    at.yawk.lz4:lz4-java:1.10.2
    com.fasterxml.jackson.core:jackson-annotations:2.21
    com.fasterxml.jackson.core:jackson-core:2.21.2
    com.fasterxml.jackson.core:jackson-databind:2.21.2
    com.fasterxml.jackson.datatype:jackson-datatype-jdk8:2.21.2
    com.fasterxml.jackson.jakarta.rs:jackson-jakarta-rs-base:2.21.2
    com.fasterxml.jackson.jakarta.rs:jackson-jakarta-rs-json-provider:2.21.2
    com.fasterxml.jackson.module:jackson-module-blackbird:2.21.2
    com.fasterxml.jackson.module:jackson-module-jakarta-xmlbind-annotations:2.21.2
    com.github.luben:zstd-jni:1.5.6-10
    com.sun.activation:jakarta.activation:2.0.1
    io.github.classgraph:classgraph:4.8.179
    io.swagger.core.v3:swagger-annotations:2.2.39
    jakarta.activation:jakarta.activation-api:2.1.0
    jakarta.annotation:jakarta.annotation-api:2.1.1
    jakarta.inject:jakarta.inject-api:2.0.1
    jakarta.servlet:jakarta.servlet-api:6.0.0
    jakarta.validation:jakarta.validation-api:3.0.2
    jakarta.ws.rs:jakarta.ws.rs-api:3.1.0
    jakarta.xml.bind:jakarta.xml.bind-api:3.0.1
    javax.activation:activation:1.1.1
    javax.activation:javax.activation-api:1.2.0
    javax.annotation:javax.annotation-api:1.3.2
    javax.xml.bind:jaxb-api:2.3.1
    org.apache.logging.log4j:log4j-api:2.25.4
    org.apache.logging.log4j:log4j-core:2.25.4
    org.apache.logging.log4j:log4j-slf4j-impl:2.25.4
    org.apache.maven:maven-artifact:3.9.15
    org.bitbucket.b_c:jose4j:0.9.6
    org.codehaus.plexus:plexus-utils:3.6.1
    org.eclipse.jetty:jetty-alpn-client:12.0.34
    org.eclipse.jetty:jetty-client:12.0.34
    org.eclipse.jetty:jetty-http:12.0.34
    org.eclipse.jetty:jetty-io:12.0.34
    org.eclipse.jetty:jetty-security:12.0.34
    org.eclipse.jetty:jetty-server:12.0.34
    org.eclipse.jetty:jetty-session:12.0.34
    org.eclipse.jetty:jetty-util:12.0.34
    org.eclipse.jetty.ee10:jetty-ee10-servlet:12.0.34
    org.eclipse.jetty.ee10:jetty-ee10-servlets:12.0.34
    org.glassfish.hk2:hk2-api:3.0.6
    org.glassfish.hk2:hk2-locator:3.0.6
    org.glassfish.hk2:hk2-utils:3.0.6
    org.glassfish.hk2:osgi-resource-locator:1.0.3
    org.glassfish.hk2.external:aopalliance-repackaged:3.0.6
    org.glassfish.jersey.containers:jersey-container-servlet:3.1.10
    org.glassfish.jersey.containers:jersey-container-servlet-core:3.1.10
    org.glassfish.jersey.core:jersey-client:3.1.10
    org.glassfish.jersey.core:jersey-common:3.1.10
    org.glassfish.jersey.core:jersey-server:3.1.10
    org.glassfish.jersey.inject:jersey-hk2:3.1.10
    org.javassist:javassist:3.30.2-GA
    org.slf4j:slf4j-api:1.7.36
    org.xerial.snappy:snappy-java:1.1.10.7
"""

CONNECT = JarSet("connect", "Apache Kafka Connect 4.3.1", tuple(Jar(*line.split(":")) for line in _COORDINATES.split()))
