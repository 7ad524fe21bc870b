# Rendered by envsmith from a plan; docs/images.md explains the blocks and how to build without envsmith.

# block: base
FROM nvidia/cuda:12.1.1-devel-ubuntu22.04

# block: apt
RUN --mount=type=cache,id=envsmith-apt-lists,target=/var/lib/apt/lists,sharing=locked \
    --mount=type=tmpfs,target=/var/cache/apt \
    --mount=type=tmpfs,target=/var/log \
    --mount=type=secret,id=ca_bundle,mode=0444 \
    set -eu; \
    if [ -s /run/secrets/ca_bundle ]; then set -- --option Acquire::https::CAInfo=/run/secrets/ca_bundle; fi; \
    export DEBIAN_FRONTEND=noninteractive; \
    apt-get "$@" --quiet --option Acquire::Languages=none update; \
    apt-get "$@" --quiet --option DPkg::Options::=--force-unsafe-io install --yes --no-install-recommends ca-certificates python3 python3-dev

# block: account
RUN set -eu; \
    if taken="$(id --user --name 1000 2>/dev/null)"; then userdel --remove "$taken"; fi; \
    groupadd --gid 1000 user; \
    useradd --uid 1000 --gid 1000 --create-home --shell /bin/bash user; \
    install --directory --owner=1000 --group=1000 /workspace

# block: torch
ENV VIRTUAL_ENV=/opt/venv
ENV PATH=/opt/venv/bin:$PATH
RUN --mount=type=bind,from=uv,source=uv,target=/run/uv/uv \
    --mount=type=cache,id=envsmith-uv,target=/root/.cache/uv \
    --mount=type=secret,id=ca_bundle \
    --mount=type=secret,id=index_url \
    --mount=type=secret,id=extra_index_url \
    set -eu; \
    export UV_INDEX=''; \
    if [ -s /run/secrets/ca_bundle ]; then export SSL_CERT_FILE=/run/secrets/ca_bundle; fi; \
    if [ -s /run/secrets/index_url ]; then UV_INDEX=; UV_DEFAULT_INDEX="$(cat /run/secrets/index_url)"; export UV_DEFAULT_INDEX; fi; \
    if [ -s /run/secrets/extra_index_url ]; then UV_INDEX="$(cat /run/secrets/extra_index_url) $UV_INDEX"; fi; \
    export UV_INDEX_STRATEGY=unsafe-first-match UV_LINK_MODE=copy; \
    /run/uv/uv venv --seed --python-preference only-system --no-python-downloads --python 3.10 /opt/venv; \
    /run/uv/uv pip install --compile-bytecode torch==2.6.0

# block: gpu
ENV NVIDIA_VISIBLE_DEVICES=all
ENV NVIDIA_DRIVER_CAPABILITIES=compute,utility
ENV NVIDIA_REQUIRE_CUDA="cuda>=12.0 driver>=525"

# block: user
USER 1000:1000
WORKDIR /workspace
ENTRYPOINT []
CMD ["bash"]

# block: verify
RUN --network=none \
    --mount=type=bind,source=verify.py,target=/run/envsmith/verify.py \
    --mount=type=bind,source=expect.json,target=/run/envsmith/expect.json \
    --mount=type=tmpfs,target=/tmp \
    python -W ignore /run/envsmith/verify.py /run/envsmith/expect.json

# block: labels
LABEL io.envsmith.plan-digest="sha256:9283e8c094d5b9f1a4806415048a51e8f467b35c74b9f7871d73b113a7dbc023"
LABEL io.envsmith.torch="2.6.0"
LABEL io.envsmith.wheel="2.6.0+cu124"
LABEL io.envsmith.wheel-cuda="12.4"
LABEL org.opencontainers.image.title="PyTorch 2.6.0+cu124"
