"""The public names of what Shoal can be extended with; docs/extending.md has an example of each.

policy             how a host is treated: setting `policies = [..., "module:Class"]`
challenge check    what is not the page, though it looks like one: setting `challenge_check = "module:function"`
hooks, plugins     docs/hooks.md
source             where start URLs come from: `Spider(start=function)`, `shoal.add`
sink               where rows go: `shoal.crawl(spider, output=Sink)`
transport          what fetches a page: setting `transport = "module:Class"`
"""

from __future__ import annotations

from shoal.fetch.transport import FetchRequest, Transport
from shoal.model import DeadLetter, Failure, Outcome, Response, Row, Settlement, Task
from shoal.model.request import Request
from shoal.policy.protocol import Limits, Observation, Policy
from shoal.settings import Settings
from shoal.sink import Sink
from shoal.spider.hooks import JobSummary, OutgoingRequest
from shoal.spider.plugins import Plugin

__all__ = [
    "DeadLetter",
    "Failure",
    "FetchRequest",
    "JobSummary",
    "Limits",
    "Observation",
    "Outcome",
    "OutgoingRequest",
    "Plugin",
    "Policy",
    "Request",
    "Response",
    "Row",
    "Settings",
    "Settlement",
    "Sink",
    "Task",
    "Transport",
]
