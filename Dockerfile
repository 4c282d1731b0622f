# Everturn in a container: docs/operate.md says how to run it. It is built from a release, which `make release`
# makes, and so needs no sources:
#
#   docker build -t everturn --build-arg EXTRAS=telegram,discord dist

ARG PYTHON=3.13

FROM python:${PYTHON}-slim AS build
# Which chat platforms and the like: telegram, discord, mcp, otel; separated by commas.
ARG EXTRAS=""
WORKDIR /src
RUN python -m venv /opt/everturn
COPY requirements.lock requirements-dev.lock ./
# Every file is one whose hash the lock names; nothing is compiled.
RUN /opt/everturn/bin/pip install --no-cache-dir --require-hashes --only-binary :all: \
    -r requirements.lock
COPY everturn-*.whl ./
# The extras in the versions of the lock.
RUN /opt/everturn/bin/pip install --no-cache-dir --no-deps everturn-*.whl \
    && if [ -n "$EXTRAS" ]; then \
         sed -e '/--hash=/d' -e 's/ *\\$//' requirements-dev.lock > constraints.txt \
         && /opt/everturn/bin/pip install --no-cache-dir --only-binary :all: \
           --constraint constraints.txt "everturn[$EXTRAS]"; \
       fi \
    && /opt/everturn/bin/pip uninstall --yes pip

FROM python:${PYTHON}-slim
# bubblewrap confines the commands of agents, where the container is allowed to make namespaces; where it
# is not, they run as user 10002 (`sandbox: plain`, `run_as: commands`), or not at all. See docs/operate.md.
RUN apt-get update \
    && apt-get install --yes --no-install-recommends bubblewrap \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --system --uid 10001 --home-dir /srv/everturn --shell /usr/sbin/nologin everturn \
    && useradd --system --uid 10002 --home-dir /nonexistent --shell /usr/sbin/nologin commands \
    && install --directory --owner=everturn --group=everturn --mode=700 /srv/everturn \
       /srv/everturn/.everturn /srv/everturn/.everturn/files
# A named volume that is mounted on a folder which is not there belongs to root, and nobody here may write.
COPY --from=build /opt/everturn /opt/everturn
# The home is the volume, so that `everturn setup` begins in an empty one.
ENV PATH=/opt/everturn/bin:$PATH PYTHONDONTWRITEBYTECODE=1 EVERTURN_HOME=/srv/everturn
USER 10001
# everturn.yaml, agents/ and .everturn, the workspace, which has to outlive the container.
WORKDIR /srv/everturn
VOLUME /srv/everturn
EXPOSE 8080
# Loopback is nobody's here. Beyond it EVERTURN_API_TOKEN, or server.api_token in everturn.yaml, is required.
HEALTHCHECK --interval=30s --timeout=5s --start-period=20s CMD ["python", "-c", "import json, urllib.request as web; web.urlopen(json.load(open('.everturn/gateway.json'))['url'] + '/livez', timeout=4)"]
ENTRYPOINT ["everturn"]
CMD ["serve", "--host", "0.0.0.0"]
