"""`shoal webhook`: whether a webhook takes what is sent to it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated

import typer

from shoal.cli.options import AsJson, Config, Pairs, Webhook, flags
from shoal.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shoal.fetch.webhook_sending import Receiver
    from shoal.model import Outcome
    from shoal.settings import Settings

app = typer.Typer(help="Try webhooks out.")


@app.callback(invoke_without_command=True)
def webhook(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@app.command("test")
def try_out(
    target: Annotated[
        str | None, typer.Argument(metavar="[SPIDER]", help="A spider whose settings name webhooks.")
    ] = None,
    webhook: Webhook = None,
    as_json: AsJson = False,
    pairs: Pairs = None,
    config: Config = None,
) -> None:
    """Send one delivery without changes to every webhook of the settings, signed as usual, and show the answers. Exit
    code 1 if one was not taken."""
    from shoal.config import load
    from shoal.engine.event_loop import run_loop
    from shoal.fetch.webhook_sending import read_receivers
    from shoal.terminal.console import print_json, safe, stdout

    given = flags(pairs, webhook=webhook or None)
    spider = _settings_of(target) if target is not None else {}
    settings = load(config, spider, os.environ, given)
    receivers = read_receivers(settings, os.environ)
    if not receivers:
        raise UsageError(
            "no webhook is set: give --webhook URL, or the setting webhook; see docs/webhooks.md"
        )
    answers = run_loop(_ask_all(settings, receivers))
    told = [_told(one, outcome) for one, outcome in zip(receivers, answers, strict=True)]
    if as_json:
        print_json(told)
    else:
        for one in told:
            stdout().print(safe(f"{one['webhook']}: {one['answer']}", "green" if one["taken"] else "red"))
    if not all(one["taken"] for one in told):
        raise typer.Exit(1)


def _settings_of(target: str) -> dict[str, object]:
    from shoal.spider.loading import load_spider

    return dict(load_spider(target).settings)


async def _ask_all(settings: Settings, receivers: Sequence[Receiver]) -> list[Outcome]:
    from uuid import uuid4

    import msgspec

    from shoal.clock import SystemClock
    from shoal.fetch.webhook_sending import Sender

    sender = Sender(settings, receivers, SystemClock())
    answers: list[Outcome] = []
    try:
        for one in receivers:
            id = uuid4().hex
            body = msgspec.json.encode({"id": id, "event": "test", "changes": []})
            answers.append(await sender.send(one, body, id=id, event="test"))
    finally:
        await sender.close()
    return answers


def _told(receiver: Receiver, outcome: Outcome) -> dict[str, object]:
    from shoal.model import Response
    from shoal.policy.outcomes import rule_for
    from shoal.text import humanize, one_line

    taken = isinstance(outcome, Response) and 200 <= outcome.status < 300
    if isinstance(outcome, Response):
        said = one_line(outcome.body.decode(errors="replace"))[:200]
        answer = f"HTTP {outcome.status} in {humanize.latency(outcome.elapsed)}{f': {said}' if said else ''}"
    else:
        answer = one_line(outcome.detail or rule_for(outcome.kind).meaning)
    return {"webhook": receiver.name, "taken": taken, "answer": answer}
