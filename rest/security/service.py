"""The parts of REST security that a worker is configured with."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rest.middleware.cors import CorsRules
from rest.security.access import ADMIN_OF_ALL, Access, Grant
from rest.security.audit import AuditLog
from rest.security.authentication import Authentication
from rest.security.identity import ANONYMOUS, Identity, Role
from rest.security.oidc_tokens import Provider
from rest.security.reloading_file import ReloadingFile
from rest.security.roles import Roles, parse_roles
from rest.security.sessions import SessionCookies
from rest.security.sign_in import SignIn
from worker.config.rest_security_config import ROLES_FILE, RestSecurityConfig
from worker.storage.documents import Documents


class RestSecurity:
    """Authentication, roles, sessions, and the audit log of a worker. Created before the worker listens; its server closes it."""

    def __init__(self, config: RestSecurityConfig, mask: Callable[[str], str], cors: CorsRules | None = None) -> None:
        """``mask`` hides secrets in a text. Raises ConfigError for files that cannot be read or are malformed."""
        self._config = config
        self.cors = cors
        self.cookies = SessionCookies(config.session_secret, config.session_ttl_s)
        self.provider = None if config.oidc is None else Provider(config.oidc)
        self.authentication = Authentication(config, self.cookies, self.provider) if config.is_authenticating else None
        self._roles: ReloadingFile[Roles] | None = None
        if config.roles_file is not None:
            self._roles = ReloadingFile(config.roles_file, ROLES_FILE, parse_roles)
        self.audit = AuditLog(config.audit_file, mask) if config.is_authenticating or config.audit_file is not None else None
        self._anonymous: Sequence[Grant] = ()
        if config.anonymous_role != "none":
            self._anonymous = (Grant(Role.of(config.anonymous_role)),)

    @property
    def methods(self) -> tuple[str, ...]:
        return self._config.methods

    @property
    def has_sign_in(self) -> bool:
        """Whether users can sign in at a provider."""
        return self._config.oidc is not None and self._config.oidc.client_id is not None

    def sign_in(self, own_url: str) -> SignIn | None:
        """Returns what carries out sign-ins at a worker with this URL."""
        oidc, provider = self._config.oidc, self.provider
        verifier = None if self.authentication is None else self.authentication.verifier
        if not self.has_sign_in or oidc is None or provider is None or verifier is None:
            return None
        return SignIn(oidc, provider, verifier, self.cookies, own_url)

    def start_session(self, identity: Identity, authorization: str, *, is_secure: bool) -> str:
        """Returns the Set-Cookie header of a session of the caller with these credentials."""
        credential = None if self.authentication is None else self.authentication.credential_of(identity, authorization)
        return self.cookies.start_session(identity, credential, is_secure=is_secure)

    def share_sessions(self, ended: Documents) -> None:
        """Stores there which sessions have ended. Without a secret, no other worker accepts the same cookies."""
        if self._config.session_secret is not None:
            self.cookies.share(ended)

    def is_exempt(self, method: str, path: str) -> bool:
        """Returns whether a request needs no authentication because of its path."""
        return method == "GET" and any(path == one or path.startswith(f"{one}/") for one in self._config.exempt_paths)

    def access_for(self, identity: Identity) -> Access:
        """Returns what a caller may do."""
        return Access(identity, self._grants_of(identity), masks_always=self._config.mask_secrets)

    def _grants_of(self, identity: Identity) -> Sequence[Grant]:
        if not self._config.is_authenticating:
            return ADMIN_OF_ALL
        if identity.method == ANONYMOUS.method:
            return self._anonymous
        if self._roles is None:
            return ADMIN_OF_ALL
        roles = self._roles.content()
        return () if roles is None else roles.grants_of(identity)

    def close(self) -> None:
        """Closes the audit log."""
        if self.audit is not None:
            self.audit.close()
