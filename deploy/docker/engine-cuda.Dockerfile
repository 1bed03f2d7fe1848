# syntax=docker/dockerfile:1
# Engines on GPUs: SGLang's published image with specserve's plugin, and SGLang's router for prefill/decode pairs.
# Its SGLang must be the version that specserve was made for. Pin it: --build-arg BASE=lmsysorg/sglang:v0.5.23@sha256:...
ARG BASE=lmsysorg/sglang:v0.5.23

FROM ${BASE}
USER root
WORKDIR /src
COPY deploy/requirements/cuda-engine.txt cuda-engine.txt
# What the base has already stays as SGLang chose it.
RUN python3 -m pip install --no-cache-dir --no-deps -r cuda-engine.txt
COPY pyproject.toml README.md LICENSE ./
COPY service service
RUN python3 -m pip install --no-cache-dir . \
    && python3 -c "import importlib.metadata as m; v = m.version('sglang'); assert v == '0.5.23', v" \
    && useradd --uid 10001 --user-group --create-home --shell /usr/sbin/nologin specserve \
    && install --directory --owner=10001 --group=10001 /var/cache/specserve
ENV PYTHONUNBUFFERED=1 SPECSERVE_CACHE_DIR=/var/cache/specserve
WORKDIR /home/specserve
USER 10001:10001
EXPOSE 30000
STOPSIGNAL SIGTERM
ENTRYPOINT ["specserve"]
CMD ["engine"]
