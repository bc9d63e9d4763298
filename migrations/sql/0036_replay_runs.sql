-- Replays under way, and what makes dead letters quick to find.

-- replay_run: a replay of many dead letters, at a rate. It goes over the letters
-- that were there when it was started, in the order of their lanes (lane_turn,
-- then id), and at_turn, at_id is how far it has come. Who makes a step holds
-- the row's lock meanwhile, so the rate is that of all processes together.
create table @schema@.replay_run (
  id           bigint generated always as identity primary key,
  -- Which letters: null is any.
  ids          bigint[],
  queue        text collate "C",
  kind         text collate "C",
  tenant       text collate "C",
  ordering_key text collate "C",
  error        text,                -- a LIKE pattern
  died_from    timestamptz,
  died_before  timestamptz,

  rate         double precision not null, -- letters a second
  started_by   text not null,
  started_at   timestamptz not null default clock_timestamp(),
  last_turn    bigint not null,           -- letters of later places died after the start
  at_turn      bigint not null default -1,
  at_id        bigint not null default 0,
  next_at      timestamptz not null default clock_timestamp(), -- no letter before then
  stepped_at   timestamptz,
  recent_at    timestamptz[] not null default '{}', -- the steps of the last second, from 20 letters a second on,
  recent       integer[] not null default '{}',     -- and how many letters each replayed
  replayed     bigint not null default 0,
  kept         bigint not null default 0, -- letters that stay: their dedupe key is taken, or a limit has become too low for them
  ended_at     timestamptz,
  outcome      text collate "C",
  constraint replay_run_rate_range check (rate > 0 and rate <= 1000),
  constraint replay_run_outcome_known check (outcome in ('done', 'cancelled')),
  constraint replay_run_ended check ((outcome is null) = (ended_at is null))
);

create index replay_run_next on @schema@.replay_run (next_at) where ended_at is null;
create index replay_run_ended on @schema@.replay_run (ended_at) where ended_at is not null;

create index dead_job_turn on @schema@.dead_job (lane_turn, id);
create index dead_job_queue on @schema@.dead_job (queue, died_at, id);

-- Heads that block their lanes. No claim writes hold.
create index job_blocked on @schema@.job (id) where hold = 'x';

-- How long a queue's dead letters are kept; null: until somebody discards them.
alter table @schema@.queue add column dead_retention interval;
alter table @schema@.queue add constraint queue_dead_retention_range check (dead_retention between '1 minute' and '36600 days');
