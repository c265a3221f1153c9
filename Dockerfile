# One image for every role: shoal worker, shoal coordinator, shoal submit. docs/deploy.md tells how it is used, and
# deploy/rehearse.py runs these steps without a container engine.

FROM python:3.13-slim-trixie AS build
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY src src
RUN python -m pip wheel --no-deps --wheel-dir /wheels .
RUN python -m venv --without-pip /opt/shoal
RUN python -m pip --python /opt/shoal/bin/python install "$(echo /wheels/shoal-*.whl)[redis,postgres,dashboard]"
RUN mkdir /data

FROM python:3.13-slim-trixie
LABEL org.opencontainers.image.title="Shoal" \
      org.opencontainers.image.description="A web scraping engine whose queue is the control system" \
      org.opencontainers.image.licenses="Apache-2.0"
# To the same place: the scripts of a virtual environment name its path.
COPY --from=build /opt/shoal /opt/shoal
COPY --from=build --chown=10001:10001 /data /data
ENV PATH=/opt/shoal/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
WORKDIR /data
# A number, so that Kubernetes can see that it is not root.
USER 10001:10001
# Shoal drains on it: pages in flight are finished or handed back.
STOPSIGNAL SIGTERM
# There is no HEALTHCHECK: only processes with --metrics can be asked. One that cannot go on ends, and one that hangs loses
# its leases to the others.
ENTRYPOINT ["shoal"]
CMD ["--help"]
