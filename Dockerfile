# One image per program:
#
#   docker build --target workload-manager -t agentcube/workload-manager .
#   docker build --target router -t agentcube/router .

FROM golang:1.26 AS build
WORKDIR /src
# The modules come first, so that a change of the sources does not fetch them
# again.
COPY go.mod go.sum ./
RUN go mod download
COPY . .
# No C library: the result runs in an empty image.
ENV CGO_ENABLED=0
RUN go build -trimpath -ldflags='-s -w' -o /out/ ./cmd/workload-manager ./cmd/router
# The only user there is: no shell, no home, no right to anything.
RUN echo 'agentcube:x:65532:65532::/:/nonexistent' > /out/passwd

FROM scratch AS base
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /out/passwd /etc/passwd
USER 65532:65532
EXPOSE 8080

FROM base AS workload-manager
COPY --from=build /out/workload-manager /workload-manager
ENTRYPOINT ["/workload-manager"]

FROM base AS router
COPY --from=build /out/router /router
ENTRYPOINT ["/router"]
