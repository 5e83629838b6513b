# The operator's image: /manager (the operator) and /agent (runs beside etcd and Redis).
#
#   docker build .                                          compiled here, on distroless
#   docker build --target prebuilt --build-arg BASE=scratch --build-arg TARGETARCH=amd64 .
#                                                           binaries of `make build-linux`; needs no
#                                                           registry and no BuildKit, because the
#                                                           stage comes first and starts from nothing
# By digest, so that a release is made of what was looked at; the tag says what it was.
ARG BASE=gcr.io/distroless/static:nonroot@sha256:f7f8f729987ad0fdf6b05eeeae94b26e6a0f613bdf46feea7fc40f7bd72953e6
ARG GOLANG=golang:1.26.8@sha256:3c3e25a4da13fd0478eed2df1eb35a0e667094a7124d3993a6a1d30f71c17e79

FROM ${BASE} AS prebuilt
ARG TARGETARCH
COPY bin/linux-${TARGETARCH}/manager bin/linux-${TARGETARCH}/agent /
USER 65532:65532
ENTRYPOINT ["/manager"]

FROM --platform=${BUILDPLATFORM} ${GOLANG} AS builder
WORKDIR /src
COPY . .
ARG TARGETOS=linux
ARG TARGETARCH
ARG VERSION=dev
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/cache \
    GOCACHE=/cache CGO_ENABLED=0 GOOS=${TARGETOS} GOARCH=${TARGETARCH} go build -trimpath -buildvcs=false \
    -ldflags "-s -w -X main.version=${VERSION}" -o /out/ ./cmd/manager ./cmd/agent

FROM ${BASE}
LABEL org.opencontainers.image.title="Quorate" \
      org.opencontainers.image.description="Kubernetes operator for etcd and Redis/Valkey clusters" \
      org.opencontainers.image.source="https://github.com/quorate/quorate" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=builder /out/manager /out/agent /
USER 65532:65532
ENTRYPOINT ["/manager"]
