-- What is over.

-- finished_job: completed and cancelled jobs, a partition per UTC day, so that
-- forgetting a day is a drop. The default partition always exists: a day
-- nobody prepared must not fail a finish.
create table @schema@.finished_job (
  id           bigint not null,
  lane_turn    bigint not null,
  fence        bigint not null,
  enqueued_xid xid8 not null,
  run_at       timestamptz not null,
  created_at   timestamptz not null,
  claimed_at   timestamptz not null,
  finished_at  timestamptz not null,
  worker       uuid not null,
  attempt      integer not null,
  max_attempts integer not null,
  priority     smallint not null,
  outcome      text collate "C" not null,
  queue        text collate "C" not null,
  kind         text collate "C" not null,
  tenant       text collate "C" not null,
  ordering_key text collate "C",
  dedupe_key   text collate "C",
  payload      jsonb not null,
  headers      jsonb not null,
  result       jsonb,
  error        text,
  constraint finished_job_outcome_known check (outcome in ('completed', 'cancelled'))
) partition by range (finished_at);

create index finished_job_id on @schema@.finished_job (id);
create table @schema@.finished_job_default partition of @schema@.finished_job default;

-- dead_job: kept until somebody discards it. Under the policy `block` the job
-- also stays in job, as the head that holds its lane: blocking is true then.
create table @schema@.dead_job (
  id           bigint primary key,
  lane_turn    bigint not null,
  fence        bigint not null,
  enqueued_xid xid8 not null,
  run_at       timestamptz not null,
  created_at   timestamptz not null,
  claimed_at   timestamptz not null,
  died_at      timestamptz not null,
  worker       uuid not null,
  attempt      integer not null,
  max_attempts integer not null,
  priority     smallint not null,
  blocking     boolean not null,
  queue        text collate "C" not null,
  kind         text collate "C" not null,
  tenant       text collate "C" not null,
  ordering_key text collate "C",
  dedupe_key   text collate "C",
  payload      jsonb not null,
  headers      jsonb not null,
  error        text
);

create index dead_job_died on @schema@.dead_job (died_at, id);
create index dead_job_blocking on @schema@.dead_job (queue, id) where blocking;

-- attempt: every attempt that did not complete its job.
create table @schema@.attempt (
  job_id     bigint not null,
  fence      bigint not null,
  attempt    integer not null,
  worker     uuid not null,
  claimed_at timestamptz not null,
  ended_at   timestamptz not null,
  outcome    text collate "C" not null,
  error      text,
  primary key (job_id, fence),
  constraint attempt_outcome_known check (outcome in ('failed', 'dead', 'lost', 'released', 'snoozed', 'cancelled'))
);

create index attempt_ended on @schema@.attempt (ended_at);
