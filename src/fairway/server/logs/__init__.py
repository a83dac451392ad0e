"""What the containers of a pod wrote: where it is kept, and how it is read.

Under the state directory there is one file for each time that a container was started:

    logs/<namespace>/<uid of the pod>/<container>/<restart>.log

where `<restart>` is the `restartCount` of that time, and in it one entry for each line, as container runtimes write
them:

    2026-11-16T08:30:00.123456789Z stdout F the text

The time is in UTC with nine digits, so that times can be compared as text. `stdout` or `stderr` says where the text
came from. `F` marks the end of a line; `P` a piece of a line too long to be kept as one, whose rest follows in the
next entry of that stream. Text is kept as the bytes it was.

`entries` writes and reads this format, `requests` says which container and which part of its log a request means,
`reading` finds that part and follows it. Nothing here runs containers or knows HTTP.
"""
