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

-- register is a dispatcher's sign of life; it precedes the first claim. Others
-- plan their next look by the shortest lease about, so a shorter one than they
-- know of is signalled as something due at its end.
create function @schema@.register(dispatcher uuid, name text, queues text[], kinds text[], lease interval,
  out channel text, out queue_hashes text[])
language plpgsql
set search_path = pg_catalog, pg_temp
as $lockstep$
#variable_conflict use_column
declare
  shortest constant interval := @schema@.shortest_lease();
begin
  perform @schema@.check_claim(register.dispatcher, 1, register.lease);
  if register.name is null or octet_length(register.name) > 200 then
    perform @schema@.refuse('name', 'name must be at most 200 bytes long');
  elsif register.queues is null or register.kinds is null then
    perform @schema@.refuse('queues', 'queues and kinds must be arrays');
  end if;
  insert into @schema@.dispatcher as d (id, name, queues, kinds, lease)
  values (register.dispatcher, register.name, register.queues, register.kinds, register.lease)
  on conflict (id) do update
    set queues = excluded.queues, kinds = excluded.kinds, lease = excluded.lease, seen_at = clock_timestamp();
  if register.lease < shortest then
    perform @schema@.signal('d', q, (extract(epoch from clock_timestamp() + register.lease) * 1000)::bigint)
      from unnest(register.queues) q;
  end if;
  channel := @schema@.channel();
  queue_hashes := array(select @schema@.queue_hash(u.q) from unnest(register.queues) with ordinality u(q, n) order by u.n);
end $lockstep$;

create function @schema@.deregister(dispatcher uuid) returns void
language sql
begin atomic
  delete from @schema@.dispatcher d where d.id = deregister.dispatcher;
end;

-- shortest_lease of the dispatchers about: a lease that a look did not see
-- ends no sooner than this after the look.
create function @schema@.shortest_lease() returns interval
language sql
begin atomic
  select coalesce(min(d.lease), '30 seconds') from @schema@.dispatcher d
  where d.seen_at > clock_timestamp() - 3 * d.lease;
end;
