# syntax=docker/dockerfile:1
# The gateway: no torch, no SGLang. Pin the base with its digest: --build-arg BASE=python:3.11-slim@sha256:...
ARG BASE=python:3.11-slim

FROM ${BASE} AS build
WORKDIR /src
RUN python -m venv --without-pip /opt/specserve && python -m pip install --no-cache-dir "setuptools==80.9.0"
COPY deploy/requirements/gateway.txt requirements.txt
RUN python -m pip --python /opt/specserve/bin/python install --no-cache-dir --no-compile --no-deps -r requirements.txt
COPY pyproject.toml README.md LICENSE ./
COPY service service
RUN python -m pip wheel --no-cache-dir --no-deps --no-build-isolation --wheel-dir /wheels . \
    && python -m pip --python /opt/specserve/bin/python install --no-cache-dir --no-compile --no-deps /wheels/*.whl

FROM ${BASE}
RUN useradd --uid 10001 --user-group --no-create-home --shell /usr/sbin/nologin specserve
COPY --from=build /opt/specserve /opt/specserve
ENV PATH=/opt/specserve/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
USER 10001:10001
EXPOSE 8000 8001
STOPSIGNAL SIGTERM
ENTRYPOINT ["specserve"]
CMD ["gateway", "--host", "0.0.0.0"]
