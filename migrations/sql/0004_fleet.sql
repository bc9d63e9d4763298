-- Queues with a policy of their own, and the dispatchers that are about.

-- A queue needs no row; without one it has the defaults below.
create table @schema@.queue (
  name           text collate "C" primary key,
  on_dead        text collate "C" not null default 'skip',
  backoff_base   interval not null default '5 seconds',
  backoff_factor double precision not null default 2,
  backoff_cap    interval not null default '1 hour',
  constraint queue_name_length check (octet_length(name) between 1 and 200),
  constraint queue_on_dead_known check (on_dead in ('skip', 'block')),
  constraint queue_backoff_base_range check (backoff_base between '0' and '366 days'),
  constraint queue_backoff_factor_range check (backoff_factor between 1 and 1000),
  constraint queue_backoff_cap_range check (backoff_cap between '0' and '366 days')
);

create table @schema@.dispatcher (
  id         uuid primary key,
  name       text not null,
  queues     text[] not null,
  kinds      text[] not null,
  lease      interval not null,
  started_at timestamptz not null default clock_timestamp(),
  seen_at    timestamptz not null default clock_timestamp(),
  constraint dispatcher_name_length check (octet_length(name) <= 200),
  constraint dispatcher_lease_range check (lease between '1 second' and '1 day')
);
