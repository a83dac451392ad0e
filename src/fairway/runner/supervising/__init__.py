"""The supervisor: one small process per state directory that holds the processes of all jobs and outlives the server.

It starts processes, writes their output to log files, and keeps their results until the server acknowledges them. It
knows nothing of pods, queues or the API, and imports as little as it can: no asyncio, no server, no store. It runs on
the machine's real time. The server's end of the conversation is `fairway.runner.supervision`.
"""
