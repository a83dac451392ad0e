"""Container images without a registry and without a daemon: an OCI image layout in a directory.

`index.json` names the images, `blobs/sha256` holds manifests, configurations and layers by their digest, so images that
share a layer store it once. The format is that of `skopeo copy oci:…`; `registry` serves it to containerd.
"""

import fcntl
import hashlib
import json
import os
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

NAME: Final = "io.containerd.image.name"
RECIPE: Final = "dev.fairway.recipe"
MANIFEST: Final = "application/vnd.oci.image.manifest.v1+json"
_CONFIG: Final = "application/vnd.oci.image.config.v1+json"
_LAYER: Final = "application/vnd.oci.image.layer.v1.tar"
_PATH: Final = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_ARCHITECTURES: Final = {"x86_64": "amd64", "aarch64": "arm64"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """How a container of an image starts."""

    entrypoint: Sequence[str] = ()
    command: Sequence[str] = ()
    environment: Sequence[str] = ()
    user: str = ""
    directory: str = "/"


@dataclass(frozen=True, slots=True)
class Layout:
    """A directory of images."""

    root: Path
    _blobs: Path = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_blobs", self.root / "blobs" / "sha256")
        self._blobs.mkdir(parents=True, exist_ok=True)
        (self.root / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')

    def blob(self, digest: str) -> Path:
        """The file of a `sha256:…` digest."""
        return self._blobs / digest.removeprefix("sha256:")

    def images(self) -> dict[str, Any]:
        """The manifests' descriptors by the full name of the image, e.g. `docker.io/library/busybox:latest`."""
        try:
            index = json.loads((self.root / "index.json").read_text())
        except FileNotFoundError:
            return {}
        return {entry["annotations"][NAME]: entry for entry in index["manifests"]}

    def has(self, name: str, recipe: str) -> bool:
        """Whether this image was made by this recipe."""
        entry = self.images().get(name)
        return entry is not None and entry["annotations"].get(RECIPE) == recipe

    def layers(self, name: str) -> list[Any]:
        """The layers of an image, to put more on top."""
        manifest = json.loads(self.blob(self.images()[name]["digest"]).read_text())
        return list(manifest["layers"])

    def layer(self, directory: Path) -> Any:
        """Store the content of a directory as a layer; its descriptor."""
        with tempfile.NamedTemporaryFile(dir=self._blobs, delete=False) as temporary:
            command = ["tar", "-C", str(directory), "--sort=name", "--numeric-owner", "--mtime=@0", "--one-file-system"]
            subprocess.run([*command, "-cf", "-", "."], stdout=temporary, check=True)  # noqa: S603
        return self._keep(Path(temporary.name), _LAYER)

    def add(
        self, names: Sequence[str], layers: Sequence[Any], config: Config, recipe: str, forget: Sequence[str] = ()
    ) -> None:
        """Make an image of these layers under all these names, and forget those of other names.

        Call it, and `layer` before it, within `locked`.
        """
        settings = {
            "Env": [_PATH, *config.environment],
            "Entrypoint": list(config.entrypoint) or None,
            "Cmd": list(config.command) or None,
            "User": config.user,
            "WorkingDir": config.directory,
        }
        described = {
            "architecture": _ARCHITECTURES[os.uname().machine],
            "os": "linux",
            "config": settings,
            "rootfs": {"type": "layers", "diff_ids": [layer["digest"] for layer in layers]},
        }
        manifest = {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": self._keep_json(described, _CONFIG),
            "layers": list(layers),
        }
        entry = self._keep_json(manifest, MANIFEST)
        entries = {name: one for name, one in self.images().items() if name not in forget}
        entries.update({name: {**entry, "annotations": {NAME: name, RECIPE: recipe}} for name in names})
        self._write({"schemaVersion": 2, "manifests": list(entries.values())})
        self._remove_unused(entries)

    def _remove_unused(self, entries: dict[str, Any]) -> None:
        used = set()
        for entry in entries.values():
            manifest = json.loads(self.blob(entry["digest"]).read_text())
            used |= {entry["digest"], manifest["config"]["digest"], *(layer["digest"] for layer in manifest["layers"])}
        for path in self._blobs.iterdir():
            if len(path.name) == 64 and f"sha256:{path.name}" not in used:
                path.unlink()

    def _keep_json(self, value: Any, media_type: str) -> Any:
        with tempfile.NamedTemporaryFile("w", dir=self._blobs, delete=False) as temporary:
            json.dump(value, temporary)
        return self._keep(Path(temporary.name), media_type)

    def _keep(self, path: Path, media_type: str) -> Any:
        with path.open("rb") as content:
            digest = hashlib.file_digest(content, "sha256").hexdigest()
        path.chmod(0o644)
        path.rename(self._blobs / digest)
        return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": (self._blobs / digest).stat().st_size}

    def _write(self, index: Any) -> None:
        new = self.root / "index.json.new"
        new.write_text(json.dumps(index, indent=1))
        new.rename(self.root / "index.json")

    @contextmanager
    def locked(self) -> Iterator[None]:
        """One process at a time makes images: blobs that no image has are removed after each."""
        with (self.root / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
