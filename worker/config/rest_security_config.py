"""Keys and typed values of REST security: authentication, roles, and the audit log."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from connect.config.definition import ConfigKey, Importance
from connect.config.parsing import Password
from connect.config.types import ConfigType
from connect.config.validators import at_least, between, one_of
from connect.errors import ConfigError
from connect.suggestions import did_you_mean

_LOW = Importance.LOW
_STRING, _LIST, _LONG, _INT = ConfigType.STRING, ConfigType.LIST, ConfigType.LONG, ConfigType.INT
_PASSWORD, _BOOLEAN = ConfigType.PASSWORD, ConfigType.BOOLEAN

AUTHENTICATION = "rest.authentication"
USERS_FILE = "rest.authentication.users.file"
TOKENS_FILE = "rest.authentication.tokens.file"
EXEMPT_PATHS = "rest.authentication.exempt.paths"
SESSION_SECRET = "rest.authentication.session.secret"
SESSION_TTL_MS = "rest.authentication.session.ttl.ms"
OIDC = "rest.authentication.oidc."
ROLES_FILE = "rest.authorization.roles.file"
ANONYMOUS_ROLE = "rest.authorization.anonymous.role"
MASK_SECRETS = "rest.mask.secrets"
AUDIT_FILE = "rest.audit.log.file"

METHODS = ("none", "basic", "bearer", "oidc", "extension")
_ROLES = ("none", "viewer", "operator", "admin")
_MAX_SESSION_MS = 30 * 24 * 3_600_000
MIN_SECRET_LENGTH = 32
DEFAULT_MAX_HEADER_BYTES = 64 * 1024


def _key(name: str, type: ConfigType, default: Any, doc: str, **more: Any) -> ConfigKey:
    return ConfigKey(name, type, default, importance=_LOW, doc=doc, **more)


REST_SECURITY_KEYS = (
    _key(
        AUTHENTICATION, _LIST, "none",
        "How REST callers prove who they are, separated by commas: basic (users and passwords of a file), bearer (tokens of a "
        "file), oidc (tokens and sign-in of an OpenID Connect provider), extension (the user that a REST extension found, such "
        "as BasicAuthSecurityRestExtension). none, the default, lets everyone in.",
    ),
    _key(
        USERS_FILE, _STRING, None,
        "File of users for basic: a line NAME:HASH for each, as sluice auth user or htpasswd -B writes them. Changes apply at "
        "once.",
    ),
    _key(
        TOKENS_FILE, _STRING, None,
        "File of tokens for bearer: a line NAME:HASH or NAME:HASH:GROUP,GROUP for each, as sluice auth token writes them. "
        "Changes apply at once.",
    ),
    _key(
        EXEMPT_PATHS, _LIST, "/health",
        "Paths that may be read without authentication, with those below them. Add /metrics for a scraper without credentials.",
    ),
    _key(
        SESSION_SECRET, _PASSWORD, None,
        "Secret that protects the cookies of the web page, at least 32 characters. Set the same on all workers behind a load "
        "balancer. By default each worker creates its own, and its sessions end when it does.",
    ),
    _key(
        SESSION_TTL_MS, _LONG, 8 * 3_600_000, "How long a session of the web page lasts.",
        validator=between(60_000, _MAX_SESSION_MS),
    ),
    _key(
        OIDC + "issuer", _STRING, None,
        "URL of the OpenID Connect provider, exactly as in its tokens. Its discovery document names the rest.",
    ),
    _key(OIDC + "audience", _LIST, "", "Audiences that access tokens may have. Required for tokens; sign-in uses the client ID."),
    _key(OIDC + "client.id", _STRING, None, "Client ID for sign-in on the web page. Without it, only tokens are accepted."),
    _key(OIDC + "client.secret", _PASSWORD, None, "Client secret. A public client has none and is protected by PKCE alone."),
    _key(OIDC + "scopes", _LIST, "openid,profile", "Scopes that sign-in asks for. openid is required."),
    _key(
        OIDC + "redirect.url", _STRING, None,
        "Where the provider sends browsers after sign-in, as registered there. Default: the advertised URL of the worker "
        "followed by sluice/auth/callback.",
    ),
    _key(OIDC + "subject.claim", _STRING, "sub", "Claim that names the user. Choose one that users cannot change themselves."),
    _key(
        OIDC + "groups.claim", _STRING, "groups",
        "Claim that lists the user's groups; dots lead into objects, as in realm_access.roles.",
    ),
    _key(
        OIDC + "algorithms", _LIST, "RS256,RS384,RS512,PS256,PS384,PS512,ES256,ES384,ES512,Ed25519",
        "Signature algorithms of tokens that are accepted. Those with shared secrets and none are always refused.",
    ),
    _key(
        OIDC + "clock.skew.ms", _LONG, 60_000, "How far clocks may differ when the times of a token are checked.",
        validator=between(0, 600_000),
    ),
    _key(
        OIDC + "ca.file", _STRING, None,
        "PEM file of authorities to trust for the provider. Default: those that the system trusts.",
    ),
    _key(
        ROLES_FILE, _STRING, None,
        "YAML file that gives roles (viewer, operator, admin) to users, groups, and claims, per pattern of connector names. "
        "Without it, everyone who is authenticated is admin. Changes apply at once.",
    ),
    _key(
        ANONYMOUS_ROLE, _STRING, "none", "Role of callers without credentials.", validator=one_of(*_ROLES),
    ),
    _key(
        MASK_SECRETS, _BOOLEAN, False,
        "Whether REST hides secrets in configurations from every caller. By default it hides them from callers who are not admin "
        "of the connector; without authentication it returns them as Apache's worker does.",
    ),
    _key(
        AUDIT_FILE, _STRING, None,
        "File for the audit log, as JSON lines. It is opened again when it has been renamed. Without it, the entries are in the "
        "worker's log, from the logger sluice.audit.",
    ),
    _key(
        "rest.max.header.size.bytes", _INT, DEFAULT_MAX_HEADER_BYTES,
        "Maximum size of the line and headers of a REST request together.",
        validator=at_least(1024),
    ),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class OidcConfig:
    """Typed values of ``rest.authentication.oidc.*``."""

    issuer: str
    audience: tuple[str, ...]
    client_id: str | None
    client_secret: str | None = field(repr=False)
    scopes: tuple[str, ...]
    redirect_url: str | None
    subject_claim: str
    groups_claim: str
    algorithms: tuple[str, ...]
    clock_skew_s: int
    ca_file: str | None


@dataclass(frozen=True, slots=True)
class RestSecurityConfig:
    """Typed values of the keys of REST security."""

    methods: tuple[str, ...] = ()
    """Empty: no authentication."""
    users_file: str | None = None
    tokens_file: str | None = None
    exempt_paths: tuple[str, ...] = ("/health",)
    session_secret: str | None = field(default=None, repr=False)
    session_ttl_s: int = 8 * 3600
    oidc: OidcConfig | None = None
    roles_file: str | None = None
    anonymous_role: str = "none"
    mask_secrets: bool = False
    audit_file: str | None = None
    max_header_bytes: int = DEFAULT_MAX_HEADER_BYTES

    @property
    def is_authenticating(self) -> bool:
        return bool(self.methods)

    @classmethod
    def of(cls, parsed: Mapping[str, Any]) -> RestSecurityConfig:
        """Converts parsed values. Raises ConfigError for keys that contradict each other."""
        methods = _methods(parsed[AUTHENTICATION])
        found = cls(
            methods,
            _required(parsed, USERS_FILE, "basic" in methods, f"{AUTHENTICATION} contains basic"),
            _required(parsed, TOKENS_FILE, "bearer" in methods, f"{AUTHENTICATION} contains bearer"),
            tuple(_path(path) for path in parsed[EXEMPT_PATHS]),
            _secret(parsed, SESSION_SECRET),
            parsed[SESSION_TTL_MS] // 1000,
            _oidc(parsed) if "oidc" in methods else None,
            parsed[ROLES_FILE] or None,
            parsed[ANONYMOUS_ROLE],
            parsed[MASK_SECRETS],
            parsed[AUDIT_FILE] or None,
            parsed["rest.max.header.size.bytes"],
        )
        if not methods:
            for key, is_set in ((ROLES_FILE, found.roles_file is not None), (ANONYMOUS_ROLE, found.anonymous_role != "none")):
                if is_set:
                    raise ConfigError.invalid(
                        key,
                        parsed[key],
                        f"roles need to know who calls: set {AUTHENTICATION} to basic, bearer, oidc, or extension",
                    )
        if found.session_secret is not None and len(found.session_secret) < MIN_SECRET_LENGTH:
            raise ConfigError(
                f"{SESSION_SECRET} is too short: expected at least {MIN_SECRET_LENGTH} characters", key=SESSION_SECRET
            )
        return found


def _methods(given: list[str]) -> tuple[str, ...]:
    methods = tuple(dict.fromkeys(one.strip().lower() for one in given if one.strip()))
    for one in methods:
        if one not in METHODS:
            near = did_you_mean(one, METHODS, "; ")
            raise ConfigError.invalid(AUTHENTICATION, one, f"expected some of {', '.join(METHODS)}{near}")
    if "none" in methods and len(methods) > 1:
        raise ConfigError.invalid(AUTHENTICATION, ",".join(methods), "none cannot be combined with other methods")
    return tuple(one for one in methods if one != "none")


def _required(parsed: Mapping[str, Any], key: str, is_required: bool, reason: str) -> str | None:
    value = parsed[key] or None
    if is_required and value is None:
        raise ConfigError(f"{key} is not set, but {reason}", key=key)
    return value if is_required else None


def _secret(parsed: Mapping[str, Any], key: str) -> str | None:
    value = parsed[key]
    return (value.value if isinstance(value, Password) else value) or None


def _path(path: str) -> str:
    if not path.startswith("/") or path == "/":
        raise ConfigError.invalid(EXEMPT_PATHS, path, "expected paths such as /health or /metrics")
    return path.rstrip("/")


def _oidc(parsed: Mapping[str, Any]) -> OidcConfig:
    issuer = _required(parsed, f"{OIDC}issuer", True, f"{AUTHENTICATION} contains oidc") or ""
    require_secure_url(f"{OIDC}issuer", issuer)
    client_id, audience = parsed[f"{OIDC}client.id"] or None, tuple(parsed[f"{OIDC}audience"])
    if not audience and client_id is None:
        raise ConfigError(
            f"Set {OIDC}audience to accept tokens, {OIDC}client.id for sign-in on the web page, or both", key=f"{OIDC}audience"
        )
    redirect_url = parsed[f"{OIDC}redirect.url"] or None
    if redirect_url is not None:
        require_secure_url(f"{OIDC}redirect.url", redirect_url)
    for algorithm in parsed[f"{OIDC}algorithms"]:
        if algorithm.upper().startswith("HS") or algorithm.lower() == "none":
            raise ConfigError.invalid(f"{OIDC}algorithms", algorithm, "tokens must be signed with a private key")
    scopes = tuple(dict.fromkeys(("openid", *parsed[f"{OIDC}scopes"])))
    return OidcConfig(
        issuer,
        audience,
        client_id,
        _secret(parsed, f"{OIDC}client.secret"),
        scopes,
        redirect_url,
        parsed[f"{OIDC}subject.claim"],
        parsed[f"{OIDC}groups.claim"],
        tuple(parsed[f"{OIDC}algorithms"]),
        parsed[f"{OIDC}clock.skew.ms"] // 1000,
        parsed[f"{OIDC}ca.file"] or None,
    )


def require_secure_url(key: str, url: str) -> None:
    """Raises ConfigError unless the URL is https, or http on this machine."""
    parts = urlsplit(url)
    if parts.scheme == "https" and parts.hostname:
        return
    if parts.scheme == "http" and parts.hostname in ("localhost", "127.0.0.1", "::1"):
        return
    raise ConfigError.invalid(key, url, "expected an https URL; http is accepted only for this machine")
