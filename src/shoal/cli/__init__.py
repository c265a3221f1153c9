"""The `shoal` command.

Whatever a person can get wrong ends in one line on stderr; a traceback is always our mistake, and says so.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

# All else is imported inside functions: until `main` is called, Ctrl-C shows a traceback.
INTERRUPTED = 130

# The words are those of `shoal --help`; docs/cli.md says more.
EXIT_CODES = {
    0: "all is well",
    1: "too much failed, or a bug",
    2: "wrong usage: an option, a setting, a URL or a spider",
    3: "the store or the results cannot be used",
    INTERRUPTED: "interrupted before or after the crawl proper",
}

_LEAST_FILES = 80  # with fewer open files, hardly a connection would be left

_closed_streams: set[str] = set()


def main(argv: Sequence[str] | None = None) -> None:
    """Runs the command line and exits the process. Commands that crawl do so in a child, under a guardian: the fork
    comes before all imports, which would make it slow."""
    _end_on_interrupt()
    from shoal.engine import guardian
    from shoal.engine.startup import postpone_collection
    from shoal.errors import ShoalError

    argv = sys.argv[1:] if argv is None else argv
    postpone_collection()
    open_closed_streams()
    _escape_what_cannot_be_written()
    if guardian.is_wanted(argv):
        try:
            guardian.guard()
        except ShoalError as error:
            raise SystemExit(complain(str(error), error.exit_code)) from None
    raise SystemExit(run(argv))


def run(argv: Sequence[str]) -> int:
    """Runs one command line; answers the exit code."""
    from shoal.cli.app import Abort, command_line, usage_mistake
    from shoal.errors import ShoalError
    from shoal.text import at_store, without_secrets

    before, stdout = at_store.set(""), sys.stdout
    files = _raise_file_limit()
    if files < _LEAST_FILES:
        return complain(
            f"only {files} files may be open (ulimit -n), Shoal needs {_LEAST_FILES}: raise it", 2
        )
    try:
        command = command_line(argv[0] if argv else "")
        _raise_on_interrupt()
        code = command(args=list(argv), prog_name="shoal", standalone_mode=False)
    except ShoalError as error:
        return complain(str(error), error.exit_code)
    except (KeyboardInterrupt, Abort):
        return INTERRUPTED
    except Exception as error:
        mistake = usage_mistake(error)
        if mistake is not None:
            return complain(without_secrets(mistake), 2)
        what = "this is a bug in Shoal; please report it with the traceback and shoal --version"
        return complain(what, 1, trace=True)
    finally:
        at_store.reset(before)
        if sys.stdout is not stdout:
            from shoal.telemetry.printing import give_stdout_back

            give_stdout_back()
    return code if isinstance(code, int) else 0


def _end_on_interrupt() -> None:
    """Ctrl-C ends the process at once, with one line. A KeyboardInterrupt inside an import may be swallowed by a module
    that is written in C, which then crashes later."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # and not ignored, as by nohup
        signal.signal(signal.SIGINT, _end)


def _end(number: int, frame: object) -> None:
    try:
        os.write(2, b"shoal: interrupted\n")
    finally:
        os._exit(INTERRUPTED)


def _raise_on_interrupt() -> None:
    """From now on Ctrl-C is a KeyboardInterrupt, unless a guardian handles it."""
    if signal.getsignal(signal.SIGINT) is _end:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def complain(message: str, code: int, *, trace: bool = False) -> int:
    """One line on stderr, whatever the message is made of; after the traceback of the error, if that is wanted."""
    import traceback

    from shoal.events import event
    from shoal.telemetry.logging import only_json
    from shoal.text import without_secrets
    from shoal.text.humanize import printable

    if only_json():
        event("command_failed", message, exc_info=trace, exit=code)
        return code
    if trace:
        sys.stderr.write(printable(without_secrets(traceback.format_exc())))
    print("shoal:", printable(" ".join(message.split())), file=sys.stderr)  # noqa: T201
    return code


def _raise_file_limit() -> float:
    """Raises the limit of open files as far as a process may, and returns it. The usual soft limit is for programs that
    use `select`."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        soft = hard
    except (OSError, ValueError):
        pass  # macOS may refuse "unlimited"; the limit then stays as it was
    return float("inf") if soft == resource.RLIM_INFINITY else soft


def open_closed_streams() -> None:
    """Opens standard input, output and error on /dev/null where the command was started without them (`<&-`, `>&-`,
    `2>&-`). Otherwise the next file that is opened takes the free number, and log lines go to a socket or the
    database. Called before anything else is opened."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number: this one
            os.set_inheritable(number, True)
            _closed_streams.add(name)
        if getattr(sys, name) is None:
            mode = "r" if name == "stdin" else "w"
            setattr(sys, name, open(number, mode, closefd=False, errors="backslashreplace"))  # noqa: SIM115


def _escape_what_cannot_be_written() -> None:
    """A terminal that does not take UTF-8 gets escapes for the characters that it lacks. Pages and items have any."""
    import io

    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.encoding.lower() != "utf-8":
        sys.stdout.reconfigure(errors="backslashreplace")


def is_closed(stream: str) -> bool:
    """Whether the command was started without this stream."""
    return stream in _closed_streams
