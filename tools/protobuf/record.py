"""Keep what kubectl sends in protobuf, and what a real API server answers in it, for the tests.

    python tools/protobuf/record.py --server https://127.0.0.1:6443 --token TOKEN --kubectl FILE [--kubectl FILE ...]

kubectl talks to a proxy that stands before the API server and keeps the bodies of its requests. What an object that it
makes would be in JSON, kubectl tells itself (`--dry-run=client`); of the questions of `kubectl auth` only the body is
kept. The objects of `objects.yaml` are created in JSON (in the namespace `default`) and read again in both forms.

What is written: `tests/server/protobuf/data/kubectl.json` (a recording names all versions that sent the same) and
`objects.json`. All that was created is deleted again.
"""

import argparse
import base64
import json
import os
import pathlib
import shlex
import ssl
import subprocess
import tempfile
import threading
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

import yaml

DATA: Final = pathlib.Path(__file__).parents[2] / "tests" / "server" / "protobuf" / "data"
OBJECTS: Final = pathlib.Path(__file__).parent / "objects.yaml"
PROTOBUF: Final = "application/vnd.kubernetes.protobuf"

CREATED: Final = (
    "namespace protobuf-recorded",
    "configmap literals --from-literal=a=1 --from-literal=empty= --from-literal=text=Grüße",
    "configmap files --from-file=binary=binary.bin --from-file=text.txt",
    "configmap nothing",
    "secret generic token --from-literal=token=s3cr3t --from-file=binary.bin",
    "secret docker-registry images --docker-server=images.test --docker-username=u --docker-password=p",
    "job pi --image=images.test/perl:5.34",
    "job echo --image=images.test/busybox -- sh -c 'echo hello; sleep 1'",
    "priorityclass urgent --value=1000 --description=soon --preemption-policy=Never",
    "priorityclass spare --value=-10 --global-default=false",
    "serviceaccount robot",
)
ASKED: Final = (
    "auth whoami",
    "auth can-i get pods --subresource=log",
    "auth can-i create jobs.batch --namespace=protobuf-recorded",
    "auth can-i get /metrics",
    "auth can-i --list",
)


class Server:
    """The API server."""

    def __init__(self, address: str, token: str) -> None:
        self._address, self._token = address, token
        self._context = ssl.create_default_context()
        self._context.check_hostname = False
        self._context.verify_mode = ssl.CERT_NONE

    def ask(self, method: str, path: str, body: bytes | None = None, **headers: str) -> tuple[int, str, bytes]:
        """Code, content type and content of an answer."""
        request = urllib.request.Request(  # noqa: S310  the address is the operator's own
            self._address + path,
            method=method,
            data=body,
            headers={
                "Authorization": f"Bearer {self._token}",
                **{name.replace("_", "-"): value for name, value in headers.items() if value},
            },
        )
        try:
            with urllib.request.urlopen(request, context=self._context) as answer:  # noqa: S310
                return answer.status, answer.headers.get("Content-Type", ""), answer.read()
        except urllib.error.HTTPError as error:
            return error.code, error.headers.get("Content-Type", ""), error.read()


class Proxy(ThreadingHTTPServer):
    """Hands requests on, and keeps the bodies that are in protobuf."""

    def __init__(self, server: Server) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.server = server
        self.kept: list[bytes] = []


class _Handler(BaseHTTPRequestHandler):
    server: Proxy

    def do_GET(self) -> None:
        self._hand_on()

    def do_POST(self) -> None:
        self._hand_on()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  as the base class names it
        """Nothing: what matters is kept."""

    def _hand_on(self) -> None:
        size = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(size) if size else None
        kind = self.headers.get("Content-Type", "")
        if body is not None and kind.startswith(PROTOBUF):
            self.server.kept.append(body)
        accept = self.headers.get("Accept", "")
        code, answer_type, answer = self.server.server.ask(
            self.command, self.path, body, Content_Type=kind, Accept=accept
        )
        self.send_response(code)
        self.send_header("Content-Type", answer_type)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", required=True)
    parser.add_argument("--token", required=True)
    parser.add_argument("--kubectl", action="append", default=[])
    arguments = parser.parse_args()
    server = Server(arguments.server, arguments.token)
    with Proxy(server) as proxy, tempfile.TemporaryDirectory() as folder:
        threading.Thread(target=proxy.serve_forever, daemon=True).start()
        kubectls = [Kubectl(program, proxy, pathlib.Path(folder)) for program in arguments.kubectl]
        _write("kubectl", _merged([one for kubectl in kubectls for one in kubectl.recordings()]))
        proxy.shutdown()
    _write("objects", _objects(server))


class Kubectl:
    """A kubectl before the proxy."""

    def __init__(self, program: str, proxy: Proxy, folder: pathlib.Path) -> None:
        self._program, self._proxy, self._folder = program, proxy, folder
        (folder / "binary.bin").write_bytes(bytes([0, 255, 254, 10, 107]))
        (folder / "text.txt").write_text("two\nlines\n", encoding="utf-8")
        self._version = json.loads(self._run("version --client -o json"))["clientVersion"]["gitVersion"]

    def recordings(self) -> list[dict[str, Any]]:
        recordings = []
        for command in CREATED:
            shown = json.loads(self._run(f"create --dry-run=client -o json {command}"))
            body = self._sent(f"create --dry-run=server -o name {command}")
            recordings.append(self._recording(f"create {command}", body) | {"json": _without_unset_times(shown)})
        return recordings + [self._recording(command, self._sent(command)) for command in ASKED]

    def _recording(self, command: str, body: str) -> dict[str, Any]:
        return {"kubectl": [self._version], "command": command, "protobuf": body}

    def _sent(self, command: str) -> str:
        self._proxy.kept.clear()
        self._run(command)
        if len(self._proxy.kept) != 1:
            raise SystemExit(f"{command} sent {len(self._proxy.kept)} bodies in protobuf")
        return base64.b64encode(self._proxy.kept[0]).decode()

    def _run(self, command: str) -> str:
        address = f"http://127.0.0.1:{self._proxy.server_port}"
        environment = {"PATH": os.environ["PATH"], "HOME": str(self._folder), "KUBECONFIG": "/dev/null"}
        done = subprocess.run(  # noqa: S603  the program is the operator's own
            [self._program, f"--server={address}", "--namespace=default", *shlex.split(command)],
            cwd=self._folder, env=environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        # `auth can-i` answers 1 for no.
        if done.returncode and not command.startswith("auth can-i"):
            raise SystemExit(f"{command}: {done.stderr}")
        return done.stdout


def _without_unset_times(value: Any) -> Any:
    """The same without `creationTimestamp: null`, which kubectl up to 1.33 writes and later versions do not."""
    if isinstance(value, list):
        return [_without_unset_times(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        name: _without_unset_times(part) for name, part in value.items() if (name, part) != ("creationTimestamp", None)
    }


def _merged(recordings: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The recordings that differ, each with all versions that it is of."""
    merged: list[dict[str, Any]] = []
    for one in recordings:
        same = next((other for other in merged if other | {"kubectl": one["kubectl"]} == one), None)
        if same is None:
            merged.append(one)
        else:
            same["kubectl"] += one["kubectl"]
    return merged


def _objects(server: Server) -> list[dict[str, Any]]:
    """The objects of `objects.yaml`, read in both forms."""
    made: list[str] = []
    try:
        return [_object(server, case, made) for case in yaml.safe_load(OBJECTS.read_text(encoding="utf-8"))]
    finally:
        for path in reversed(made):
            server.ask("DELETE", f"{path}?gracePeriodSeconds=0&propagationPolicy=Background")


def _object(server: Server, case: dict[str, Any], made: list[str]) -> dict[str, Any]:
    manifest = case["object"]
    created = _create(server, case["path"], manifest, made)
    path = made[-1]
    if "status" in manifest:
        body = json.dumps(created | {"status": manifest["status"]}).encode()
        _json(server.ask("PUT", f"{path}/status", body, Content_Type="application/json"))
    text = server.ask("GET", path, Accept=PROTOBUF)[2]
    shown = _json(server.ask("GET", path, Accept="application/json"))
    return {"name": case["name"], "protobuf": base64.b64encode(text).decode(), "json": shown}


def _create(server: Server, path: str, manifest: Any, made: list[str]) -> Any:
    body = json.dumps(manifest).encode()
    created = _json(server.ask("POST", path, body, Content_Type="application/json"))
    made.append(f"{path}/{created['metadata']['name']}")
    return created


def _json(answer: tuple[int, str, bytes]) -> Any:
    code, _, content = answer
    if code >= 400:
        raise SystemExit(content.decode())
    return json.loads(content)


def _write(name: str, recordings: list[dict[str, Any]]) -> None:
    lines = ",\n".join(json.dumps(one, ensure_ascii=False) for one in recordings)
    DATA.mkdir(parents=True, exist_ok=True)
    (DATA / f"{name}.json").write_text(f"[\n{lines}\n]\n", encoding="utf-8")


if __name__ == "__main__":
    main()
