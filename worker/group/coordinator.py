"""A client of Kafka's group coordinator, and its IO thread.

The only module that imports kafka-python, whose coordinator is open to any kind of group. Joining, heartbeats and the leader's
assignment run on the IO thread, which the library starts and :meth:`CoordinatorLink.close` ends.

What the library leaves to us: that a member hears when it has left the group because nobody polled, and that it notices within
the session timeout when the coordinator no longer answers.
"""

from __future__ import annotations

import logging
import ssl
import threading
import time
from collections.abc import Awaitable, Callable
from enum import Enum
from typing import Any

from kafka import errors
from kafka.coordinator.base import UNKNOWN_MEMBER_ID, BaseCoordinator
from kafka.net.compat import KafkaNetClient
from kafka.net.inet import KafkaNetSocket, create_connection
from kafka.net.manager import KafkaConnectionManager
from kafka.net.sasl.oauth import AbstractTokenProvider
from kafka.net.selector import NetworkSelector
from kafka.net.transport import KafkaSSLTransport, KafkaTCPTransport
from kafka.net.wakeup_notifier import WakeupNotifier

from connect.errors import ConnectError, UnreachableError
from worker.group.config import GroupSettings
from worker.group.membership import Membership
from worker.group.oauth_tokens import Tokens
from worker.group.protocol import PROTOCOL_TYPE, Protocol, WorkerMetadata, encode_metadata

log = logging.getLogger(__name__)

_STOP_TIMEOUT_S = 5.0
# Shorter disturbances are not worth a line in the log. The first join may have to wait for a new cluster's group topic.
_TELL_AFTER_S, _TELL_FIRST_AFTER_S = 1.0, 5.0
# A watch is set this often in a heartbeat interval, but no oftener than this.
_WATCHES_PER_HEARTBEAT, _SHORTEST_WATCH_S = 5, 0.02

# Waiting does not help before the first join, when something is set up wrongly.
_WRONG_SETTINGS = {
    errors.InvalidSessionTimeoutError: "the broker does not allow session.timeout.ms={session}; it must be within the broker's "
    "group.min.session.timeout.ms and group.max.session.timeout.ms",
    errors.InconsistentGroupProtocolError: "group.id={group} is in use by something else than workers of this cluster, or by "
    "workers that share no connect.protocol with this one; give each cluster a group.id of its own",
    errors.InvalidGroupIdError: "the broker does not take {group!r} as group.id",
    errors.GroupAuthorizationFailedError: "not authorized for group {group}; the worker's principal needs READ on it",
    errors.SaslAuthenticationFailedError: "the broker refuses the login; check sasl.mechanism and sasl.jaas.config",
    errors.UnsupportedSaslMechanismError: "the broker does not offer sasl.mechanism={mechanism}",
    errors.IllegalSaslStateError: "the broker does not expect a login; check security.protocol={security}",
    errors.IncompatibleBrokerVersion: "the broker is too old, or is a controller; check bootstrap.servers",
}


class Cure(Enum):
    """What helps against an error of an attempt to join."""

    WAIT = "wait"
    """It passes."""
    WAIT_LONGER = "wait longer"
    """Somebody has to change something, at the broker most likely."""
    NEW_LINK = "new link"
    """This client will not get over it."""


class CoordinatorLink:
    """A client with its IO thread, and the coordinator's side of it."""

    def __init__(
        self,
        settings: GroupSettings,
        membership: Membership,
        metadata: Callable[[], WorkerMetadata],
        stir: Callable[[], None],
        tokens: Tokens | None,
    ) -> None:
        self._settings = settings
        config: dict[str, Any] = {
            **settings.client,
            "client_id": settings.client_id,
            "proxy_url": f"{_Sockets.SCHEMES[0]}://",
        }
        if tokens is not None:
            config["sasl_oauth_token_provider"] = _TokenProvider(tokens)
        self._net = NetworkSelector(client_id=settings.client_id)
        self._manager = _Manager(self._net, **config)
        self._client = KafkaNetClient(net=self._net, manager=self._manager)
        self.coordinator = _Coordinator(self._client, settings, membership, metadata, stir)

    def connect(self, timeout_s: float) -> None:
        """Starts the IO thread and waits for a first answer of a broker."""
        self._net.start()
        done = self.soon(self._manager.bootstrap_async, timeout_s * 1000)
        deadline = time.monotonic() + timeout_s
        finished = threading.Event()
        done.add_both(lambda _: finished.set())
        self._manager.on_failure = lambda error: finished.set() if self.failure(error) else None
        finished.wait(max(0.0, deadline - time.monotonic()) + 1.0)
        cause = self._manager.last_failure
        if not done.is_done or done.exception is not None:
            if cause is not None and (failure := self.failure(cause)) is not None:
                raise failure from cause
            tried = self._settings.bootstrap
            raise UnreachableError(
                f"joining worker group {self._settings.group_id}: no Kafka broker answers at {tried}"
                f"{f' ({cause})' if cause else ''}. Check bootstrap.servers and security.protocol, and that the broker runs"
            ) from cause
        self.coordinator.config["api_version"] = self._manager.broker_version
        self.soon(self.coordinator.watch)

    def connect_in_background(self, api_version: tuple[int, ...]) -> None:
        """As :meth:`connect` without waiting, for a member that has been connected before."""
        self._net.start()
        self.coordinator.config["api_version"] = api_version
        self.soon(self._manager.bootstrap_async)
        self.soon(self.coordinator.watch)

    def failure(self, error: BaseException) -> ConnectError | None:
        """The error in our words when waiting does not help, else None."""
        settings = self._settings
        words = {
            "group": settings.group_id,
            "session": settings.session_timeout_ms,
            "mechanism": self._manager.config["sasl_mechanism"],
            "security": self._manager.config["security_protocol"],
        }
        for kind, text in _WRONG_SETTINGS.items():
            if isinstance(error, kind):
                return ConnectError(f"joining worker group {settings.group_id}: {text.format(**words)} ({type(error).__name__})")
        cause = error.__cause__
        if isinstance(cause, ssl.SSLError) and not isinstance(cause, (ssl.SSLEOFError, ssl.SSLZeroReturnError)):
            return ConnectError(
                f"joining worker group {settings.group_id}: no TLS connection with {settings.bootstrap}: {cause.reason}. Check "
                "ssl.truststore.* and ssl.keystore.*, ssl.endpoint.identification.algorithm, and security.protocol"
            )
        return None

    def cure(self, error: BaseException) -> Cure:
        """What helps against an error of an attempt to join."""
        if isinstance(error, errors.RetriableError):
            return Cure.WAIT
        # The library keeps a refused login for good, and only a new client asks again.
        if isinstance(error, errors.SaslAuthenticationFailedError) or not isinstance(error, errors.KafkaError):
            return Cure.NEW_LINK
        return Cure.WAIT_LONGER

    @property
    def api_version(self) -> tuple[int, ...]:
        """The broker's version, as far as it is known."""
        version: tuple[int, ...] = self.coordinator.config["api_version"]
        return version

    def soon(self, call: Callable[..., Any], *args: object) -> Any:
        """Runs it on the IO thread. A future of the library's."""
        return self._manager.call_soon(call, *args)

    def wake_in(self, delay_s: float, call: Callable[[], None]) -> None:
        self.soon(lambda: self._net.call_later(delay_s, call))

    def leave(self, reason: str) -> None:
        """Waits until the broker knows, or a few seconds."""
        self.coordinator.left = True
        left = threading.Event()
        try:
            self.soon(self.coordinator.leave_async, reason, _STOP_TIMEOUT_S * 1000).add_both(lambda _: left.set())
        except Exception as e:
            log.debug("The group could not be left", exc_info=e)
            return
        left.wait(_STOP_TIMEOUT_S + 1.0)

    def close(self) -> None:
        """Ends the IO thread and its connections."""
        self.coordinator.closing = True
        try:
            self.coordinator._close_heartbeat()
            self.coordinator.gate_moved()
            closed = threading.Event()
            self.soon(self._manager.close).add_both(lambda _: closed.set())
            closed.wait(_STOP_TIMEOUT_S)
            self._net.stop(timeout_ms=_STOP_TIMEOUT_S * 1000)
            self._net.close()
        except Exception as e:
            log.debug("The group member's client did not end cleanly", exc_info=e)


class _Sockets(KafkaNetSocket):  # type: ignore[misc]  # the library has no types
    """Sockets that are closed when the connection fails; the library leaves them to the garbage collector.

    It chooses the class by the scheme of a proxy's URL, and this one stands for no proxy.
    """

    SCHEMES = ("sluice-direct",)

    async def sock_connect(self, net: Any, sock: Any, sockaddr: Any, timeout_at: float | None = None) -> Any:
        try:
            return await super().sock_connect(net, sock, sockaddr, timeout_at=timeout_at)
        except BaseException:
            sock.close()
            raise


class _TokenProvider(AbstractTokenProvider):  # type: ignore[misc]  # the library has no types
    def __init__(self, tokens: Tokens) -> None:
        super().__init__()
        self._tokens = tokens

    def token(self) -> str:
        return self._tokens.current()


class _Manager(KafkaConnectionManager):  # type: ignore[misc]  # the library has no types
    """Remembers why a connection failed, which the library only logs."""

    def __init__(self, net: NetworkSelector, **config: Any) -> None:
        super().__init__(net, **config)
        self.last_failure: BaseException | None = None
        self.on_failure: Callable[[BaseException], object] = lambda _: None

    def get_connection(self, node_id: Any, **more: Any) -> Any:
        is_new = node_id not in self._conns
        connection = super().get_connection(node_id, **more)
        if is_new:
            connection.init_future.add_both(self._opened)
            connection._sasl_authenticate = self._telling(connection._sasl_authenticate)
        return connection

    async def _build_transport(self, node: Any, timeout_at: float | None = None) -> Any:
        """As the library's, but a connection whose handshake fails is closed."""
        sock = await create_connection(
            self._net, node.host, node.port, self.config["socket_options"], self.config["proxy_url"], timeout_at
        )
        transport = None
        try:
            if self.ssl_enabled:
                transport = KafkaSSLTransport(self._net, sock, host=node.host, ssl_context=self.config["ssl_context"])
            else:
                transport = KafkaTCPTransport(self._net, sock, host=node.host)
            await transport.handshake()
        except BaseException as e:
            (sock if transport is None else transport._sock).close()
            if isinstance(e, Exception):
                # Its cause tells a broker that went away from a certificate that is wrong.
                raise errors.KafkaConnectionError(f"Handshake failed: {e}") from e
            raise
        return transport

    def _telling(self, authenticate: Callable[..., Awaitable[None]]) -> Callable[..., Awaitable[None]]:
        """A broker that refuses a login hangs up as well, and the library may notice that first."""

        async def tell(*args: Any) -> None:
            try:
                await authenticate(*args)
            except Exception as e:
                self._opened(e)
                raise

        return tell

    def _opened(self, outcome: object) -> None:
        self.last_failure = outcome if isinstance(outcome, BaseException) else None
        if self.last_failure is not None:
            self.on_failure(self.last_failure)


class _Coordinator(BaseCoordinator):  # type: ignore[misc]  # the library has no types
    """What Kafka's coordinator is told, and what it tells. All but the constructor runs on the IO thread."""

    def __init__(
        self,
        client: KafkaNetClient,
        settings: GroupSettings,
        membership: Membership,
        metadata: Callable[[], WorkerMetadata],
        stir: Callable[[], None],
    ) -> None:
        super().__init__(
            client,
            group_id=settings.group_id,
            session_timeout_ms=settings.session_timeout_ms,
            heartbeat_interval_ms=settings.heartbeat_interval_ms,
            # It is the rebalance timeout as well, as it is in Java.
            max_poll_interval_ms=settings.rebalance_timeout_ms,
            retry_backoff_ms=settings.retry_backoff_ms,
            request_timeout_ms=settings.request_timeout_ms,
            # Replaced by what the broker says when it has answered; the first that had group members of this kind.
            api_version=(2, 3),
        )
        self._settings = settings
        self._membership = membership
        self._worker_metadata = metadata
        self._stir = stir
        self._gate = WakeupNotifier(client._net)
        self._synced_at: float | None = None
        self._told_unreachable = False
        self._attempts = 0
        self.unreachable_since: float | None = time.monotonic()
        self.left = False
        self.closing = False

    # What the library asks.

    def protocol_type(self) -> str:
        return PROTOCOL_TYPE

    def group_protocols(self) -> list[tuple[str, bytes]]:
        self._membership.joining()
        metadata = self._worker_metadata()
        return [(protocol.wire_name, encode_metadata(metadata, protocol)) for protocol in self._settings.protocol.offered()]

    def _perform_assignment(self, leader_id: str, protocol: str, members: Any) -> dict[str, bytes]:
        said = {member.member_id: bytes(member.metadata) for member in members}
        return self._membership.assignments(self._generation.generation_id, leader_id, protocol, said)

    async def _on_join_prepare_async(self, generation: int, member_id: str, timeout_ms: float | None = None) -> None:
        if self._membership.seat.protocol is Protocol.EAGER:
            self._membership.revoke("the group rebalances", lost=False)
        # Here and not later, for here heartbeats still flow while the herder stops its work.
        await self._pass_gate()

    async def ensure_active_group_async(self, timeout_ms: float | None = None) -> bool:
        self._attempts += 1
        self.gate_moved()
        try:
            joined: bool = await super().ensure_active_group_async(timeout_ms)
            return joined
        finally:
            self._attempts -= 1

    async def _do_join_and_sync_async(self) -> bytes:
        # The library joins again by itself when the broker does not know the member any more.
        await self._pass_gate()
        assignment: bytes = await super()._do_join_and_sync_async()
        # The attempt that began this may be over by now. An end that no attempt waits for the library forgets, and the next one
        # would join anew: one more round for the whole group.
        answered_at = time.monotonic()
        while not self._attempts and not self.closing:
            await self._gate(1.0)
        if time.monotonic() - answered_at > self._settings.session_timeout_ms / 1000:
            # No heartbeats have been sent meanwhile: others may have its work.
            raise errors.RebalanceInProgressError("the herder did not poll for longer than a session")
        return assignment

    async def _on_join_complete_async(
        self, generation: int, member_id: str, protocol: str, member_assignment_bytes: bytes
    ) -> None:
        if not self._membership.joined(generation, member_id, protocol, bytes(member_assignment_bytes)):
            self.request_rejoin()

    # What the library learns.

    def request_rejoin(self) -> None:
        super().request_rejoin()
        self._stir()

    def reset_generation(self, member_id: str = UNKNOWN_MEMBER_ID) -> None:
        super().reset_generation(member_id)
        self._synced_at = None
        # With a member id it is still a member, one that missed a round; what it runs is its own.
        if member_id == UNKNOWN_MEMBER_ID and not self.left and not self.closing:
            self._membership.revoke("the group's coordinator does not know this worker any more", lost=True)
        self._stir()

    async def maybe_leave_group_async(self, reason: str | None = None, timeout_ms: float | None = None) -> None:
        # Only the library's heartbeats call it without a reason.
        if reason is None:
            waited_ms = self._settings.rebalance_timeout_ms
            self._membership.revoke(f"it was busy with something else for more than rebalance.timeout.ms={waited_ms}", lost=True)
            reason, timeout_ms = "worker poll timeout has expired", self._settings.heartbeat_interval_ms
        await super().maybe_leave_group_async(reason, timeout_ms)

    def _handle_heartbeat_response(self, response: Any, send_time: float) -> None:
        super()._handle_heartbeat_response(response, send_time)
        self._answered()

    def _process_join_group_response(self, response: Any, send_time: float) -> Any:
        result = super()._process_join_group_response(response, send_time)
        self._answered()
        self._synced_at = time.monotonic()
        return result

    def _process_sync_group_response(self, response: Any, send_time: float) -> bytes:
        self._synced_at = None
        assignment: bytes = super()._process_sync_group_response(response, send_time)
        self._answered()
        return assignment

    def coordinator_dead(self, error: object) -> None:
        super().coordinator_dead(error)
        if self.unreachable_since is None:
            self.unreachable_since = time.monotonic()

    # What we add.

    def keep_in_group(self) -> None:
        """The herder is alive. Raises what ended the heartbeats, if something did."""
        self.poll_heartbeat()

    def gate_moved(self) -> None:
        """Something changed for a join that waits. From any thread."""
        try:
            self._gate.notify()
        except Exception as e:
            # The IO thread has ended, and with it what waited.
            log.debug("Nobody waits to join any more", exc_info=e)

    async def confirm(self) -> None:
        """Returns when the coordinator has answered that this member is one of the group's generation, and that no round is under
        way. Raises an error of the library's otherwise."""
        if not self.stable():
            raise errors.RebalanceInProgressError("not in the group, or a round is under way")
        if self.coordinator_unknown():
            await self.lookup_coordinator()
        await self._send_heartbeat_request()

    async def leave_async(self, reason: str, timeout_ms: float) -> None:
        self._membership.forget()
        await self.maybe_leave_group_async(reason, timeout_ms)

    async def watch(self) -> None:
        """Looks every moment whether the coordinator still answers; Java's members do so on their heartbeat thread.

        Promise 4: a member that the coordinator has given up stops its work, even when it can reach nobody who would tell it.
        """
        pause_s = max(_SHORTEST_WATCH_S, self._settings.heartbeat_interval_ms / 1000 / _WATCHES_PER_HEARTBEAT)
        while not self.closing:
            await self._net.sleep(pause_s)
            if self._session_is_over():
                self._hang_up("no heartbeat was answered within the session timeout")
                self._membership.revoke(
                    f"the group's coordinator did not answer for session.timeout.ms={self._settings.session_timeout_ms}",
                    lost=True,
                )
                self.request_rejoin()
            elif self._is_reachable():
                self._answered()
            elif self.unreachable_since is not None:
                self._go_on_unreachable(time.monotonic() - self.unreachable_since)

    def _session_is_over(self) -> bool:
        session_s = self._settings.session_timeout_ms / 1000
        if self._synced_at is not None and time.monotonic() - self._synced_at > session_s:
            return self._membership.may_have_work
        return bool(self.stable() and self._membership.may_have_work and self.heartbeat.session_timeout_expired())

    def _is_reachable(self) -> bool:
        return self.coordinator_id is not None and bool(self._client.connected(self.coordinator_id))

    def _hang_up(self, why: str) -> None:
        # A request on a connection that went silent would be waited for much longer than a session lasts.
        self._synced_at = None
        node_id = self.coordinator_id
        self.coordinator_dead(why)
        connection = self._manager._conns.get(node_id)
        if connection is not None:
            connection.close(errors.KafkaConnectionError(why))

    def _go_on_unreachable(self, for_s: float) -> None:
        interval_s = self._settings.heartbeat_interval_ms / 1000
        patience_s = _TELL_AFTER_S if self._membership.has_ever_joined else _TELL_FIRST_AFTER_S
        if for_s > max(interval_s, patience_s) and not self._told_unreachable:
            self._told_unreachable = True
            log.warning(
                "No group coordinator answers for group %s (bootstrap.servers %s%s); waiting until one does",
                self._settings.group_id,
                self._settings.bootstrap,
                f"; {self._manager.last_failure}" if self._manager.last_failure else "",
            )
        if for_s > interval_s and self._membership.revoke("the group's coordinator cannot be reached", lost=True):
            self.request_rejoin()

    def _answered(self) -> None:
        since, self.unreachable_since = self.unreachable_since, None
        if self._told_unreachable and since is not None:
            self._told_unreachable = False
            log.info("The coordinator of group %s answers again after %.1f s", self._settings.group_id, time.monotonic() - since)

    async def _pass_gate(self) -> None:
        while (self._membership.on_hold or self.left) and not self.closing:
            await self._gate(1.0)
        if self.closing:
            raise errors.Cancelled("closing")
