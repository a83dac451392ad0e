"""`fairway service`: the server as a service of systemd, so that it starts with the machine."""

import os
from typing import Any

import click
from click.core import ParameterSource

from fairway.cli.options import serving_options
from fairway.cli.session import output_option, print_note

_system_option = click.option(
    "--system", is_flag=True, help="Install a service of the machine (needs root).  [default: of this user]"
)


@click.group()
def service() -> None:
    """Run the server as a systemd service: it starts at boot, and restarts after a crash.

    Jobs keep running while the service is stopped or restarted, as after `fairway shutdown`.

    \b
    Examples:
      fairway service install --print
    """


@service.command()
@serving_options
@_system_option
@click.option("--run-as", metavar="USER", help="With --system: user of the server and its jobs.")
@click.option("--print", "printed", is_flag=True, help="Print the unit; change nothing.")
@click.pass_context
def install(ctx: click.Context, /, *, system: bool, run_as: str | None, printed: bool, **options: Any) -> None:
    """Write the unit, start the service, and enable it at boot.

    The options are those of `fairway up`; options not given keep their saved values. An existing unit is replaced, and
    the service restarted. A service of a user runs while the user is logged in; `loginctl enable-linger` makes it run
    always.

    \b
    Examples:
      fairway service install --print --cpus 16 --gpus T4:8
    """
    from fairway.cli import remembering, units  # noqa: PLC0415 - help must be quick
    from fairway.cli.background import is_running, serving_arguments  # noqa: PLC0415

    given = {
        name: value
        for name, value in options.items()
        if name != "state" and ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE
    }
    if run_as and not system:
        raise click.UsageError("--run-as needs --system: a service of a user runs as that user")
    unit, state = units.Unit(system), options["state"]
    if run_as and ctx.get_parameter_source("state") is not ParameterSource.COMMANDLINE:
        state = units.state_of(run_as)
    settings, kept = remembering.settings_with(state.absolute(), given)
    text = unit.text(serving_arguments(settings), run_as)
    if printed:
        click.echo(text, nl=False)
        return
    units.check_systemd()
    if system and os.geteuid() != 0:
        raise click.UsageError("--system needs root: `sudo fairway service install --system --run-as USER`")
    if is_running(settings.state) and not unit.path.is_file():
        raise click.UsageError(f"a server already runs on {settings.state}; stop it first: fairway shutdown")
    if run_as:
        units.check_account(run_as)
    units.install(unit, text)
    click.echo(f"Installed {unit.path}; the server runs, and starts at boot.")
    if kept.words:
        print_note(f"Saved options used: {kept.words}.")
    if not system:
        print_note("To run it while you are not logged in: loginctl enable-linger")


@service.command()
@_system_option
def uninstall(*, system: bool) -> None:
    """Stop the service and remove its unit; the state directory and running jobs stay.

    \b
    Example:
      fairway service uninstall
    """
    from fairway.cli import units  # noqa: PLC0415 - help must be quick

    units.check_systemd()
    unit = units.Unit(system)
    if not unit.path.is_file():
        raise click.ClickException(f"{unit.path} does not exist: no service is installed")
    units.must(unit, "disable", "--now", units.NAME)
    unit.path.unlink()
    units.must(unit, "daemon-reload")
    click.echo(f"Removed {unit.path}. Running jobs are not stopped; `fairway shutdown --jobs` stops them.")


@service.command()
@output_option
@_system_option
def status(*, output: str, system: bool) -> None:
    """Show whether the service is installed and runs; exits with 3 if it does not run, as systemctl does.

    \b
    Example:
      fairway service status
    """
    from fairway.cli import units  # noqa: PLC0415 - help must be quick
    from fairway.cli.tables import as_json  # noqa: PLC0415

    unit = units.Unit(system)
    installed = unit.path.is_file()
    units.check_systemd()
    active = installed and units.ask(unit, "is-active", "--quiet", units.NAME) == 0
    enabled = installed and units.ask(unit, "is-enabled", "--quiet", units.NAME) == 0
    if output == "json":
        click.echo(as_json({"unit": str(unit.path), "installed": installed, "active": active, "enabled": enabled}))
    elif not installed:
        click.echo(f"No service is installed ({unit.path} does not exist); `fairway service install` installs one.")
    else:
        start = "at boot" if enabled else "by hand"
        click.echo(f"{unit.path}: {'runs' if active else 'does not run'}, starts {start}.")
    if not active:
        raise click.exceptions.Exit(3)
