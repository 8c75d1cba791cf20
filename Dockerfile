# The image of a release. GoReleaser puts the built command beside this file, by platform.
FROM gcr.io/distroless/static-debian12:nonroot
ARG TARGETPLATFORM
COPY $TARGETPLATFORM/superstep /usr/bin/superstep
EXPOSE 8123
ENTRYPOINT ["/usr/bin/superstep"]
