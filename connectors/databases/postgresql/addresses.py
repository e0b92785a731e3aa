"""Resolves the hosts of a libpq connection, so that it goes to addresses that the worker allows."""

from __future__ import annotations

from connect.addresses import AddressRules, refusal


def pin_addresses(rules: AddressRules, host: str, port: str, hostaddr: str = "") -> dict[str, str]:
    """Returns ``host``, ``port``, and ``hostaddr`` of a connection to these hosts, with an address for each host.

    libpq would resolve names itself, out of sight of the rules and while holding the interpreter lock: a slow name server would
    block the worker. Names stay, since TLS verifies them. ``host`` and ``port`` are lists with commas, as libpq reads them; a
    host may be the directory of a Unix socket. Blocks. Raises OSError for a name that cannot be resolved, ConfigError if the
    rules allow no address of a host.
    """
    hosts = host.split(",")
    given = hostaddr.split(",") if hostaddr else [""] * len(hosts)
    if len(hosts) < len(given):
        hosts = [*hosts, *[""] * (len(given) - len(hosts))]
    ports = port.split(",")
    if len(ports) == 1:
        ports *= len(hosts)
    found: list[tuple[str, str, str]] = []
    for name, number, address in zip(hosts, ports, given, strict=True):
        if address:
            if not rules.allows(name or address, address):
                raise refusal(name or address, [address])
            found.append((name, number, address))
        elif not name or name.startswith(("/", "@")):
            found.append((name, number, ""))
        else:
            found += [(name, number, one) for one in rules.resolve(name)]
    names, numbers, addresses = zip(*found, strict=True)
    pinned = {"host": ",".join(names), "port": ",".join(numbers), "hostaddr": ",".join(addresses)}
    return pinned if any(addresses) else {name: value for name, value in pinned.items() if name != "hostaddr"}
