"""What the API server costs over HTTP: creates, status patches, watchers, lists, starts.

``python -m bench.api`` starts Fairway on a fresh state directory of this disk and prints one table; with ``--server``
and ``--token`` the same load goes to any other Kubernetes API server that has Kueue's kinds. Nothing here imports the
server: it is started as a process and met only over HTTP, so that both kinds of server are measured alike. (Only
``stuffing`` knows its file, to fill one quickly.)
"""
