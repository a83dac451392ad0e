"""Exec plugins: programs that a kubeconfig names and that print credentials (client.authentication.k8s.io).

A program is given a bounded time and a bounded output, and ends with this if it does not end before. What it prints is
never shown: it holds what lets one in.
"""

import binascii
import contextlib
import functools
import os
import select
import signal
import sys
import time
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import msgspec

from fairway.client.rest.errors import KubeconfigError
from fairway.client.rest.kubeconfig import Endpoint

SECONDS: Final = 60.0
_MOST_OUTPUT: Final = 1 << 20
_VERSIONS: Final = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
_MODES: Final = ("Never", "IfAvailable", "Always")
_NOT_FOUND: Final = 127


class Made(NamedTuple):
    """Credentials that a plugin made."""

    token: str = ""
    certificate: str = ""
    key: str = ""
    expires: float | None = None
    """When, in seconds since the epoch; `None` if they are good for as long as this process."""


def credentials(plugin: Mapping[str, Any], endpoint: Endpoint, where: str, *, seconds: float = SECONDS) -> Made:
    """Run a plugin and read what it prints; `KubeconfigError` says what went wrong with it."""
    command = plugin.get("command")
    if not isinstance(command, str) or not command:
        raise KubeconfigError(f"{where}: exec.command: the name of a program is expected")
    version = plugin.get("apiVersion")
    if version not in _VERSIONS:
        raise KubeconfigError(f"{where}: exec.apiVersion: {version!r} is not supported; use {' or '.join(_VERSIONS)}")
    interactive = _interactive(plugin, where)
    status, output = _run(
        [command, *_arguments(plugin, where)],
        _environment(plugin, _info(plugin, endpoint, interactive=interactive), where),
        where,
        interactive=interactive,
        seconds=seconds,
    )
    if status == _NOT_FOUND and not output:
        hint = plugin.get("installHint")
        raise KubeconfigError(f"{where}: exec.command: there is no program {command!r}" + (f". {hint}" if hint else ""))
    if status != 0:
        raise KubeconfigError(f"{where}: exec.command: {command!r} failed with exit code {status}; its output is above")
    return _read(output, str(version), f"{where}: exec.command: {command!r}")


def _interactive(plugin: Mapping[str, Any], where: str) -> bool:
    mode = plugin.get("interactiveMode") or "IfAvailable"
    if mode not in _MODES:
        raise KubeconfigError(f"{where}: exec.interactiveMode: {mode!r} is none of {', '.join(_MODES)}")
    terminal = sys.stdin is not None and sys.stdin.isatty()
    if mode == "Always" and not terminal:
        raise KubeconfigError(f"{where}: exec.interactiveMode: the plugin asks for a terminal, and there is none")
    return terminal and mode != "Never"


def _arguments(plugin: Mapping[str, Any], where: str) -> list[str]:
    arguments = plugin.get("args") or []
    if not isinstance(arguments, list) or not all(isinstance(argument, str) for argument in arguments):
        raise KubeconfigError(f"{where}: exec.args: a list of texts is expected")
    return arguments


def _environment(plugin: Mapping[str, Any], info: bytes, where: str) -> dict[str, str]:
    environment = dict(os.environ)
    for pair in plugin.get("env") or []:
        if not isinstance(pair, dict) or not isinstance(pair.get("name"), str):
            raise KubeconfigError(f"{where}: exec.env: a list of mappings with name and value is expected")
        environment[pair["name"]] = str(pair.get("value", ""))
    return {**environment, "KUBERNETES_EXEC_INFO": info.decode()}


def _info(plugin: Mapping[str, Any], endpoint: Endpoint, *, interactive: bool) -> bytes:
    spec: dict[str, Any] = {"interactive": interactive}
    if plugin.get("provideClusterInfo"):
        cluster = {
            "server": endpoint.url,
            "tls-server-name": endpoint.server_name,
            "insecure-skip-tls-verify": not endpoint.verify,
            "certificate-authority-data": binascii.b2a_base64(endpoint.authority.encode(), newline=False).decode(),
            "config": endpoint.plugin_config,
        }
        spec["cluster"] = {name: value for name, value in cluster.items() if value}
    return msgspec.json.encode({"apiVersion": plugin["apiVersion"], "kind": "ExecCredential", "spec": spec})


def _run(
    command: list[str], environment: dict[str, str], where: str, *, interactive: bool, seconds: float
) -> tuple[int, bytes]:
    reading, writing = os.pipe()
    try:
        actions: list[Any] = [(os.POSIX_SPAWN_DUP2, writing, 1)]
        if not interactive:
            actions.append((os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0))
        try:
            # In its own process group if it is not interactive, so that its children can be killed with it.
            spawn = os.posix_spawnp if interactive else functools.partial(os.posix_spawnp, setpgroup=0)
            pid = spawn(command[0], command, environment, file_actions=actions)
        except (FileNotFoundError, NotADirectoryError):
            return _NOT_FOUND, b""
        except (OSError, ValueError) as error:
            said = error.strerror if isinstance(error, OSError) else str(error)
            raise KubeconfigError(f"{where}: exec.command: {command[0]!r} cannot be started: {said}") from None
        finally:
            os.close(writing)
        deadline = time.monotonic() + seconds
        try:
            output = _output(reading, deadline)
            status = _ended(pid, deadline) if output is not None else None
        except BaseException:
            _kill(pid, interactive=interactive)
            raise
        if output is None or status is None:
            _kill(pid, interactive=interactive)
            raise KubeconfigError(
                f"{where}: exec.command: {command[0]!r} was ended: it took more than {seconds:g} s or printed too much"
            )
        return status, output
    finally:
        os.close(reading)


def _output(reading: int, deadline: float) -> bytes | None:
    """What is printed, up to the end; `None` if it is too much or takes too long."""
    output = bytearray()
    poll = select.poll()
    poll.register(reading, select.POLLIN)
    while len(output) <= _MOST_OUTPUT:
        left = deadline - time.monotonic()
        if left <= 0 or not poll.poll(left * 1000):
            return None
        data = os.read(reading, 64 << 10)
        if not data:
            return bytes(output)
        output += data
    return None


def _ended(pid: int, deadline: float) -> int | None:
    """The status of a process that has closed its output; `None` if it does not end in time."""
    while True:
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() >= deadline:
            return None
        time.sleep(0.005)  # it is about to: there is nothing left for it to say


def _kill(pid: int, *, interactive: bool) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        (os.kill if interactive else os.killpg)(pid, signal.SIGKILL)
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, 0)


def _read(output: bytes, version: str, where: str) -> Made:
    try:
        printed = msgspec.json.decode(output)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise KubeconfigError(f"{where} printed something that is not JSON") from None
    if not isinstance(printed, dict) or printed.get("kind") != "ExecCredential":
        raise KubeconfigError(f"{where} did not print an ExecCredential")
    if printed.get("apiVersion") != version:
        raise KubeconfigError(f"{where} printed {printed.get('apiVersion')!r}, expected {version}")
    status = printed.get("status")
    status = status if isinstance(status, dict) else {}
    token, certificate, key = (_text(status.get(name)) for name in ("token", "clientCertificateData", "clientKeyData"))
    if not token and not certificate:
        raise KubeconfigError(f"{where} printed neither a token nor a certificate")
    if bool(certificate) != bool(key):
        raise KubeconfigError(f"{where} printed a certificate without its key, or a key without its certificate")
    return Made(token, certificate, key, _expiry(status.get("expirationTimestamp"), where))


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _expiry(value: object, where: str) -> float | None:
    if not value:
        return None
    from datetime import datetime  # noqa: PLC0415 - only plugins speak of times

    try:
        moment = datetime.fromisoformat(str(value))
    except ValueError:
        raise KubeconfigError(f"{where} printed an expirationTimestamp that is not a time") from None
    if moment.tzinfo is None:
        raise KubeconfigError(f"{where} printed an expirationTimestamp without a time zone")
    return moment.timestamp()
