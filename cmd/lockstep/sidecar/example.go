package sidecar

// Example is a file of settings that shows all of them.
const Example = `# lockstep.yaml: settings of lockstep run and lockstep drain.
# Flags go before variables, and both before this file. A span of time is
# written 500ms, 30s, 1h30m.

database:
  url: postgres://app@127.0.0.1:5432/app   # --database-url, LOCKSTEP_DATABASE_URL
  # url_file: /run/secrets/database-url    # --database-url-file: the URL is in this file
  schema: lockstep                         # --schema, LOCKSTEP_SCHEMA
  # listen_url: postgres://…               # --listen-database-url: straight to the server, where url goes through a pooler

listen: 127.0.0.1:8321   # --listen, LOCKSTEP_LISTEN: /healthz, /readyz, /metrics, and the API at /v1/
# api_token_file: /run/secrets/api         # --api-token-file, LOCKSTEP_API_TOKEN_FILE; the token itself: LOCKSTEP_API_TOKEN. Needed on any address but loopback
# api_read_token_file: /run/secrets/read   # --api-read-token-file, LOCKSTEP_API_READ_TOKEN_FILE, LOCKSTEP_API_READ_TOKEN: may only read
# api_hosts: [jobs.internal]               # --api-host: names that a proxy on this machine serves a loopback address under
lease: 30s               # --lease, LOCKSTEP_LEASE: how long a dead worker's jobs wait
poll: 2s                 # --poll, LOCKSTEP_POLL: stands behind lost signals
grace: 30s               # --grace, LOCKSTEP_GRACE: for handlers, when asked to end
concurrency: 10          # --concurrency, LOCKSTEP_CONCURRENCY: jobs at a time, per queue

queues:                  # --queue default=50, LOCKSTEP_QUEUE
  default: {concurrency: 50}
  reports: {}

push_timeout: 1m         # --push-timeout …: for pushes that have none of their own
push_parallel: 100       # --push-parallel
# push_secret_files: [/run/secrets/push]   # --push-secret-file
# push_allow: [10.0.0.0/8]                 # --push-allow: addresses that targets may have; loopback by default

push:                    # --push [KIND=]URL, LOCKSTEP_PUSH; the closest kind decides
  - url: http://127.0.0.1:8080/jobs
    kind: "*"            # a name, or a pattern that ends in *
    queue: "*"
    timeout: 1m          # of the whole exchange
    parallel: 100        # pushes to this target at a time
    secrets: [whsec_c2VjcmV0IGtleSBmb3Igc2lnbmluZw==]   # both, while one is being replaced
    # secret_files: [/run/secrets/push]
    # allow: [10.0.0.0/8]                  # addresses that the target may have; loopback by default
    answers: {"423": target, "5xx": retry} # done, dead, retry or target

command:                 # a program per job
  - args: [/bin/sh, -c, cat]
    kind: report.*
    queue: reports
    timeout: 5m
    kill_after: 5s
`
