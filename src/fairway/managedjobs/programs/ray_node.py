"""A node of the Ray cluster of a task, run by `python -c` in its pod: the head with the driver, or a worker.

Needs no more than Python's library and Ray. The first argument is a JSON object, the others are the command of the
driver, if this is the head:

- `start`: the command line of `ray start`
- `nodes`: how many nodes the cluster has; the driver starts when all of them have joined
- `port`: of the head, which is the first of the nodes; else they share a machine: each node chooses a port for each of
  the parameters `ports` within `range`, the head writes its address into the directory `meeting`, and each has its
  files in the directory that the variable `files` names
- `seconds`: how long nodes wait for each other; `missing`: how the message begins if they have waited in vain

The head ends with the driver and its exit code. A worker ends when its head is gone, and not before, even after
SIGTERM: a driver that saves its state needs its workers for that. Ray's processes have a session of
their own, so that a signal for the task's processes is not for them.
"""

from __future__ import annotations  # images have older Pythons, too

import contextlib
import importlib
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any, NoReturn

ANSWER_SECONDS = 5.0


class Stop(Exception):
    """SIGTERM, before there is anything that needs time to end."""


def fail(message: str) -> NoReturn:
    sys.stderr.write(message + "\n")
    with contextlib.suppress(OSError), open("/dev/termination-log", "w") as log:
        log.write(message)
    raise SystemExit(1)


class RayNode:
    def __init__(self, given: dict[str, Any], command: list[str]) -> None:
        self.given = given
        self.command = command
        self.driver: int | None = None
        self.ray: int | None = None
        self.has_begun = False
        self.stopping = False
        signal.signal(signal.SIGTERM, self.on_stop)

    def on_stop(self, *_: object) -> None:
        self.stopping = True
        if self.driver is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.driver, signal.SIGTERM)
        elif not self.has_begun:
            raise Stop

    def run(self) -> int:
        try:
            return self.run_head() if self.command else self.run_worker()
        except Stop:
            return 128 + signal.SIGTERM
        finally:
            if self.ray is not None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(self.ray, signal.SIGKILL)  # it would take its time to drain what nobody needs

    def start(self, command: str, **options: Any) -> subprocess.Popen[bytes]:
        """Start Ray."""
        line = ["sh", "-c", f"ulimit -n 65536 2>/dev/null; exec {command}"]
        ray = subprocess.Popen(line, stdin=subprocess.DEVNULL, start_new_session=True, **options)
        self.ray = ray.pid
        return ray

    def temporary_directory(self) -> str:
        """Ray's; empty for its default. Nodes that shared one would choose the same names of sockets.

        Paths of sockets must be short, and this one is, whatever directory it stands for.
        """
        if "port" in self.given:
            return ""
        directory = os.open(os.environ[self.given["files"]], os.O_RDONLY | os.O_DIRECTORY)
        return f"/proc/{os.getpid()}/fd/{directory}"

    def own_options(self, temporary: str) -> str:
        """Ports are chosen before Ray starts: a node that chooses them itself gives up if that takes 30 seconds."""
        names, (first, end) = self.given["ports"], self.given["range"]
        ports: set[int] = set()
        while len(ports) < len(names):
            port = first + secrets.randbelow(end - first)
            with contextlib.suppress(OSError), socket.socket() as found:
                found.bind(("", port))
                ports.add(port)
        options = (f"--{name}={port}" for name, port in zip(names, ports, strict=True))
        return " ".join(["", f"--temp-dir={temporary}", *options])

    # The head

    def run_head(self) -> int:
        start, temporary = self.given["start"], self.temporary_directory()
        if temporary:
            os.environ["RAY_AUTH_TOKEN"] = secrets.token_hex(32)
            start += self.own_options(temporary)
        ray = self.start(start, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        said, _ = ray.communicate()
        if ray.returncode:
            sys.stderr.write(said.decode(errors="replace"))
            fail(f"fairway: the head of the Ray cluster did not start: exit code {ray.returncode}")
        os.environ["RAY_ADDRESS"] = self.announce(temporary) if temporary else self.fixed_address()
        if self.given["nodes"] > 1:
            self.wait_for_workers()
        return self.run_driver()

    def announce(self, temporary: str) -> str:
        """Tell the workers where the head is."""
        with open(f"{temporary}/ray_current_cluster") as file:
            address = file.read().strip()
        found = {"address": address, "token": os.environ["RAY_AUTH_TOKEN"]}
        directory = self.given["meeting"]
        os.makedirs(directory, mode=0o700, exist_ok=True)
        path = f"{directory}/{os.getpid()}"
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            json.dump(found, file)
        os.rename(path, f"{directory}/head")
        return address

    def fixed_address(self) -> str:
        return f"{os.environ['FAIRWAY_NODE_IPS'].split()[0]}:{self.given['port']}"

    def wait_for_workers(self) -> None:
        """Until all nodes have joined; in a process of its own: Ray leaves threads and signal handlers behind."""
        child = os.fork()
        if child:
            try:
                _, status = os.waitpid(child, 0)
            except Stop:
                os.kill(child, signal.SIGKILL)
                raise
            if status:
                raise SystemExit(1)
            return
        os.setsid()
        code = 1
        try:
            ray = importlib.import_module("ray")
            ray.init(log_to_driver=False, logging_level="ERROR", namespace="fairway")
            everybody = self.given["nodes"]
            self.wait_for("workers of the Ray cluster", lambda: sum(n["Alive"] for n in ray.nodes()) >= everybody)
            code = 0
        finally:
            os._exit(code)

    def run_driver(self) -> int:
        self.has_begun = True
        driver = subprocess.Popen(self.command, start_new_session=True)
        self.driver = driver.pid
        if self.stopping:
            self.on_stop()
        code = driver.wait()
        # A shell ends at once; the program that it waited for may still be saving its state.
        while self.stopping and is_alive(driver.pid):
            time.sleep(0.05)
        return code if code >= 0 else 128 - code

    # A worker

    def run_worker(self) -> int:
        start = f"{self.given['start']} --block"
        if "port" in self.given:
            found = self.fixed_address()
        else:
            head = self.wait_for("the head of the Ray cluster", self.read_announcement)
            found, os.environ["RAY_AUTH_TOKEN"] = head["address"], head["token"]
            start += self.own_options(self.temporary_directory())
        host, _, port = found.rpartition(":")
        address = (host, int(port))
        self.wait_for("the head of the Ray cluster", lambda: is_listening(address))
        self.has_begun = True
        ray = self.start(f"{start} --address={found}")
        while ray.poll() is None:
            if is_gone(address):
                return 0
        if is_listening(address):
            fail(f"fairway: this node of the Ray cluster ended by itself: exit code {ray.returncode}")
        return 0

    def read_announcement(self) -> Any:
        try:
            with open(f"{self.given['meeting']}/head") as file:
                return json.load(file)
        except FileNotFoundError:
            return None

    def wait_for(self, what: str, look: Callable[[], Any]) -> Any:
        """What `look` returns when it is something."""
        until = time.monotonic() + self.given["seconds"]
        while not (found := look()):
            if time.monotonic() > until:
                fail(f"{self.given['missing']}: {what} after {self.given['seconds']} s")
            time.sleep(0.1)
        return found


def is_alive(group: int) -> bool:
    """Whether a process group has members; those that ended are reaped if they are our children."""
    try:
        while os.waitpid(-group, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def is_listening(address: tuple[str, int]) -> bool:
    try:
        socket.create_connection(address, ANSWER_SECONDS).close()
    except OSError:
        return False
    return True


def is_gone(address: tuple[str, int]) -> bool:
    """Whether nothing answers there, found out within some seconds: at once if it ends meanwhile."""
    with contextlib.suppress(OSError), socket.create_connection(address, ANSWER_SECONDS) as connection:
        while connection.recv(4096):
            pass
    for _ in range(3):
        if is_listening(address):
            return False
        time.sleep(0.2)
    return True


if __name__ == "__main__":
    sys.exit(RayNode(json.loads(sys.argv[1]), sys.argv[2:]).run())
