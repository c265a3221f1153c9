"""Interpreters for `shoal shell`: IPython, or Python's own with `await`, completion and a history."""

from __future__ import annotations

import ast
import builtins
import code
import signal
import sys
import traceback
from asyncio import CancelledError
from collections.abc import Callable
from inspect import iscoroutine
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

from shoal.errors import ShoalError
from shoal.spider.inner import FetchFailed
from shoal.text.humanize import printable

_HISTORY = 1000  # lines
_FILE = "<shell>"
_INTERRUPTED = (KeyboardInterrupt, CancelledError)  # the latter in a line with `await`
_TOLD = (ShoalError, FetchFailed)  # they say what to do; where inside Shoal they were raised helps nobody


def has_ipython() -> bool:
    """Whether it can be imported. One that is half installed counts as none."""
    try:
        import IPython.terminal.ipapp  # noqa: F401
    except ImportError:
        return False
    return True


def run_ipython(names: dict[str, Any], run: Callable[[Any], Any], banner: str) -> None:
    from IPython.terminal.ipapp import TerminalIPythonApp
    from traitlets.config import Config

    def runner(coroutine: Any) -> Any:  # a function, as IPython copies what it is configured with
        return run(coroutine)

    config = Config()
    config.TerminalInteractiveShell.banner1 = f"{banner}\n"
    config.TerminalInteractiveShell.loop_runner = runner
    config.TerminalInteractiveShell.confirm_exit = False
    config.TerminalInteractiveShell.enable_tip = False
    app: Any = TerminalIPythonApp.instance(config=config, user_ns=names)
    app.initialize([])
    app.shell.set_custom_exc((*_TOLD, *_INTERRUPTED), _tell_in_ipython)
    app.start()


def _tell_in_ipython(shell: Any, kind: type, error: BaseException, trace: Any, tb_offset: Any = None) -> None:
    line = "KeyboardInterrupt" if isinstance(error, _INTERRUPTED) else one_line(error)
    print(line, file=sys.stderr)  # noqa: T201


def one_line(error: BaseException) -> str:
    return f"{type(error).__name__}: {printable(str(error))}"


class Console(code.InteractiveConsole):
    """Python's own, in which `await` can be used."""

    def __init__(self, names: dict[str, Any], run: Callable[[Any], Any]) -> None:
        super().__init__(names, _FILE)
        self.names = names
        names.setdefault("__builtins__", builtins)
        self.run = run
        self.failed = False  # whether anything that was run has raised an error
        self.compile.compiler.flags |= ast.PyCF_ALLOW_TOP_LEVEL_AWAIT

    def raw_input(self, prompt: str = "") -> str:
        # After `breakpoint()` and `continue`, pdb's handler would open a debugger in this console.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        return super().raw_input(prompt)

    def runcode(self, code: CodeType) -> None:
        try:
            result = FunctionType(code, self.names)()
            if iscoroutine(result):
                self.run(result)
        except SystemExit:
            raise
        except KeyboardInterrupt:
            self.failed = True
            self.write("\nKeyboardInterrupt\n")
        except BaseException as error:
            self.failed = True
            self._tell(error)

    def _tell(self, error: BaseException) -> None:
        if isinstance(error, _TOLD):
            self.write(f"{one_line(error)}\n")
            return
        # The frames of whoever types, not those of the console above them.
        trace = error.__traceback__
        while trace is not None and trace.tb_frame.f_code.co_filename != _FILE:
            trace = trace.tb_next
        lines = traceback.format_exception(type(error), error, trace or error.__traceback__)
        self.write("".join(lines))


def run_code(names: dict[str, Any], run: Callable[[Any], Any], text: str) -> bool:
    """Runs lines as if they were typed, so that values of expressions are shown. Answers whether all went well."""
    console = Console(names, run)
    try:
        tree = ast.parse(text, _FILE)
    except (SyntaxError, ValueError) as error:
        sys.stderr.write("".join(traceback.format_exception_only(error)))
        return False
    for statement in tree.body:  # one by one: what has no `await` runs without a loop, as at the prompt
        line = ast.Interactive(body=[statement])
        console.runcode(compile(line, _FILE, "single", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT))
        if console.failed:
            return False
    return True


def run_console(names: dict[str, Any], run: Callable[[Any], Any], banner: str, history: Path) -> None:
    """Until the end of the input: Ctrl-D, or exit()."""
    names.setdefault("__name__", "__console__")
    with _Completion(names, history):
        try:
            Console(names, run).interact(banner, exitmsg="")
        except SystemExit:
            pass


class _Completion:
    """Completion with Tab, and lines of earlier sessions, where Python has readline."""

    def __init__(self, names: dict[str, Any], history: Path) -> None:
        self._names = names
        self._history = history
        try:
            import readline
        except ImportError:
            self._readline = None
        else:
            self._readline = readline

    def __enter__(self) -> None:
        if self._readline is None:
            return
        from rlcompleter import Completer

        self._readline.set_completer(Completer(self._names).complete)
        libedit = "libedit" in (self._readline.__doc__ or "")
        self._readline.parse_and_bind("bind ^I rl_complete" if libedit else "tab: complete")
        try:
            self._readline.read_history_file(self._history)
        except OSError:
            pass

    def __exit__(self, *exc: object) -> None:
        if self._readline is None:
            return
        self._readline.set_history_length(_HISTORY)
        try:
            self._history.parent.mkdir(parents=True, exist_ok=True)
            self._history.touch(0o600)
            self._readline.write_history_file(self._history)
        except OSError:
            pass  # a folder that cannot be written to has no history
