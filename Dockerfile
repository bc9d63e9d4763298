# A static binary in an image of its own, run by nobody in particular.
FROM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN CGO_ENABLED=0 go build -trimpath -ldflags "-s -w" -o /lockstep ./cmd/lockstep

FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /lockstep /lockstep
USER 65532:65532
ENTRYPOINT ["/lockstep"]
CMD ["run"]
