# Vitral in a container: built in one stage, served from another that holds the program and its libraries only.
#
#   docker build -t vitral .
#   docker run --rm --read-only --cap-drop ALL --security-opt no-new-privileges -p 127.0.0.1:8080:8080 vitral
#   docker run ... -v /srv/models/vit_base:/models/vit_base:ro vitral --model /models/vit_base
#
# Words behind the image's name are flags of vitrald; `--entrypoint vitral` runs the command line. The program writes no
# file, so the root may be read-only and no volume is needed.

FROM debian:bookworm-slim AS build
ENV DEBIAN_FRONTEND=noninteractive
RUN apt-get update \
    && apt-get install -y --no-install-recommends gcc libc6-dev make pkg-config dpkg-dev libmicrohttpd-dev \
       libjansson-dev libpng-dev libjpeg-dev libwebp-dev libexif-dev zlib1g-dev libseccomp-dev libopenblas-dev \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY . .
# The package knows which libraries the programs need: the second stage installs what it names.
RUN make -s -j "$(nproc)" all && deploy/deb/build.sh build && mv build/vitral_*.deb /vitral.deb

FROM debian:bookworm-slim
COPY --from=build /vitral.deb /tmp/vitral.deb
RUN apt-get update \
    && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends /tmp/vitral.deb \
    && apt-get clean \
    && rm -rf /tmp/vitral.deb /var/lib/apt/lists/* /var/cache/apt/*.bin /var/cache/debconf/*-old /var/log/apt /var/log/dpkg.log \
    && vitral version

ARG VERSION=unknown
ARG REVISION=unknown
LABEL org.opencontainers.image.title="Vitral" \
      org.opencontainers.image.description="Explains what a Vision Transformer saw: HTTP service and command line" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="$VERSION" \
      org.opencontainers.image.revision="$REVISION" \
      org.opencontainers.image.base.name="debian:bookworm-slim"

# One BLAS thread for each worker: no idle threads when the library is loaded. --blas-threads still raises it.
ENV VITRAL_LISTEN=0.0.0.0:8080 \
    OPENBLAS_NUM_THREADS=1
USER 65532:65532
WORKDIR /
EXPOSE 8080
STOPSIGNAL SIGTERM
# perl-base is part of every Debian image, so no HTTP client is installed. Port and TLS are read from the variables: a
# container that gets them by flag or file needs a health check of its own. perl-base speaks no TLS; there it is asked only
# whether the service reacts within 2 s to what is no handshake.
HEALTHCHECK --interval=10s --timeout=3s --start-period=30s --retries=3 CMD ["perl", "-MIO::Socket::INET", "-e", \
    "my ($p) = ($ENV{VITRAL_LISTEN} // '') =~ /:(\\d+)$/; my $s = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $p || 8080, Timeout => 2) or exit 1; alarm 2; print $s qq(GET /healthz HTTP/1.0\\r\\n\\r\\n); my $a = <$s> // ''; exit($ENV{VITRAL_TLS_CERT_FILE} || $a =~ / 200 / ? 0 : 1)"]
ENTRYPOINT ["/usr/bin/vitrald"]
