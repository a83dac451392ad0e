"""`fairway`: the entry point of the command line.

Help and version are printed before anything is imported. All other commands go through click. Every error ends here:
as `error: …` on standard error and an exit code, never as a traceback. 0 is success, 1 refused or failed, 2 wrong usage
or a wrong task file, 130 interrupted, 141 if the reader of the output is gone.
"""

import os
import sys

_COMPLETING = "_FAIRWAY_COMPLETE"
"""Set when a shell asks for completions, which comes without arguments as well."""

_INTERRUPTED = 130
_BROKEN_PIPE = 141


def main(arguments: list[str] | None = None) -> int:
    """Run a command and return its exit code."""
    words = sys.argv[1:] if arguments is None else arguments
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a name that cannot be shown is no reason to show nothing
    if _COMPLETING not in os.environ:
        if words in ([], ["-h"], ["--help"], ["help"]):
            return _print(_help())
        if words in (["version"], ["--version"]):
            return _print(_version())
    return _run(words)


def _help() -> str:
    from fairway.cli.catalog import help_text  # noqa: PLC0415 - not for commands

    return help_text()


def _version() -> str:
    from fairway import __version__  # noqa: PLC0415 - not for commands

    return f"fairway {__version__}\n"


def _print(text: str) -> int:
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        return _on_broken_pipe()
    return 0


def _run(words: list[str]) -> int:
    try:
        code = _command(words)
        sys.stdout.flush()
        sys.stderr.flush()
    except BrokenPipeError:
        return _on_broken_pipe()
    except KeyboardInterrupt:
        sys.stderr.write("\n")  # after the terminal's `^C`
        return _INTERRUPTED
    return code


def _command(words: list[str]) -> int:
    import gc  # noqa: PLC0415

    # Importing and decoding allocate much that stays: collecting garbage would only take time.
    gc.set_threshold(20_000, 50, 100)
    import click  # noqa: PLC0415 - help must not wait for it

    from fairway.cli.group import fairway  # noqa: PLC0415
    from fairway.errors import FairwayError  # noqa: PLC0415

    try:
        if _COMPLETING in os.environ:
            fairway.main(words, prog_name="fairway")
        # Not `fairway.main`: it ends a broken pipe and Ctrl-C in its own way.
        with fairway.make_context("fairway", list(words)) as context:
            code = fairway.invoke(context)
    except click.exceptions.Exit as end:
        return end.exit_code
    except click.UsageError as error:
        where = f"\nSee `{error.ctx.command_path} --help`." if error.ctx is not None else ""
        return _fail(f"{_uncapitalized(error.format_message())}{where}", error.exit_code)
    except click.ClickException as error:
        return _fail(_uncapitalized(error.format_message()), error.exit_code)
    except click.Abort:
        click.echo("Nothing was changed.", err=True)
        return 1
    except FairwayError as error:
        from fairway.cli.session import without_number  # noqa: PLC0415 - only when something is wrong

        return _fail(f"{without_number(str(error))}{_way_out(error)}", _exit_code(error))
    except BrokenPipeError:
        raise
    except OSError as error:
        # Foreseen ones are reported where they happen; this is a file that vanished or may not be read.
        if error.filename is None and isinstance(error, FileNotFoundError):  # what `os.getcwd` raises
            return _fail("the current directory has been removed; change to another one", 1)
        return _fail(f"{error.filename or 'this directory'}: {error.strerror or error}", 1)
    return code if isinstance(code, int) else 0


def _fail(message: str, code: int) -> int:
    """Print an error, the same way for every command."""
    sys.stdout.flush()
    sys.stderr.write(f"error: {message}\n")
    return code


def _uncapitalized(message: str) -> str:
    """click's messages are sentences; ours follow `error:`."""
    return message[:1].lower() + message[1:] if message[1:2].islower() else message


def _on_broken_pipe() -> int:
    """The reader of our output is gone: drop the rest quietly, and end as if by SIGPIPE."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BrokenPipeError:
            os.dup2(nowhere, stream.fileno())
    return _BROKEN_PIPE


def _way_out(error: Exception) -> str:
    notes = [note for note in getattr(error, "__notes__", ()) if note]
    if notes:  # of a session with another server
        return "".join(f"\n{note}" for note in notes)
    from fairway.client.rest import Unreachable  # noqa: PLC0415 - only when something is wrong

    if not isinstance(error, Unreachable):
        return ""
    return "\n`fairway up` starts the server of this machine; `fairway doctor` finds what is wrong."


def _exit_code(error: Exception) -> int:
    from fairway.managedjobs.tasks.errors import TaskError  # noqa: PLC0415 - only when something is wrong
    from fairway.settings import SettingsError  # noqa: PLC0415

    return 2 if isinstance(error, TaskError | SettingsError) else getattr(error, "exit_code", 1)


if __name__ == "__main__":
    sys.exit(main())
