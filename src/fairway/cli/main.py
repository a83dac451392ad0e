"""`fairway`: the door for people.

Help and version are printed before anything is imported. All other commands go through click, which is imported for
them, and whatever goes wrong ends here: in a line on stderr and an exit code, never in a traceback that nobody asked
for. 0 is fine, 1 refused or failed, 2 wrong usage or a wrong task file, 130 interrupted.
"""

import os
import sys

_COMPLETING = "_FAIRWAY_COMPLETE"
"""Set when a shell asks for completions, which comes without arguments as well."""


def main(arguments: list[str] | None = None) -> int:
    """Run a command and return its exit code."""
    words = sys.argv[1:] if arguments is None else arguments
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a name that cannot be shown is no reason to show nothing
    if _COMPLETING not in os.environ:
        if words in ([], ["-h"], ["--help"], ["help"]):
            return _told(_help())
        if words in (["version"], ["--version"]):
            return _told(_version())
    return _run(words)


def _help() -> str:
    from fairway.cli.catalog import help_text  # noqa: PLC0415 - not for commands

    return help_text()


def _version() -> str:
    from fairway import __version__  # noqa: PLC0415 - not for commands

    return f"fairway {__version__}\n"


def _told(text: str) -> int:
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        return _nobody_listens()
    return 0


def _run(words: list[str]) -> int:
    import gc  # noqa: PLC0415

    # Importing and decoding make much that stays and nothing that goes: looking for garbage would only take time.
    gc.set_threshold(20_000, 50, 100)
    import click  # noqa: PLC0415 - help must not wait for it

    from fairway.cli.group import fairway  # noqa: PLC0415
    from fairway.errors import FairwayError  # noqa: PLC0415

    try:
        # What click gives back is the exit code of a command that ended early, or what the command returned.
        code = fairway.main(words, prog_name="fairway", standalone_mode=False)
        sys.stdout.flush()
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except click.Abort as stop:
        if isinstance(stop.__cause__, KeyboardInterrupt):
            return 130
        click.echo("Aborted!", err=True)
        return 1
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        return _nobody_listens()
    except FairwayError as error:
        from fairway.cli.session import without_number  # noqa: PLC0415 - only when something is wrong

        click.echo(f"fairway: {without_number(str(error))}{_way_out(error)}", err=True)
        return _exit_code(error)
    except OSError as error:
        # Files that somebody has taken away, or the rights to them; what is expected is said where it happens.
        click.echo(f"fairway: {error.filename or 'this directory'}: {error.strerror or error}", err=True)
        return 1
    return code if isinstance(code, int) else 0


def _nobody_listens() -> int:
    """Whoever read our output has gone: what is left of it goes nowhere, and quietly."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 1


def _way_out(error: Exception) -> str:
    from fairway.client.rest import Unreachable  # noqa: PLC0415 - only when something is wrong

    if not isinstance(error, Unreachable):
        return ""
    return "\n`fairway up` starts the server of this machine; `fairway doctor` looks for what is wrong."


def _exit_code(error: Exception) -> int:
    from fairway.managed.tasks.errors import TaskError  # noqa: PLC0415 - only when something is wrong
    from fairway.settings import SettingsError  # noqa: PLC0415

    return 2 if isinstance(error, TaskError | SettingsError) else getattr(error, "exit_code", 1)


if __name__ == "__main__":
    sys.exit(main())
