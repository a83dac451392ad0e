"""The official Python client, whose annotations are partly missing and partly narrower than what it takes."""

from typing import Any

import kubernetes.client
import kubernetes.config
import kubernetes.dynamic
import kubernetes.watch

client: Any = kubernetes.client
config: Any = kubernetes.config
dynamic: Any = kubernetes.dynamic
watch: Any = kubernetes.watch
