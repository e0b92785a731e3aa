"""A member of a worker group, driven by the herder's thread."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Any

from connect.errors import IllegalStateError
from worker.group.config import GroupSettings
from worker.group.coordinator import CoordinatorLink, JoinRetry
from worker.group.events import GroupEvent
from worker.group.membership import Assign, Membership
from worker.group.oauth_tokens import OAuthTokens
from worker.group.protocol import Protocol, WorkerMetadata

log = logging.getLogger(__name__)

# How long one attempt to join runs before it checks whether the herder still polls.
_ATTEMPT_MS = 1_000
# After an error that waiting does not resolve, such as failed authentication.
_RETRY_AFTER_ERROR_S = 5.0
_MAX_MISMATCH_PAUSE_S = 2.0


class GroupMember:
    """This worker's membership in its group.

    One thread, the herder's, calls the methods; any thread may read the properties. ``metadata``, ``assign``, ``events``, and
    ``wake`` are called on the IO thread and must return at once, or heartbeats stop:

    - ``metadata`` returns this worker's metadata, each time it joins;
    - ``assign`` returns, on the leader, the assignments of all members: (members, protocol, leader's ID) to assignments. Its
      errors are logged, and the members have to join again. :attr:`forming_generation` is the generation it assigns for;
    - ``events`` receives :class:`Revoked` and :class:`Assigned`, in order. After each Revoked the member does not join until
      :meth:`work_stopped`;
    - ``wake`` announces that :meth:`poll` has something to do.
    """

    def __init__(
        self,
        settings: GroupSettings,
        *,
        metadata: Callable[[], WorkerMetadata],
        assign: Assign,
        events: Callable[[GroupEvent], None],
        wake: Callable[[], None],
    ) -> None:
        self._settings = settings
        self._metadata = metadata
        self._wake = wake
        self._changed = threading.Condition()
        self._event_count = 0
        self._membership = Membership(settings.group_id, assign, self._notifying(events))
        self._tokens = OAuthTokens(settings.token_endpoint) if settings.token_endpoint else None
        self._link: CoordinatorLink | None = None
        self._attempt: Any = None
        self._not_before = 0.0
        self._last_logged: type[BaseException] | None = None

    @property
    def member_id(self) -> str:
        """Empty outside the group."""
        return self._membership.state.member_id

    @property
    def generation(self) -> int:
        """The last generation in which this member got an assignment; -1 outside the group."""
        return self._membership.state.generation

    @property
    def last_completed_generation(self) -> int:
        """As :attr:`generation`, for the assignor: what it knows of earlier generations is outdated."""
        return self._membership.last_completed_generation

    @property
    def forming_generation(self) -> int:
        """The generation that ``assign`` was called for last."""
        return self._membership.forming_generation

    @property
    def protocol(self) -> Protocol | None:
        """The group's protocol; None outside the group."""
        return self._membership.state.protocol

    @property
    def leader_id(self) -> str:
        """The leader's member ID; empty outside the group."""
        return self._membership.state.leader_id

    @property
    def is_leader(self) -> bool:
        state = self._membership.state
        return state.member_id != "" and state.member_id == state.leader_id

    @property
    def consecutive_mismatches(self) -> int:
        """How many rebalances in a row ended because the leader was behind in the config topic.

        One or two mean that the leader lags. More mean that members read different config topics, for instance because two
        clusters use the same ``group.id``.
        """
        return self._membership.consecutive_mismatches

    @property
    def coordinator_unreachable_since(self) -> float | None:
        """``time.monotonic()`` when the coordinator stopped responding; None while it responds, or before the start."""
        link = self._link
        return link.coordinator.unreachable_since if link else None

    @property
    def joining_since(self) -> float | None:
        """``time.monotonic()`` when this member sent its last request to join; None before the first one."""
        return self._membership.joining_since

    @property
    def is_joining(self) -> bool:
        """Whether the member is to join, or to join again, and has not yet."""
        link = self._link
        return link is None or bool(link.coordinator.need_rejoin())

    def start(self, timeout_s: float = 10.0) -> None:
        """Connects to a broker. Does not join: :meth:`poll` does. Does nothing if it is connected already.

        Raises UnreachableError when no broker responds within the time, and ConnectError for wrong settings, such as rejected
        credentials; it can be called again after either.
        """
        if self._link is not None:
            return
        redirect_library_logs()
        if self._tokens is not None:
            self._tokens.fetch()
        link = self._new_link()
        try:
            link.connect(timeout_s)
        except BaseException:
            link.close()
            raise
        self._link = link

    def poll(self, timeout_s: float) -> None:
        """Shows that the herder is alive, and joins if that is due. Call it at least once per ``rebalance.timeout.ms``.

        Returns at once if there is nothing to join. Otherwise waits for the join at most this long, or until an event or
        :meth:`interrupt`; the attempt continues in the background, and ``wake`` is called when it ends. Waits until an
        unavailable broker responds. Raises ConnectError only before the first join, for wrong settings.
        """
        link = self._link
        if link is None:
            raise IllegalStateError("the member of the worker group was not started")
        if self._tokens is not None:
            self._tokens.renew_if_due()
        with self._changed:
            seen = self._event_count
        if link.coordinator.left:
            link.coordinator.left = False
            link.coordinator.recheck_join()
        try:
            link.coordinator.keep_in_group()
            if self._attempt is None and link.coordinator.need_rejoin() and time.monotonic() >= self._not_before:
                self._start_attempt(link)
        except Exception as e:
            # The IO thread or the heartbeats have ended, which never happens without an error.
            self._replace_link(link, e)
            return
        if self._attempt is not None:
            with self._changed:
                self._changed.wait_for(lambda: self._attempt.is_done or self._event_count != seen, timeout_s)
            self._check_attempt(link)

    def interrupt(self) -> None:
        """Makes a waiting :meth:`poll` return. Any thread."""
        with self._changed:
            self._event_count += 1
            self._changed.notify_all()

    def confirm(self, timeout_s: float) -> bool:
        """Asks the coordinator whether this member is in the group and no rebalance is underway, so that it owns what it was
        assigned. Returns False also without a response in time. Any thread."""
        link = self._link
        if link is None:
            return False
        answered = threading.Event()
        try:
            asked = link.call_on_io_thread(link.coordinator.confirm)
            asked.add_both(lambda _: answered.set())
        except Exception as e:
            log.debug("The group coordinator cannot be asked", exc_info=e)
            return False
        return answered.wait(timeout_s) and asked.exception is None

    def work_stopped(self) -> None:
        """Allows the member to join, because everything that was revoked has stopped and ``metadata`` reflects that."""
        self._membership.on_hold = False
        if self._link is not None:
            self._link.coordinator.recheck_join()

    def request_rejoin(self, reason: str) -> None:
        """Makes the next :meth:`poll` join again; everything keeps running."""
        if self._link is None:
            return
        log.debug("Rejoining group %s: %s", self._settings.group_id, reason)
        self._link.coordinator.request_rejoin()

    def leave(self, reason: str) -> None:
        """Leaves the group, without an event; the other members are notified at once. The next :meth:`poll` joins again."""
        if self._link is not None:
            self._link.leave(reason)

    def close(self) -> None:
        """Leaves the group and ends the IO thread. :meth:`start` may be called again."""
        link, self._link = self._link, None
        if link is not None:
            link.leave("the worker shuts down")
            link.close()
        if self._tokens is not None:
            self._tokens.close()
        self._attempt = None

    def _notifying(self, events: Callable[[GroupEvent], None]) -> Callable[[GroupEvent], None]:
        def notify(event: GroupEvent) -> None:
            events(event)
            self._notify()

        return notify

    def _notify(self, _: object = None) -> None:
        """Wakes a waiting poll, and a herder that does not poll at the moment."""
        self.interrupt()
        self._wake()

    def _new_link(self) -> CoordinatorLink:
        return CoordinatorLink(self._settings, self._membership, self._metadata, self._notify, self._tokens)

    def _start_attempt(self, link: CoordinatorLink) -> None:
        self._attempt = link.call_on_io_thread(link.coordinator.ensure_active_group_async, _ATTEMPT_MS)
        self._attempt.add_both(self._notify)

    def _check_attempt(self, link: CoordinatorLink) -> None:
        attempt = self._attempt
        if not attempt.is_done:
            return
        self._attempt = None
        if attempt.exception is None:
            if attempt.value:
                self._last_logged = None
                mismatches = self.consecutive_mismatches
                # A lagging leader gets time to read, more each time.
                pause_s = min(_MAX_MISMATCH_PAUSE_S, 0.02 * 2 ** min(mismatches, 10)) if mismatches > 1 else 0
                self._pause(link, pause_s)
            else:
                # The next attempt waits for the same join.
                self._start_attempt(link)
            return
        self._handle_failure(link, attempt.exception)

    def _handle_failure(self, link: CoordinatorLink, error: BaseException) -> None:
        retry = link.retry_after(error)
        if retry is JoinRetry.WAIT:
            self._pause(link, self._settings.retry_backoff_ms / 1000)
            return
        failure = link.failure(error)
        if failure is not None and not self._membership.has_ever_joined:
            raise failure from error
        if self._last_logged is not type(error):
            self._last_logged = type(error)
            text = failure.message if failure else str(error)
            log.error("This worker cannot join group %s and keeps trying: %s", self._settings.group_id, text)
        if retry is JoinRetry.WAIT_LONGER:
            self._pause(link, _RETRY_AFTER_ERROR_S)
        else:
            self._replace_link(link, error)

    def _pause(self, link: CoordinatorLink, pause_s: float) -> None:
        if pause_s > 0:
            self._not_before = time.monotonic() + pause_s
            link.wake_in(pause_s, self._notify)

    def _replace_link(self, link: CoordinatorLink, error: BaseException) -> None:
        log.debug("Replacing the group member's client", exc_info=error)
        link.close()
        self._membership.revoke(f"its client failed ({type(error).__name__}: {error})", lost=True)
        self._attempt = None
        self._link = self._new_link()
        self._link.connect_in_background(link.api_version)
        self._pause(self._link, _RETRY_AFTER_ERROR_S)


# Only those of the group's library; confluent-kafka's producers, consumers, and admin clients log below "kafka" too.
_LIBRARY = ("kafka.coordinator", "kafka.net", "kafka.cluster", "kafka.protocol", "kafka.future")


class _AsDebug(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        if log.isEnabledFor(logging.DEBUG):
            log.debug("%s: %s", record.name, record.getMessage(), exc_info=record.exc_info)


def redirect_library_logs() -> None:
    """Sends the library's messages to this module's logger, at DEBUG. May be called again.

    The library's own DEBUG messages stay off: they contain requests byte by byte, including credentials (promise 9).
    """
    for name in _LIBRARY:
        logger = logging.getLogger(name)
        if not any(isinstance(handler, _AsDebug) for handler in logger.handlers):
            logger.addHandler(_AsDebug())
        logger.propagate = False
        logger.setLevel(logging.INFO)
