# The image of the controller (`fairway cluster install --image`), and of a server in a container.
#
#   docker build -t registry.example.com/fairway:0.1.0 .
#
# It runs as user 65532 with a read-only root file system: only /var/lib/fairway (state) and /tmp are written to.
ARG PYTHON=3.11.14-slim-bookworm

FROM python:${PYTHON} AS build
WORKDIR /src
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY src src
# The environment is copied as a whole: it must be at the same path in both stages.
RUN python3 -m venv /opt/fairway \
 && /opt/fairway/bin/python -m pip install --no-cache-dir --disable-pip-version-check --constraint constraints.txt . \
 && /opt/fairway/bin/python -m pip uninstall --yes --quiet pip setuptools \
 && /opt/fairway/bin/fairway version

FROM python:${PYTHON}
LABEL org.opencontainers.image.title="Fairway" \
      org.opencontainers.image.description="Queues, prioritises, preempts and recovers batch and ML jobs for many teams." \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /opt/fairway /opt/fairway
RUN mkdir -m 0700 /var/lib/fairway && chown 65532:65532 /var/lib/fairway
ENV PATH=/opt/fairway/bin:/usr/local/bin:/usr/bin:/bin \
    HOME=/tmp \
    FAIRWAY_STATE=/var/lib/fairway \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
USER 65532:65532
WORKDIR /tmp
EXPOSE 9443
ENTRYPOINT ["fairway"]
CMD ["--help"]
