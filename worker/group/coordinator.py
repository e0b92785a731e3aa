"""A client of Kafka's group coordinator, and its IO thread.

The only module that imports kafka-python, whose coordinator supports any type of group. Joining, heartbeats, and the leader's
assignment run on the IO thread, which the library starts and :meth:`CoordinatorLink.close` ends.

This module adds what the library lacks: a member is notified when it left the group because nobody polled, and it notices within
the session timeout when the coordinator no longer responds.
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
from worker.group.oauth_tokens import OAuthTokens
from worker.group.protocol import PROTOCOL_TYPE, Protocol, WorkerMetadata, encode_metadata

log = logging.getLogger(__name__)

_STOP_TIMEOUT_S = 5.0
# Shorter disturbances are not logged. The first join may have to wait for a new cluster's group topic.
_LOG_AFTER_S, _LOG_FIRST_AFTER_S = 1.0, 5.0
# The coordinator is checked this often in a heartbeat interval, but no more often than this.
_CHECKS_PER_HEARTBEAT, _SHORTEST_CHECK_S = 5, 0.02

# Errors of wrong settings: waiting does not help before the first join.
_WRONG_SETTINGS = {
    errors.InvalidSessionTimeoutError: "the broker does not allow session.timeout.ms={session}; it must be within the broker's "
    "group.min.session.timeout.ms and group.max.session.timeout.ms",
    errors.InconsistentGroupProtocolError: "group.id={group} is used by something other than workers of this "
    "cluster, or by workers that share no connect.protocol with this one; give each cluster its own group.id",
    errors.InvalidGroupIdError: "the broker rejects the group.id {group!r}",
    errors.GroupAuthorizationFailedError: "not authorized for group {group}; the worker's principal needs READ on it",
    errors.SaslAuthenticationFailedError: "authentication failed; check sasl.mechanism and sasl.jaas.config",
    errors.UnsupportedSaslMechanismError: "the broker does not support sasl.mechanism={mechanism}",
    errors.IllegalSaslStateError: "the broker does not expect authentication; check security.protocol={security}",
    errors.IncompatibleBrokerVersion: "the broker is too old, or is a controller; check bootstrap.servers",
}


class JoinRetry(Enum):
    """How to retry after a failed attempt to join."""

    WAIT = "wait"
    """The error is transient."""
    WAIT_LONGER = "wait longer"
    """Somebody has to change something, most likely at the broker."""
    NEW_LINK = "new link"
    """This client cannot recover."""


class CoordinatorLink:
    """A client with its IO thread, and its coordinator."""

    def __init__(
        self,
        settings: GroupSettings,
        membership: Membership,
        metadata: Callable[[], WorkerMetadata],
        notify: Callable[[], None],
        tokens: OAuthTokens | None,
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
        self.coordinator = _Coordinator(self._client, settings, membership, metadata, notify)

    def connect(self, timeout_s: float) -> None:
        """Starts the IO thread and waits for the first response of a broker."""
        self._net.start()
        done = self.call_on_io_thread(self._manager.bootstrap_async, timeout_s * 1000)
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
        self.call_on_io_thread(self.coordinator.watch)

    def connect_in_background(self, api_version: tuple[int, ...]) -> None:
        """Connects without waiting, for a member that has been connected before."""
        self._net.start()
        self.coordinator.config["api_version"] = api_version
        self.call_on_io_thread(self._manager.bootstrap_async)
        self.call_on_io_thread(self.coordinator.watch)

    def failure(self, error: BaseException) -> ConnectError | None:
        """Translates an error of wrong settings; returns None for others."""
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
                f"joining worker group {settings.group_id}: no TLS connection to {settings.bootstrap}: {cause.reason}. Check "
                "ssl.truststore.* and ssl.keystore.*, ssl.endpoint.identification.algorithm, and security.protocol"
            )
        return None

    def retry_after(self, error: BaseException) -> JoinRetry:
        """Returns how to retry after a failed attempt to join."""
        if isinstance(error, errors.RetriableError):
            return JoinRetry.WAIT
        # The library remembers failed authentication, and only a new client tries again.
        if isinstance(error, errors.SaslAuthenticationFailedError) or not isinstance(error, errors.KafkaError):
            return JoinRetry.NEW_LINK
        return JoinRetry.WAIT_LONGER

    @property
    def api_version(self) -> tuple[int, ...]:
        """The broker's version, if it is known; otherwise the oldest supported one."""
        version: tuple[int, ...] = self.coordinator.config["api_version"]
        return version

    def call_on_io_thread(self, call: Callable[..., Any], *args: object) -> Any:
        """Runs a call on the IO thread. Returns a future of the library."""
        return self._manager.call_soon(call, *args)

    def wake_in(self, delay_s: float, call: Callable[[], None]) -> None:
        self.call_on_io_thread(lambda: self._net.call_later(delay_s, call))

    def leave(self, reason: str) -> None:
        """Leaves the group; waits for the broker, at most a few seconds."""
        self.coordinator.left = True
        left = threading.Event()
        try:
            self.call_on_io_thread(self.coordinator.leave_async, reason, _STOP_TIMEOUT_S * 1000).add_both(lambda _: left.set())
        except Exception as e:
            log.debug("The group could not be left", exc_info=e)
            return
        left.wait(_STOP_TIMEOUT_S + 1.0)

    def close(self) -> None:
        """Ends the IO thread and its connections."""
        self.coordinator.closing = True
        try:
            self.coordinator._close_heartbeat()
            self.coordinator.recheck_join()
            closed = threading.Event()
            self.call_on_io_thread(self._manager.close).add_both(lambda _: closed.set())
            closed.wait(_STOP_TIMEOUT_S)
            self._net.stop(timeout_ms=_STOP_TIMEOUT_S * 1000)
            self._net.close()
        except Exception as e:
            log.debug("The group member's client did not end cleanly", exc_info=e)


class _Sockets(KafkaNetSocket):  # type: ignore[misc]  # the library has no types
    """Closes sockets when the connection fails; the library leaves them to the garbage collector.

    The library chooses the class by the scheme of a proxy's URL; this scheme means no proxy.
    """

    SCHEMES = ("sluice-direct",)

    async def sock_connect(self, net: Any, sock: Any, sockaddr: Any, timeout_at: float | None = None) -> Any:
        try:
            return await super().sock_connect(net, sock, sockaddr, timeout_at=timeout_at)
        except BaseException:
            sock.close()
            raise


class _TokenProvider(AbstractTokenProvider):  # type: ignore[misc]  # the library has no types
    def __init__(self, tokens: OAuthTokens) -> None:
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
            connection._sasl_authenticate = self._reporting_failures(connection._sasl_authenticate)
        return connection

    async def _build_transport(self, node: Any, timeout_at: float | None = None) -> Any:
        """Overrides the library's method, to close a connection whose handshake fails."""
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
                # The cause distinguishes an unavailable broker from a wrong certificate.
                raise errors.KafkaConnectionError(f"Handshake failed: {e}") from e
            raise
        return transport

    def _reporting_failures(self, authenticate: Callable[..., Awaitable[None]]) -> Callable[..., Awaitable[None]]:
        """Notes failed authentication: the broker also disconnects, and the library may notice that first."""

        async def authenticate_and_report(*args: Any) -> None:
            try:
                await authenticate(*args)
            except Exception as e:
                self._opened(e)
                raise

        return authenticate_and_report

    def _opened(self, outcome: object) -> None:
        self.last_failure = outcome if isinstance(outcome, BaseException) else None
        if self.last_failure is not None:
            self.on_failure(self.last_failure)


class _Coordinator(BaseCoordinator):  # type: ignore[misc]  # the library has no types
    """The protocol with Kafka's coordinator. Everything but the constructor runs on the IO thread."""

    def __init__(
        self,
        client: KafkaNetClient,
        settings: GroupSettings,
        membership: Membership,
        metadata: Callable[[], WorkerMetadata],
        notify: Callable[[], None],
    ) -> None:
        super().__init__(
            client,
            group_id=settings.group_id,
            session_timeout_ms=settings.session_timeout_ms,
            heartbeat_interval_ms=settings.heartbeat_interval_ms,
            # Also the rebalance timeout, as in Java.
            max_poll_interval_ms=settings.rebalance_timeout_ms,
            retry_backoff_ms=settings.retry_backoff_ms,
            request_timeout_ms=settings.request_timeout_ms,
            # Replaced by the broker's version once known; the first one that supports this group protocol.
            api_version=(2, 3),
        )
        self._settings = settings
        self._membership = membership
        self._worker_metadata = metadata
        self._notify = notify
        self._recheck = WakeupNotifier(client._net)
        self._synced_at: float | None = None
        self._logged_unreachable = False
        self._attempts = 0
        self.unreachable_since: float | None = time.monotonic()
        self.left = False
        self.closing = False

    # --- called by the library for input

    def protocol_type(self) -> str:
        return PROTOCOL_TYPE

    def group_protocols(self) -> list[tuple[str, bytes]]:
        self._membership.joining()
        metadata = self._worker_metadata()
        return [(protocol.wire_name, encode_metadata(metadata, protocol)) for protocol in self._settings.protocol.offered()]

    def _perform_assignment(self, leader_id: str, protocol: str, members: Any) -> dict[str, bytes]:
        metadata = {member.member_id: bytes(member.metadata) for member in members}
        return self._membership.assignments(self._generation.generation_id, leader_id, protocol, metadata)

    async def _on_join_prepare_async(self, generation: int, member_id: str, timeout_ms: float | None = None) -> None:
        if self._membership.state.protocol is Protocol.EAGER:
            self._membership.revoke("the group rebalances", lost=False)
        # Here, because heartbeats are still sent while the herder stops its instances.
        await self._await_permission_to_join()

    async def ensure_active_group_async(self, timeout_ms: float | None = None) -> bool:
        self._attempts += 1
        self.recheck_join()
        try:
            joined: bool = await super().ensure_active_group_async(timeout_ms)
            return joined
        finally:
            self._attempts -= 1

    async def _do_join_and_sync_async(self) -> bytes:
        # The library rejoins by itself when the broker no longer knows the member.
        await self._await_permission_to_join()
        assignment: bytes = await super()._do_join_and_sync_async()
        # The attempt that started this may have ended. The library drops a result that no attempt waits for, and the next attempt
        # would join again: another rebalance for the whole group.
        answered_at = time.monotonic()
        while not self._attempts and not self.closing:
            await self._recheck(1.0)
        if time.monotonic() - answered_at > self._settings.session_timeout_ms / 1000:
            # No heartbeats were sent meanwhile: others may run its instances.
            raise errors.RebalanceInProgressError("the herder did not poll for longer than a session")
        return assignment

    async def _on_join_complete_async(
        self, generation: int, member_id: str, protocol: str, member_assignment_bytes: bytes
    ) -> None:
        if not self._membership.joined(generation, member_id, protocol, bytes(member_assignment_bytes)):
            self.request_rejoin()

    # --- results that the library reports

    def request_rejoin(self) -> None:
        super().request_rejoin()
        self._notify()

    def reset_generation(self, member_id: str = UNKNOWN_MEMBER_ID) -> None:
        super().reset_generation(member_id)
        self._synced_at = None
        # With a member ID it is still a member, which missed a rebalance; it still owns its instances.
        if member_id == UNKNOWN_MEMBER_ID and not self.left and not self.closing:
            self._membership.revoke("the group coordinator does not know this worker any more", lost=True)
        self._notify()

    async def maybe_leave_group_async(self, reason: str | None = None, timeout_ms: float | None = None) -> None:
        # Only the library's heartbeats call it without a reason.
        if reason is None:
            waited_ms = self._settings.rebalance_timeout_ms
            self._membership.revoke(f"its herder was blocked for more than rebalance.timeout.ms={waited_ms}", lost=True)
            reason, timeout_ms = "worker poll timeout has expired", self._settings.heartbeat_interval_ms
        await super().maybe_leave_group_async(reason, timeout_ms)

    def _handle_heartbeat_response(self, response: Any, send_time: float) -> None:
        super()._handle_heartbeat_response(response, send_time)
        self._mark_reachable()

    def _process_join_group_response(self, response: Any, send_time: float) -> Any:
        result = super()._process_join_group_response(response, send_time)
        self._mark_reachable()
        self._synced_at = time.monotonic()
        return result

    def _process_sync_group_response(self, response: Any, send_time: float) -> bytes:
        self._synced_at = None
        assignment: bytes = super()._process_sync_group_response(response, send_time)
        self._mark_reachable()
        return assignment

    def coordinator_dead(self, error: object) -> None:
        super().coordinator_dead(error)
        if self.unreachable_since is None:
            self.unreachable_since = time.monotonic()

    # --- additions

    def keep_in_group(self) -> None:
        """Reports that the herder is alive. Raises the error that ended the heartbeats, if one did."""
        self.poll_heartbeat()

    def recheck_join(self) -> None:
        """Has a waiting join check again whether it may continue. Any thread."""
        try:
            self._recheck.notify()
        except Exception as e:
            # The IO thread has ended, and the waiting join with it.
            log.debug("No join is waiting any more", exc_info=e)

    async def confirm(self) -> None:
        """Returns when the coordinator has confirmed that this member belongs to the current generation, and that no rebalance is
        underway. Otherwise raises an error of the library."""
        if not self.stable():
            raise errors.RebalanceInProgressError("not in the group, or a rebalance is underway")
        if self.coordinator_unknown():
            await self.lookup_coordinator()
        await self._send_heartbeat_request()

    async def leave_async(self, reason: str, timeout_ms: float) -> None:
        self._membership.forget()
        await self.maybe_leave_group_async(reason, timeout_ms)

    async def watch(self) -> None:
        """Checks frequently whether the coordinator still responds; Java's members do so on their heartbeat thread.

        Promise 4: a member that the coordinator has removed stops its instances, even when no broker can tell it.
        """
        pause_s = max(_SHORTEST_CHECK_S, self._settings.heartbeat_interval_ms / 1000 / _CHECKS_PER_HEARTBEAT)
        while not self.closing:
            await self._net.sleep(pause_s)
            if self._has_session_expired():
                self._disconnect("no heartbeat was answered within the session timeout")
                self._membership.revoke(
                    f"the group coordinator did not respond for session.timeout.ms={self._settings.session_timeout_ms}",
                    lost=True,
                )
                self.request_rejoin()
            elif self._is_reachable():
                self._mark_reachable()
            elif self.unreachable_since is not None:
                self._handle_unreachable(time.monotonic() - self.unreachable_since)

    def _has_session_expired(self) -> bool:
        session_s = self._settings.session_timeout_ms / 1000
        if self._synced_at is not None and time.monotonic() - self._synced_at > session_s:
            return self._membership.may_own_instances
        return bool(self.stable() and self._membership.may_own_instances and self.heartbeat.session_timeout_expired())

    def _is_reachable(self) -> bool:
        return self.coordinator_id is not None and bool(self._client.connected(self.coordinator_id))

    def _disconnect(self, why: str) -> None:
        # A request on a silent connection would block much longer than a session lasts.
        self._synced_at = None
        node_id = self.coordinator_id
        self.coordinator_dead(why)
        connection = self._manager._conns.get(node_id)
        if connection is not None:
            connection.close(errors.KafkaConnectionError(why))

    def _handle_unreachable(self, for_s: float) -> None:
        interval_s = self._settings.heartbeat_interval_ms / 1000
        log_after_s = _LOG_AFTER_S if self._membership.has_ever_joined else _LOG_FIRST_AFTER_S
        if for_s > max(interval_s, log_after_s) and not self._logged_unreachable:
            self._logged_unreachable = True
            log.warning(
                "No group coordinator responds for group %s (bootstrap.servers %s%s); waiting until one does",
                self._settings.group_id,
                self._settings.bootstrap,
                f"; {self._manager.last_failure}" if self._manager.last_failure else "",
            )
        if for_s > interval_s and self._membership.revoke("the group coordinator is unreachable", lost=True):
            self.request_rejoin()

    def _mark_reachable(self) -> None:
        since, self.unreachable_since = self.unreachable_since, None
        if self._logged_unreachable and since is not None:
            self._logged_unreachable = False
            log.info("The coordinator of group %s responds again after %.1f s", self._settings.group_id, time.monotonic() - since)

    async def _await_permission_to_join(self) -> None:
        while (self._membership.on_hold or self.left) and not self.closing:
            await self._recheck(1.0)
        if self.closing:
            raise errors.Cancelled("closing")
