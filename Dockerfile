# One image for every role: shoal worker, coordinator, dashboard, submit; with --target browser, one that has a Chromium.
# docs/deploy.md tells how they are used, and deploy/rehearse.py runs these steps without a container engine.

FROM python:3.13-slim-trixie@sha256:9d2e5553305c7c7b0097999bb17187c69b921ccd6bc9d40e4bb5ebe652c00285 AS build
WORKDIR /src
COPY deploy/locks locks
RUN python -m venv --without-pip /opt/shoal
RUN python -m pip --python /opt/shoal/bin/python install --no-deps --require-hashes --requirement locks/image.txt
RUN mkdir /data
COPY pyproject.toml README.md LICENSE ./
COPY src src
RUN python -m pip wheel --no-deps --wheel-dir /wheels .
RUN python -m pip --python /opt/shoal/bin/python install --no-deps /wheels/shoal-*.whl

FROM build AS build-browser
RUN python -m pip --python /opt/shoal/bin/python install --no-deps --require-hashes --requirement locks/browser.txt

FROM python:3.13-slim-trixie@sha256:9d2e5553305c7c7b0097999bb17187c69b921ccd6bc9d40e4bb5ebe652c00285 AS base
LABEL org.opencontainers.image.title="Shoal" \
      org.opencontainers.image.description="A web scraping engine whose queue is the control system" \
      org.opencontainers.image.licenses="Apache-2.0"
ENV PATH=/opt/shoal/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
COPY --from=build --chown=10001:10001 /data /data
WORKDIR /data
# Shoal drains on it: pages in flight are finished or handed back.
STOPSIGNAL SIGTERM
# There is no HEALTHCHECK: only processes with --metrics can be asked. One that cannot go on ends, and one that hangs loses
# its leases to the others.
ENTRYPOINT ["shoal"]
CMD ["--help"]

FROM base AS browser
RUN apt-get update && apt-get install --yes --no-install-recommends chromium && rm -rf /var/lib/apt/lists/*
COPY --from=build-browser /opt/shoal /opt/shoal
USER 10001:10001

# The last one is made if none is named.
FROM base AS plain
# To the same place: the scripts of a virtual environment name its path.
COPY --from=build /opt/shoal /opt/shoal
# A number, so that Kubernetes can see that it is not root.
USER 10001:10001
