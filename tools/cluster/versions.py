"""The version of everything that is built or installed, in one place."""

from typing import Final

KUBERNETES: Final = "1.34.4"
ETCD: Final = "3.6.16"
COREDNS: Final = "1.14.0"
KUEUE: Final = "0.19.2"
KUBERAY: Final = "1.6.2"
YUNIKORN: Final = "1.8.0"
RAY: Final = "2.60.0"
PAUSE: Final = "3.10"
BUSYBOX: Final = "1.35"
DEBIAN: Final = "bookworm"
PYTHON: Final = "3.11"
"""The Python of that Debian."""
