# dragoman serve in a container, without root; model folders are mounted (docs/three_servers.md).
#   docker build --tag dragoman-server .
#   docker run --publish 127.0.0.1:8000:8000 --volume "$PWD/models:/models:ro" dragoman-server talks=/models/talks
# For a GPU: --build-arg TORCH_INDEX=https://pypi.org/simple, whose torch brings CUDA: some GB more.
# Absolute paths stand in ENV, WORKDIR and COPY alone: so scripts/check_image.py can run the steps without Docker.
FROM python:3.13-slim-bookworm AS build
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
ARG EXTRAS=serve,subtitles,markdown
ENV VIRTUAL_ENV=/opt/dragoman
WORKDIR /source
COPY . .
RUN python -m venv "$VIRTUAL_ENV" \
    && "$VIRTUAL_ENV/bin/python" -m pip install --no-cache-dir --constraint constraints.txt \
    --extra-index-url "$TORCH_INDEX" ".[$EXTRAS]"

FROM python:3.13-slim-bookworm
COPY --from=build /opt/dragoman /opt/dragoman
ENV PATH=/opt/dragoman/bin:$PATH
# The user has no name in the image, and no home: torch asks for one, and uploads lie in /tmp.
ENV HOME=/tmp LOGNAME=dragoman PYTHONDONTWRITEBYTECODE=1
WORKDIR /models
USER 65532:65532
EXPOSE 8000
HEALTHCHECK --interval=30s --timeout=10s --start-period=120s \
    CMD ["python", "-c", "from urllib.request import urlopen; urlopen('http://127.0.0.1:8000/health', timeout=5)"]
ENTRYPOINT ["dragoman", "serve", "--host", "0.0.0.0", "--port", "8000"]
CMD ["--help"]
