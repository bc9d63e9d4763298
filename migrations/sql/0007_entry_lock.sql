-- Entry locks: waited for by producers as they commit, only tried by everyone
-- else (retire, due, sweep). Always: first the queues' coarse locks in
-- ascending order of their numbers, then the lanes' fine ones, ascending. So
-- producers can't deadlock.

-- How long a commit waits for all its lanes together, or a bulk commit for its
-- queues.
create function @schema@.entry_timeout() returns interval
language sql immutable parallel safe
return '10 seconds'::interval;

-- try_entry tries a lane's entry lock; held to the end of the transaction.
create function @schema@.try_entry(queue text, tenant text, ordering_key text) returns boolean
language sql volatile
return case when pg_catalog.pg_try_advisory_xact_lock_shared(@schema@.queue_lock(queue))
            then pg_catalog.pg_try_advisory_xact_lock(@schema@.entry_lock(queue, tenant, ordering_key))
            else false end;

-- lock_lanes takes the entry locks of lanes, given as parallel arrays. At most
-- 200 fine locks a transaction: beyond that the queues with the most lanes are
-- locked whole, so that no transaction can fill the server's lock table. A
-- later round (constraints forced early) holds shared coarse locks already and
-- must not upgrade: may_lock_whole is false then.
create function @schema@.lock_lanes(queues text[], tenants text[], keys text[], may_lock_whole boolean) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $lockstep$
declare
  until   constant timestamptz := clock_timestamp() + @schema@.entry_timeout();
  step    record;
  whole   text[];
  numbers bigint[];
  names   text[];
begin
  whole := array(
    select c.queue from (
      select q.queue, sum(count(*)) over (order by count(*), q.queue) as lanes
      from unnest(queues) as q(queue) group by q.queue) c
    where may_lock_whole and c.lanes > 200);
  for step in
    select q.queue, @schema@.queue_lock(q.queue) as number, q.queue = any (whole) as exclusive
    from (select distinct u.queue from unnest(queues) as u(queue)) q order by 2
  loop
    if step.exclusive then
      perform @schema@.lock_queue(step.queue, step.number, until);
    else
      perform @schema@.lock_numbers(array[step.number], array[format('queue %L', step.queue)], true, until);
    end if;
  end loop;
  select array_agg(l.number order by l.number), array_agg(l.name order by l.number) into numbers, names
  from (select distinct on (1) @schema@.entry_lock(u.queue, u.tenant, u.key) as number,
               format('lane %L of queue %L', u.key, u.queue) || case u.tenant when '' then '' else format(', tenant %L', u.tenant) end as name
        from unnest(queues, tenants, keys) as u(queue, tenant, key)
        where u.queue <> all (whole) order by 1) l;
  if numbers is not null then
    perform @schema@.lock_numbers(numbers, names, false, until);
  end if;
end $lockstep$;

-- lock_numbers waits for locks in the order given, no longer than until. A free
-- one costs a try; the first one that is not opens the one subtransaction in
-- which the rest is waited for, so that a time-out can be told in words.
create function @schema@.lock_numbers(numbers bigint[], names text[], shared boolean, until timestamptz) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
set lock_timeout = 0
as $lockstep$
declare
  i integer := @schema@.first_refused(numbers, 1, shared);
begin
  if i > cardinality(numbers) then
    return;
  end if;
  begin
    loop
      perform set_config('lock_timeout', greatest(1, ceil(extract(epoch from until - clock_timestamp()) * 1000))::bigint::text, true);
      if shared then
        perform pg_advisory_xact_lock_shared(numbers[i]);
      else
        perform pg_advisory_xact_lock(numbers[i]);
      end if;
      i := @schema@.first_refused(numbers, i + 1, shared);
      exit when i > cardinality(numbers);
    end loop;
  exception when lock_not_available then
    perform @schema@.raise_locked(names[i], numbers[i]);
  end;
end $lockstep$;

-- first_refused tries locks from the i-th on and answers which one can't be
-- had at once; one more than there are if all could.
create function @schema@.first_refused(numbers bigint[], i integer, shared boolean) returns integer
language plpgsql
set search_path = pg_catalog, pg_temp
as $lockstep$
begin
  while i <= cardinality(numbers) and
    case when shared then pg_try_advisory_xact_lock_shared(numbers[i]) else pg_try_advisory_xact_lock(numbers[i]) end
  loop
    i := i + 1;
  end loop;
  return i;
end $lockstep$;

-- lock_queue takes a coarse lock exclusive, in short rounds with pauses:
-- whoever stands behind a waiting exclusive request stands a round at most.
create function @schema@.lock_queue(queue text, number bigint, until timestamptz) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
set lock_timeout = '100ms'
as $lockstep$
begin
  loop
    begin
      perform pg_advisory_xact_lock(number);
      return;
    exception when lock_not_available then
      if clock_timestamp() > until then
        perform @schema@.raise_locked(format('queue %L', queue), number);
      end if;
    end;
    perform pg_sleep(0.05 + random() * 0.05);
  end loop;
end $lockstep$;

-- raise_locked names who holds a lock: a session by its pid, an in-doubt
-- two-phase transaction, which has none, by its gid.
create function @schema@.raise_locked(what text, number bigint) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $lockstep$
declare
  holders text;
begin
  select string_agg(distinct coalesce('pid ' || l.pid, 'prepared transaction ' || quote_literal(p.gid), 'a prepared transaction'), ', ')
    into holders
    from pg_locks l
    left join pg_locks x on l.pid is null and x.pid is null and x.locktype = 'transactionid' and x.virtualtransaction = l.virtualtransaction
    left join pg_prepared_xacts p on p.transaction = x.transactionid
   where l.locktype = 'advisory' and l.granted and l.objsubid = 1
     and l.database = (select d.oid from pg_database d where d.datname = current_database())
     and ((l.classid::bigint << 32) | l.objid::bigint) = number
     and l.pid is distinct from pg_backend_pid();
  raise exception using errcode = 'LS004',
    message = format('%s could not be entered within %s: locked by %s', what, @schema@.entry_timeout(), coalesce(holders, 'a session that has gone')),
    hint = 'a producer of the same lane stays in its commit, or a two-phase transaction is in doubt: commit it or roll it back';
end $lockstep$;
