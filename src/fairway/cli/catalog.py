"""The commands: their names, their modules and one line about each; and the help of `fairway`, made from that.

Nothing is imported here, so that help is instant.
"""

COMMANDS = {
    "Jobs": {
        "launch": ("fairway.cli.launch", "Run a task once, without a restart after a preemption."),
        "jobs": ("fairway.cli.jobs", "Managed jobs, restarted after a preemption: launch, queue, why, cancel ..."),
        "status": ("fairway.cli.status", "Show launched tasks."),
        "logs": ("fairway.cli.jobs.logs", "Print and follow the log of a job or a pod."),
        "down": ("fairway.cli.down", "Stop launched tasks and delete them."),
        "ray": ("fairway.cli.ray", "Ray clusters on this machine: dashboard."),
    },
    "Queues": {
        "teams": ("fairway.cli.teams", "Add, list, change and remove teams and their quota."),
        "quota": ("fairway.cli.quota", "Define quota for organizations and teams in one file; find changes by hand."),
        "queues": ("fairway.cli.queues", "Show quota, usage, borrowing and pending jobs of all queues."),
        "usage": (
            "fairway.cli.usage",
            "Show what was used: CPU and GPU hours, waits, success, by user, queue or month.",
        ),
        "simulate": (
            "fairway.cli.simulate",
            "What if: other quotas, priorities, nodes or jobs, played in virtual time.",
        ),
        "top": ("fairway.cli.top", "Show jobs, queues and this machine, live."),
        "dashboard": ("fairway.cli.dashboard", "Open the web page: queue, quota, jobs, history, what if."),
    },
    "Objects (with or without kubectl)": {
        "schedule": ("fairway.cli.schedule", "Print manifests with the queue and the gang that a scheduler needs."),
        "apply": ("fairway.cli.apply", "Create or change objects from a file."),
        "get": ("fairway.cli.get", "List objects of any kind."),
        "describe": ("fairway.cli.describe", "Show all fields of an object, and its events."),
        "delete": ("fairway.cli.delete", "Delete objects."),
    },
    "Server": {
        "use": ("fairway.cli.use", "Choose the server or cluster that the commands use, by its context."),
        "up": ("fairway.cli.up", "Start the server in the background, if it is not running."),
        "serve": ("fairway.cli.serve", "Run the server in the foreground."),
        "controller": ("fairway.cli.controller", "Run controllers in a process of their own, beside a server."),
        "cluster": ("fairway.cli.cluster", "Install Fairway on a Kubernetes cluster, check it, and remove it."),
        "node": ("fairway.cli.node", "Make this machine a node of a Kubernetes cluster, with pods as processes."),
        "shutdown": ("fairway.cli.shutdown", "Stop the server."),
        "service": ("fairway.cli.service", "Run the server as a systemd service, started at boot."),
        "doctor": ("fairway.cli.doctor", "Find problems, and print how to fix them."),
        "users": ("fairway.cli.users", "Add, list and remove users; create tokens."),
        "backup": ("fairway.cli.backup", "Write a backup of the server to a file, and verify it."),
        "restore": ("fairway.cli.restore", "Restore a backup."),
        "completion": ("fairway.cli.completion", "Print the shell completion script."),
        "version": ("fairway.cli.version", "Print the version."),
    },
}
"""By heading of the help: the module, which has the command as an attribute of its name, and one line about it."""

PLACES = {name: module for part in COMMANDS.values() for name, (module, _) in part.items()}

ALIASES = {"job": "jobs"}
"""Other names of commands. All commands of `jobs` but `launch` also work without `jobs` (see `group`)."""

_START = """\
Usage: fairway [OPTIONS] COMMAND [ARGS]...

  Fairway queues, prioritises, preempts and recovers jobs for many teams.

  Start here:
    fairway jobs launch 'echo hello'           run a command; starts the server
    fairway jobs launch train.yaml             run a task file in SkyPilot's format
    fairway queue                              list running and waiting jobs
    fairway why 1                              explain one job
    export KUBECONFIG=~/.fairway/kubeconfig    use kubectl with it
"""


def help_text() -> str:
    """The text of `fairway --help`."""
    width = max(len(name) for name in PLACES)
    parts = [_START]
    for heading, commands in COMMANDS.items():
        lines = [f"  {name:<{width}}  {line}" for name, (_, line) in commands.items()]
        parts.append("\n".join([f"{heading}:", *lines]) + "\n")
    parts.append(
        "The commands of `fairway jobs` work without `jobs` as well:\n"
        "  queue (or ls), why, history, files, download, wait, cancel, hold, release, retry, priority\n"
    )
    parts.append("Options:\n  -h, --help  Show this message and exit.\n")
    parts.append("`fairway COMMAND --help` explains a command.\n")
    return "\n".join(parts)
