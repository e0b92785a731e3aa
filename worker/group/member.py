"""A member of a worker group, as the herder's thread drives it."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Any

from connect.errors import IllegalStateError
from worker.group.config import GroupSettings
from worker.group.coordinator import CoordinatorLink, Cure
from worker.group.events import GroupEvent
from worker.group.library_logging import quieten
from worker.group.membership import Assign, Membership
from worker.group.oauth_tokens import Tokens
from worker.group.protocol import Protocol, WorkerMetadata

log = logging.getLogger(__name__)

# How long one attempt to join runs before it asks whether anybody still polls.
_ATTEMPT_MS = 1_000
# After an error that waiting alone does not cure, as a login that is refused.
_RETRY_AFTER_ERROR_S = 5.0
_MAX_MISMATCH_PAUSE_S = 2.0


class GroupMember:
    """This worker's place in its group.

    One thread, the herder's, calls the methods; properties may be read from any. ``metadata``, ``assign``, ``events`` and
    ``wake`` are called on the IO thread and must return at once, or heartbeats stop:

    - ``metadata`` is asked for a snapshot of what this worker says of itself, each time it joins;
    - ``assign`` is asked, on the leader, for everybody's assignment: (members, protocol, leader's id) to assignments. An error of
      it is logged, and the members are told to join again. :attr:`forming_generation` is the one it assigns for;
    - ``events`` hears :class:`Revoked` and :class:`Assigned`, in the order in which they came to be. After each Revoked the
      member stays out until :meth:`work_stopped`;
    - ``wake`` says that :meth:`poll` has something to do.
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
        self._news = 0
        self._membership = Membership(settings.group_id, assign, self._note(events))
        self._tokens = Tokens(settings.token_endpoint) if settings.token_endpoint else None
        self._link: CoordinatorLink | None = None
        self._attempt: Any = None
        self._not_before = 0.0
        self._told: type[BaseException] | None = None

    @property
    def member_id(self) -> str:
        """Empty when not in the group."""
        return self._membership.seat.member_id

    @property
    def generation(self) -> int:
        """The last one in which this member got an assignment; -1 when not in the group."""
        return self._membership.seat.generation

    @property
    def last_completed_generation(self) -> int:
        """As :attr:`generation`, for the assignor: what it knows of a round before this one is worth nothing."""
        return self._membership.last_completed_generation

    @property
    def forming_generation(self) -> int:
        """The generation that ``assign`` was asked about last."""
        return self._membership.forming_generation

    @property
    def protocol(self) -> Protocol | None:
        """What the group speaks; None when not in it."""
        return self._membership.seat.protocol

    @property
    def leader_id(self) -> str:
        """The leader's member id; empty when not in the group."""
        return self._membership.seat.leader_id

    @property
    def is_leader(self) -> bool:
        seat = self._membership.seat
        return seat.member_id != "" and seat.member_id == seat.leader_id

    @property
    def mismatch_rounds(self) -> int:
        """How many rounds one after the other ended with the leader's words that it is behind.

        One or two are a leader that lags. More, and the leader waits for what it will never read: then members of one group have
        different config topics, as two clusters with one ``group.id`` do.
        """
        return self._membership.mismatch_rounds

    @property
    def coordinator_unreachable_since(self) -> float | None:
        """``time.monotonic()`` when the coordinator ceased to answer; None while it answers, or before the start."""
        link = self._link
        return link.coordinator.unreachable_since if link else None

    @property
    def is_joining(self) -> bool:
        """Whether the member wants to join, or to join again, and has not yet."""
        link = self._link
        return link is None or bool(link.coordinator.need_rejoin())

    def start(self, timeout_s: float = 10.0) -> None:
        """Connects to a broker. Does not join: :meth:`poll` does. Nothing happens when it is connected already.

        Raises UnreachableError when no broker answers within the time, and ConnectError when settings cannot be right, as with a
        login that is refused; after either it can be called again.
        """
        if self._link is not None:
            return
        quieten()
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
        """Shows that the herder is alive, and joins where that is due. To be called at least once a ``rebalance.timeout.ms``.

        Returns at once when there is nothing to join. Else it waits for the join at most this long, or until there is an event,
        or :meth:`interrupt` was called; the attempt goes on meanwhile, and ``wake`` is called when it ends. A broker that is away
        is waited for. Raises ConnectError only before the first join, when settings cannot be right.
        """
        link = self._link
        if link is None:
            raise IllegalStateError("the member of the worker group was not started")
        if self._tokens is not None:
            self._tokens.renew_if_due()
        with self._changed:
            seen = self._news
        if link.coordinator.left:
            link.coordinator.left = False
            link.coordinator.gate_moved()
        try:
            link.coordinator.keep_in_group()
            if self._attempt is None and link.coordinator.need_rejoin() and time.monotonic() >= self._not_before:
                self._begin_attempt(link)
        except Exception as e:
            # The IO thread or the heartbeats have ended, which they never do on their own account.
            self._replace_link(link, e)
            return
        if self._attempt is not None:
            with self._changed:
                self._changed.wait_for(lambda: self._attempt.is_done or self._news != seen, timeout_s)
            self._end_attempt(link)

    def interrupt(self) -> None:
        """Makes a :meth:`poll` that waits return. From any thread."""
        with self._changed:
            self._news += 1
            self._changed.notify_all()

    def confirm(self, timeout_s: float) -> bool:
        """Whether the coordinator says, asked now, that this member is in the group, and that no round is under way: what it was
        assigned is its own. False also when no answer comes in time. From any thread."""
        link = self._link
        if link is None:
            return False
        answered = threading.Event()
        try:
            asked = link.soon(link.coordinator.confirm)
            asked.add_both(lambda _: answered.set())
        except Exception as e:
            log.debug("The group's coordinator cannot be asked", exc_info=e)
            return False
        return answered.wait(timeout_s) and asked.exception is None

    def work_stopped(self) -> None:
        """What was revoked has stopped, and ``metadata`` says so: the member may join."""
        self._membership.on_hold = False
        if self._link is not None:
            self._link.coordinator.gate_moved()

    def request_rejoin(self, reason: str) -> None:
        """The next :meth:`poll` joins again, keeping what runs."""
        if self._link is None:
            return
        log.debug("This worker joins group %s again: %s", self._settings.group_id, reason)
        self._link.coordinator.request_rejoin()

    def leave(self, reason: str) -> None:
        """Leaves the group; the others hear of it at once. No event. The next :meth:`poll` joins again."""
        if self._link is not None:
            self._link.leave(reason)

    def close(self) -> None:
        """Leaves the group and ends the IO thread. Afterwards :meth:`start` begins anew."""
        link, self._link = self._link, None
        if link is not None:
            link.leave("the worker shuts down")
            link.close()
        if self._tokens is not None:
            self._tokens.close()
        self._attempt = None

    def _note(self, events: Callable[[GroupEvent], None]) -> Callable[[GroupEvent], None]:
        def tell(event: GroupEvent) -> None:
            events(event)
            self._stir()

        return tell

    def _stir(self, _: object = None) -> None:
        """There is something new: for a poll that waits, and for a herder that does not poll just now."""
        self.interrupt()
        self._wake()

    def _new_link(self) -> CoordinatorLink:
        return CoordinatorLink(self._settings, self._membership, self._metadata, self._stir, self._tokens)

    def _begin_attempt(self, link: CoordinatorLink) -> None:
        self._attempt = link.soon(link.coordinator.ensure_active_group_async, _ATTEMPT_MS)
        self._attempt.add_both(self._stir)

    def _end_attempt(self, link: CoordinatorLink) -> None:
        attempt = self._attempt
        if not attempt.is_done:
            return
        self._attempt = None
        if attempt.exception is None:
            if attempt.value:
                self._told = None
                # A leader that lags is given time to read, more each time.
                pause_s = min(_MAX_MISMATCH_PAUSE_S, 0.02 * 2 ** min(self.mismatch_rounds, 10)) if self.mismatch_rounds > 1 else 0
                self._pause(link, pause_s)
            else:
                # The next attempt waits for the same join.
                self._begin_attempt(link)
            return
        self._explain(link, attempt.exception)

    def _explain(self, link: CoordinatorLink, error: BaseException) -> None:
        cure = link.cure(error)
        if cure is Cure.WAIT:
            self._pause(link, self._settings.retry_backoff_ms / 1000)
            return
        failure = link.failure(error)
        if failure is not None and not self._membership.has_ever_joined:
            raise failure from error
        if self._told is not type(error):
            self._told = type(error)
            text = failure.message if failure else str(error)
            log.error("This worker cannot join group %s and goes on trying: %s", self._settings.group_id, text)
        if cure is Cure.WAIT_LONGER:
            self._pause(link, _RETRY_AFTER_ERROR_S)
        else:
            self._replace_link(link, error)

    def _pause(self, link: CoordinatorLink, pause_s: float) -> None:
        if pause_s > 0:
            self._not_before = time.monotonic() + pause_s
            link.wake_in(pause_s, self._stir)

    def _replace_link(self, link: CoordinatorLink, error: BaseException) -> None:
        log.debug("The group member's client is made anew", exc_info=error)
        link.close()
        self._membership.revoke(f"its client failed ({type(error).__name__}: {error})", lost=True)
        self._attempt = None
        self._link = self._new_link()
        self._link.connect_in_background(link.api_version)
        self._pause(self._link, _RETRY_AFTER_ERROR_S)
