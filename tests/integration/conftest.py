from __future__ import annotations

from collections.abc import Iterator

import pytest

from shoal.testing.servers.s3 import S3Front, S3Server


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with S3Server(tmp_path_factory.mktemp("s3")) as server:
        yield server


@pytest.fixture
def s3_front(s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[S3Front]:
    """An empty bucket, named bucket, for this process and its children."""
    s3_server.forget()
    s3_server.make_bucket("bucket")
    with S3Front(s3_server) as front:
        for name, value in s3_server.environment_for(front.url).items():
            monkeypatch.setenv(name, value)
        yield front
