-- replaceable
-- Dispatchers: their signs of life, and what others conclude from them.

-- register is a dispatcher's sign of life; it precedes the first claim. Others
-- plan their next look by the shortest lease about, so a shorter one than they
-- know of is signalled as something due at its end.
create or replace function @schema@.register(dispatcher uuid, name text, queues text[], kinds text[], lease interval,
  out channel text, out queue_hashes text[])
language plpgsql
set search_path = pg_catalog, pg_temp
as $lockstep$
#variable_conflict use_column
declare
  shortest interval;
begin
  perform @schema@.require_read_committed(); -- two that register at once would not be serializable
  perform @schema@.check_claim(register.dispatcher, 1, register.lease);
  perform @schema@.require_home();
  if register.name is null or octet_length(register.name) > 200 then
    perform @schema@.refuse('name', 'name must be at most 200 bytes long');
  elsif register.queues is null or register.kinds is null then
    perform @schema@.refuse('queues', 'queues and kinds must be arrays');
  end if;
  shortest := @schema@.shortest_lease();
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

create or replace function @schema@.deregister(dispatcher uuid) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $lockstep$
begin
  perform @schema@.require_read_committed();
  delete from @schema@.dispatcher d where d.id = deregister.dispatcher;
end $lockstep$;

-- shortest_lease of the dispatchers about: a lease that a look did not see
-- ends no sooner than this after the look.
create or replace function @schema@.shortest_lease() returns interval
language plpgsql
set search_path = pg_catalog, pg_temp
as $lockstep$
begin
  return (select coalesce(min(d.lease), '30 seconds') from @schema@.dispatcher d where d.seen_at > clock_timestamp() - 3 * d.lease);
end $lockstep$;
