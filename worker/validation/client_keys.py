"""Definitions of Kafka client settings that connectors override, as answers show them.

The settings named here are shown with their table; any other override is shown as the text it is, without one. Names, defaults
and documentation are those of Kafka's clients 4.3 (recording validate-producer-override).
"""

from __future__ import annotations

from connect.config.definition import ConfigKey, Importance
from connect.config.types import ConfigType
from worker.kafka.settings import ClientKind

_PRODUCER = (
    ConfigKey(
        "acks",
        ConfigType.STRING,
        "all",
        importance=Importance.LOW,
        doc=(
            "The number of acknowledgments the producer requires the leader to have received before considering a "
            "request complete. This controls the  durability of records that are sent. The following settings are "
            "allowed:  <ul> <li><code>acks=0</code> If set to zero then the producer will not wait for any "
            "acknowledgment from the server at all. The record will be immediately added to the socket buffer and "
            "considered sent. No guarantee can be made that the server has received the record in this case, and the "
            "<code>retries</code> configuration will not take effect (as the client won't generally know of any "
            "failures). The offset given back for each record will always be set to <code>-1</code>. "
            "<li><code>acks=1</code> This will mean the leader will write the record to its local log but will "
            "respond without awaiting full acknowledgement from all followers. In this case should the leader fail "
            "immediately after acknowledging the record but before the followers have replicated it then the record "
            "will be lost. <li><code>acks=all</code> This means the leader will wait for the full set of in-sync "
            "replicas to acknowledge the record. This guarantees that the record will not be lost as long as at least "
            "one in-sync replica remains alive. This is the strongest available guarantee. This is equivalent to the "
            "acks=-1 setting.</ul><p>Note that enabling idempotence requires this config value to be 'all'. If "
            "conflicting configurations are set and idempotence is not explicitly enabled, idempotence is disabled."
        ),
    ),
)

_CONSUMER = (
    ConfigKey(
        "auto.offset.reset",
        ConfigType.STRING,
        "latest",
        importance=Importance.MEDIUM,
        doc=(
            "What to do when there is no initial offset in Kafka or if the current offset does not exist any more on "
            "the server (e.g. because that data has been deleted): <ul><li>earliest: automatically reset the offset "
            "to the earliest offset</li><li>latest: automatically reset the offset to the latest "
            "offset</li><li>by_duration:&lt;duration&gt;: automatically reset the offset to a configured "
            "&lt;duration&gt; from the current timestamp. &lt;duration&gt; must be specified in ISO8601 format "
            "(PnDTnHnMn.nS). Negative duration is not allowed.</li><li>none: throw exception to the consumer if no "
            "previous offset is found for the consumer's group</li><li>anything else: throw exception to the "
            "consumer.</li></ul><p>Note that altering partition numbers while setting this config to latest may cause "
            "message delivery loss since producers could start to send messages to newly added partitions (i.e. no "
            "initial offsets exist yet) before consumers reset their offsets."
        ),
    ),
    ConfigKey(
        "max.poll.records",
        ConfigType.INT,
        500,
        importance=Importance.MEDIUM,
        doc=(
            "The maximum number of records returned in a single call to poll(). Note, that "
            "<code>max.poll.records</code> does not impact the underlying fetching behavior. The consumer will cache "
            "the records from each fetch request and returns them incrementally from each poll."
        ),
    ),
)

CLIENT_KEYS = {
    ClientKind.PRODUCER: {key.name: key for key in _PRODUCER},
    ClientKind.CONSUMER: {key.name: key for key in _CONSUMER},
    ClientKind.ADMIN: {},
}
