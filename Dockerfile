# `unforget serve` in a container, as AgentCore Runtime runs it: port 8080, no root, nothing but the program.
#
#   docker buildx build --platform linux/arm64,linux/amd64 -t unforget .
#
# The stages are built for the platform that the image is for; on another machine that needs emulation (`docker run --privileged
# tonistiigi/binfmt --install arm64`), or a builder of that platform.

FROM rust:1.95-slim-bookworm AS build
# Which platform this is, so that two that are built at once do not share what they compiled.
ARG TARGETARCH
RUN apt-get update && apt-get install --yes --no-install-recommends gcc g++ libc6-dev make && rm -rf /var/lib/apt/lists/*
WORKDIR /source
COPY . .
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/source/target,id=target-${TARGETARCH} \
    cargo build --release --locked --package unforget && cp target/release/unforget /unforget && mkdir -p /empty

FROM gcr.io/distroless/cc-debian12:nonroot
COPY --from=build /unforget /usr/local/bin/unforget
# The home is the user's own; a volume here outlives the container, a remote (UNFORGET_REMOTE) outlives the machine.
COPY --from=build --chown=nonroot:nonroot --chmod=700 /empty /home/nonroot/unforget
ENV UNFORGET_HOME=/home/nonroot/unforget
USER nonroot
EXPOSE 8080
ENTRYPOINT ["/usr/local/bin/unforget"]
# The caller is the user that the runtime names, so nothing but the runtime may reach this port. Requests have to be for `localhost:8080` or a name in
# UNFORGET_ALLOW_HOST (with commas between them; `*` is any name, only where no browser reaches the port). Elsewhere give tokens or an issuer instead: `docker run unforget serve --listen 0.0.0.0:8080 --issuer … --audience …`.
# There is no shell here, and so no `bash` for the agent; its file tools work. An image of your own that has a shell (or Claude Code) adds
# `--share-commands`: each session of the runtime has a machine of its own, so commands are shared with nobody.
CMD ["serve", "--listen", "0.0.0.0:8080", "--trust-runtime-headers"]
