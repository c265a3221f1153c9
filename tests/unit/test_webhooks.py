"""Webhooks: from changes to deliveries, from settings to receivers, and what is signed."""

from __future__ import annotations

import hashlib
import json

import pytest

from shoal.engine.webhooks import webhook_tasks
from shoal.errors import SettingsError
from shoal.fetch.webhook_sending import read_receivers, signature
from shoal.limits import WEBHOOK_BODY, WEBHOOK_CHANGES
from shoal.model import Row, Task, webhook_host
from shoal.settings import SECRET, Settings
from shoal.text import without_secrets

PAGE = Task("http://shop.test/1", "product", id=7, job="shop", lane="discovery")


def change(number: int = 0, **fields: object) -> Row:
    told = {"key": str(number), "field": "price", "old": 1, "new": 2, **fields}
    return Row(json.dumps(told).encode() + b"\n", table="changes", at=1_700_000_000.5)


def by_hand(secret: bytes, message: bytes) -> str:
    """HMAC as RFC 2104 writes it down, for a key of at most one block."""
    key = secret.ljust(64, b"\0")
    inner = hashlib.sha256(bytes(byte ^ 0x36 for byte in key) + message).digest()
    return hashlib.sha256(bytes(byte ^ 0x5C for byte in key) + inner).hexdigest()


# -- tasks


def test_one_delivery_for_each_webhook_of_all_changes_of_a_page() -> None:
    settings = Settings(webhook=["http://a.test/x", "http://b.test/y"])
    first, second = webhook_tasks([change(1), change(2)], PAGE, settings)
    told = json.loads(first.body or b"")
    assert told["changes"] == [json.loads(change(1).data), json.loads(change(2).data)]
    assert (told["event"], told["job"], told["url"]) == ("changes", "shop", "http://shop.test/1")
    assert told["at"] == "2023-11-14T22:13:20.500+00:00"
    assert [one.host for one in (first, second)] == [webhook_host(1), webhook_host(2)]
    assert (first.meta, first.lane, first.parent) == ({"webhook": 1, "delivery": told["id"]}, "urgent", 7)
    assert json.loads(second.body or b"")["id"] != told["id"]
    assert first.fingerprint is None, "the same changes may come again"


def test_nothing_is_delivered_without_a_webhook_or_a_change() -> None:
    assert webhook_tasks([change()], PAGE, Settings()) == ()
    assert webhook_tasks([], PAGE, Settings(webhook="http://a.test/x")) == ()


def test_a_process_that_serves_other_lanes_delivers_in_the_lane_of_the_page() -> None:
    settings = Settings(webhook="http://a.test/x", serve=["discovery"])
    assert [one.lane for one in webhook_tasks([change()], PAGE, settings)] == ["discovery"]


def test_many_changes_are_several_deliveries() -> None:
    changes = [change(number) for number in range(WEBHOOK_CHANGES + 1)]
    parts = [
        json.loads(one.body or b"")
        for one in webhook_tasks(changes, PAGE, Settings(webhook="http://a.test/x"))
    ]
    assert [(one["part"], one["parts"], len(one["changes"])) for one in parts] == [
        (1, 2, WEBHOOK_CHANGES),
        (2, 2, 1),
    ]
    assert len({one["id"] for one in parts}) == 2


def test_a_delivery_is_bounded_in_bytes() -> None:
    long = [change(number, new="x" * 50_000) for number in range(10)]
    bodies = [one.body or b"" for one in webhook_tasks(long, PAGE, Settings(webhook="http://a.test/x"))]
    assert len(bodies) > 1
    assert all(len(body) < WEBHOOK_BODY + 1_000 for body in bodies)
    assert sum(len(json.loads(body)["changes"]) for body in bodies) == 10


def test_a_change_that_is_too_long_is_told_without_its_values() -> None:
    [one] = webhook_tasks([change(3, new="x" * WEBHOOK_BODY)], PAGE, Settings(webhook="http://a.test/x"))
    assert json.loads(one.body or b"")["changes"] == [{"key": "3", "field": "price", "too_long": True}]


# -- settings


def test_addresses_and_secrets_are_filled_in_from_the_environment_and_hidden() -> None:
    settings = Settings(
        webhook="https://hooks.test/t/${HOOK_TOKEN}?key=${HOOK_TOKEN}", webhook_secret="${KEY}"
    )
    [one] = read_receivers(settings, {"HOOK_TOKEN": "t0ken-of-mine", "KEY": "hush-hush"})
    assert one.url == "https://hooks.test/t/t0ken-of-mine?key=t0ken-of-mine"
    assert (one.secrets, one.name) == (("hush-hush",), "webhook 1 (hooks.test)")
    for shown in (repr(one), repr(settings), without_secrets(f"POST {one.url} failed with hush-hush")):
        assert "t0ken" not in shown
        assert "hush" not in shown
    assert {"webhook", "webhook_secret"} <= SECRET, "they would be stored with the job"


def test_a_password_in_an_address_is_sent_as_a_header() -> None:
    [one] = read_receivers(Settings(webhook="https://me:pass@hooks.test/x"), {})
    assert (one.url, one.headers) == ("https://hooks.test/x", {"Authorization": "Basic bWU6cGFzcw=="})


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (
            Settings(webhook="hooks.test/s3cret"),
            "webhook: number 1 is not an address; write it like https://",
        ),
        (Settings(webhook=["https://a.test/", "ftp://b.test/s3cret"]), "webhook: number 2 is not an address"),
        (Settings(webhook="https://[::/s3cret"), "webhook: number 1 is not an address"),
        (Settings(webhook="https://a.test/${NOT_SET}"), "webhook: number 1: the variable NOT_SET is not set"),
        (
            Settings(webhook="https://a.test/", webhook_secret="${NOT_SET}"),
            "webhook_secret: the variable NOT_SET",
        ),
    ],
)
def test_what_cannot_be_a_webhook_is_told_in_one_line(settings: Settings, said: str) -> None:
    with pytest.raises(SettingsError) as raised:
        read_receivers(settings, {})
    assert str(raised.value).startswith(said)
    assert "s3cret" not in str(raised.value)


# -- the signature


@pytest.mark.parametrize("body", [b"{}", b'{"a":"\xc3\xa9"}', b"", b"\x00\xff" * 100])
def test_the_signature_is_an_hmac_of_the_moment_and_the_body(body: bytes) -> None:
    made = signature(body, 1_700_000_000, ["hush"])
    assert made == f"t=1700000000,v1={by_hand(b'hush', b'1700000000.' + body)}"


def test_while_a_secret_is_replaced_both_sign() -> None:
    made = signature(b"{}", 5, ["old", "new"])
    assert made == f"t=5,v1={by_hand(b'old', b'5.{}')},v1={by_hand(b'new', b'5.{}')}"
