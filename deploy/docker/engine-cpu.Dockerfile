# syntax=docker/dockerfile:1
# Engines on a plain CPU, with the default model in a wheel: it is prepared in /var/cache/specserve at the first start,
# without a network. PyPI's torch brings its CUDA libraries (6 GB); it does not import without them.
# Pin the base with its digest: --build-arg BASE=python:3.11-slim@sha256:...
ARG BASE=python:3.11-slim

FROM ${BASE} AS build
WORKDIR /src
RUN python -m venv --without-pip /opt/specserve && python -m pip install --no-cache-dir "setuptools==80.9.0"
COPY deploy/requirements/torch.txt torch.txt
RUN python -m pip --python /opt/specserve/bin/python install --no-cache-dir --no-compile -r torch.txt
COPY deploy/requirements/cpu-engine.txt cpu-engine.txt
RUN python -m pip --python /opt/specserve/bin/python install --no-cache-dir --no-compile --no-deps -r cpu-engine.txt
COPY pyproject.toml README.md LICENSE ./
COPY service service
RUN python -m pip wheel --no-cache-dir --no-deps --no-build-isolation --wheel-dir /wheels . \
    && python -m pip --python /opt/specserve/bin/python install --no-cache-dir --no-compile --no-deps /wheels/*.whl

FROM ${BASE}
# SGLang loads libnuma; torch and Triton build their helpers with a compiler.
RUN apt-get update && apt-get install --yes --no-install-recommends libnuma1 g++ && rm -rf /var/lib/apt/lists/* \
    && useradd --uid 10001 --user-group --create-home --shell /usr/sbin/nologin specserve \
    && install --directory --owner=10001 --group=10001 /var/cache/specserve
COPY --from=build /opt/specserve /opt/specserve
ENV PATH=/opt/specserve/bin:$PATH PYTHONUNBUFFERED=1 SPECSERVE_CACHE_DIR=/var/cache/specserve
USER 10001:10001
EXPOSE 30000
STOPSIGNAL SIGTERM
ENTRYPOINT ["specserve"]
CMD ["engine"]
