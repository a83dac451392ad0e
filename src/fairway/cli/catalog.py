"""What commands there are: their names, where they are and what they do in a line.

Also the help of `fairway` itself, which is made from that. Whoever asks for it should not wait for anything, so nothing
is imported here.
"""

COMMANDS = {
    "Jobs": {
        "launch": ("fairway.cli.launch", "Run a task once; after a preemption it is not run again."),
        "jobs": ("fairway.cli.jobs", "Jobs that come back by themselves: launch, queue, why, logs, cancel and more."),
        "status": ("fairway.cli.status", "Where the tasks stand that were launched."),
        "logs": ("fairway.cli.logs", "What a task wrote."),
        "down": ("fairway.cli.down", "End tasks that were launched, and forget them."),
    },
    "Queues": {
        "teams": ("fairway.cli.teams", "Teams that share the machine, each with its quota."),
        "queues": ("fairway.cli.queues", "Quota, what is used, borrowed and waited for, as bars."),
        "top": ("fairway.cli.top", "Jobs, queues and this machine, live."),
    },
    "Objects (with or without kubectl)": {
        "apply": ("fairway.cli.apply", "Create or change what a file says."),
        "get": ("fairway.cli.get", "List objects of any kind."),
        "describe": ("fairway.cli.describe", "All about one object, with its events."),
        "delete": ("fairway.cli.delete", "Delete objects."),
    },
    "Server": {
        "up": ("fairway.cli.up", "Start the server in the background, or find it running."),
        "serve": ("fairway.cli.serve", "Run the server in the foreground."),
        "shutdown": ("fairway.cli.shutdown", "End the server that runs in the background."),
        "doctor": ("fairway.cli.doctor", "Look for what is wrong, and say how to put it right."),
        "users": ("fairway.cli.users", "Add, list and remove users; make tokens."),
        "backup": ("fairway.cli.backup", "Copy everything a server needs to a file, and check the copy."),
        "restore": ("fairway.cli.restore", "Put a backup back."),
        "completion": ("fairway.cli.completion", "Print what makes the shell complete commands and jobs."),
        "version": ("fairway.cli.version", "Print the version."),
    },
}
"""By the heading that the help shows them under: the module, which has the command by its name, and the line."""

PLACES = {name: module for part in COMMANDS.values() for name, (module, _) in part.items()}

ALIASES = {"job": "jobs"}
"""Other words that people come with."""

_START = """\
Usage: fairway [OPTIONS] COMMAND [ARGS]...

  Fairway queues, prioritises, preempts and recovers jobs for many teams.

  Start here:
    fairway jobs launch 'echo hello'           run something; the server starts by itself
    fairway jobs launch train.yaml             a task file, as SkyPilot's
    fairway jobs queue                         who runs, who waits, and why
    fairway jobs why 1                         the whole story of one job
    export KUBECONFIG=~/.fairway/kubeconfig    then kubectl speaks to it as well
"""


def help_text() -> str:
    """What `fairway --help` prints."""
    width = max(len(name) for name in PLACES)
    parts = [_START]
    for heading, commands in COMMANDS.items():
        lines = [f"  {name:<{width}}  {line}" for name, (_, line) in commands.items()]
        parts.append("\n".join([f"{heading}:", *lines]) + "\n")
    parts.append("Options:\n  -h, --help  Show this message and exit.\n")
    parts.append("`fairway COMMAND --help` explains a command.\n")
    return "\n".join(parts)
