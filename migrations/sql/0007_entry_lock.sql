-- replaceable
-- Entry locks: waited for by producers as they commit, only tried by everyone
-- else (retire, due, sweep). Always: first the queues' coarse locks in
-- ascending order of their numbers, then the lanes' fine ones, ascending. So
-- producers can't deadlock.

-- How long a commit waits for all its lanes together, or a bulk commit for its
-- queues; ten times that while those who are in the way are at work.
do $lockstep$ begin
  if to_regprocedure($name$@schema@.entry_timeout()$name$) is null then
    create function @schema@.entry_timeout() returns interval
    language sql stable parallel safe
    return '10 seconds'::interval;
  end if;
end $lockstep$;

-- try_entry tries a lane's entry lock; held to the end of the transaction.
create or replace function @schema@.try_entry(queue text, tenant text, ordering_key text) returns boolean
language sql volatile
return case when pg_catalog.pg_try_advisory_xact_lock_shared(@schema@.queue_lock(queue))
            then pg_catalog.pg_try_advisory_xact_lock(@schema@.entry_lock(queue, tenant, ordering_key))
            else false end;

-- lock_lanes takes the entry locks of lanes, given as parallel arrays. At most
-- 200 fine locks a transaction: beyond that the queues with the most lanes are
-- locked whole, so that no transaction can fill the server's lock table. A
-- later round (constraints forced early) holds fine locks already, and asks for
-- no queue then: may_lock_whole is false. A queue's lock that is held shared
-- already, as from finish or discard in the same transaction, is not waited for
-- either, only tried: two would deadlock. Where others hold it too, the lanes are
-- taken one by one, however many they are.
create or replace function @schema@.lock_lanes(queues text[], tenants text[], keys text[], may_lock_whole boolean) returns void
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
    if not step.exclusive then
      perform @schema@.lock_numbers(array[step.number], array[format('queue %L', step.queue)], true, until);
    elsif not @schema@.holds_lock(step.number) then
      perform @schema@.lock_queue(step.queue, step.number, until);
    elsif not pg_try_advisory_xact_lock(step.number) then
      whole := array_remove(whole, step.queue);
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

-- lock_numbers waits for locks in the order given, until then, and on while
-- whoever has the one in the way is at work, as a bulk commit may be for long.
-- A free one costs a try; the first one that is not opens a subtransaction in
-- which the rest is waited for, so that a time-out can be told in words.
create or replace function @schema@.lock_numbers(numbers bigint[], names text[], shared boolean, until timestamptz) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
set lock_timeout = 0
as $lockstep$
declare
  free constant integer := @schema@.first_refused(numbers, 1, shared) - 1;
  i    integer;
begin
  if free = cardinality(numbers) then
    return;
  end if;
  for try in 1 .. 10 loop
    begin
      i := free + 1;
      while i <= cardinality(numbers) loop
        perform set_config('lock_timeout', greatest(1, ceil(extract(epoch from until - clock_timestamp()) * 1000))::bigint::text, true);
        if shared then
          perform pg_advisory_xact_lock_shared(numbers[i]);
        else
          perform pg_advisory_xact_lock(numbers[i]);
        end if;
        i := @schema@.first_refused(numbers, i + 1, shared);
      end loop;
      return;
    exception when lock_not_available then
      exit when @schema@.held_idly(numbers[i]);
      until := clock_timestamp() + @schema@.entry_timeout();
    end;
  end loop;
  perform @schema@.raise_locked(names[i], numbers[i]);
end $lockstep$;

-- first_refused tries locks from the i-th on and answers which one can't be
-- had at once; one more than there are if all could.
create or replace function @schema@.first_refused(numbers bigint[], i integer, shared boolean) returns integer
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
-- Rounds grow, to half a second, only while all who hold the lock are at work:
-- on a busy machine it takes them that long to get out of the way.
create or replace function @schema@.lock_queue(queue text, number bigint, until timestamptz) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
set lock_timeout = '100ms'
as $lockstep$
declare
  round integer := 100;
  idle  boolean;
begin
  loop
    begin
      perform pg_advisory_xact_lock(number);
      return;
    exception when lock_not_available then
      idle := @schema@.held_idly(number);
      if clock_timestamp() > until + (case when idle then 0 else 9 end) * @schema@.entry_timeout() then
        perform @schema@.raise_locked(format('queue %L', queue), number);
      end if;
      round := case when idle then 100 else least(2 * round, 500) end;
    end;
    perform set_config('lock_timeout', round::text, true);
    perform pg_sleep(0.05 + random() * 0.05);
  end loop;
end $lockstep$;

-- held_idly tells whether a lock is held by someone of whom nothing can be
-- expected soon: an in-doubt two-phase transaction, or a session that is idle
-- in its transaction, as far as our owner may see that.
create or replace function @schema@.held_idly(number bigint) returns boolean
language plpgsql
set search_path = pg_catalog, pg_temp
as $lockstep$
begin
  perform pg_stat_clear_snapshot(); -- else the whole transaction sees the first answer
  return exists (
    select from @schema@.lock_holders(number) h left join pg_stat_activity a on a.pid = h.pid
     where h.pid is null or a.state like 'idle%');
end $lockstep$;

-- lock_holders are the others who hold an advisory lock; without a pid, it is
-- a prepared transaction.
create or replace function @schema@.lock_holders(number bigint) returns table (pid integer, virtualtransaction text)
language plpgsql
set search_path = pg_catalog, pg_temp
as $lockstep$
#variable_conflict use_column
begin
  return query
    select l.pid, l.virtualtransaction from pg_locks l
     where l.locktype = 'advisory' and l.granted and l.objsubid = 1
       and l.database = (select d.oid from pg_database d where d.datname = current_database())
       and ((l.classid::bigint << 32) | l.objid::bigint) = number
       and l.pid is distinct from pg_backend_pid();
end $lockstep$;

-- holds_lock tells whether this session holds an advisory lock itself, in any
-- mode. It reads the whole lock table.
create or replace function @schema@.holds_lock(number bigint) returns boolean
language plpgsql
set search_path = pg_catalog, pg_temp
as $lockstep$
begin
  return exists (
    select from pg_locks l
     where l.locktype = 'advisory' and l.granted and l.objsubid = 1 and l.pid = pg_backend_pid()
       and l.database = (select d.oid from pg_database d where d.datname = current_database())
       and ((l.classid::bigint << 32) | l.objid::bigint) = number);
end $lockstep$;

-- raise_locked names who holds a lock: a session by its pid, an in-doubt
-- two-phase transaction, which has none, by its gid.
create or replace function @schema@.raise_locked(what text, number bigint) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $lockstep$
declare
  holders text;
begin
  select string_agg(distinct coalesce('pid ' || l.pid, 'prepared transaction ' || quote_literal(p.gid), 'a prepared transaction'), ', ')
    into holders
    from @schema@.lock_holders(number) l
    left join pg_locks x on l.pid is null and x.pid is null and x.locktype = 'transactionid' and x.virtualtransaction = l.virtualtransaction
    left join pg_prepared_xacts p on p.transaction = x.transactionid;
  raise exception using errcode = 'LS004',
    message = format('%s could not be entered within %s: locked by %s', what, @schema@.entry_timeout(), coalesce(holders, 'a session that has gone')),
    hint = 'a producer of the same lane stays in its commit, or a two-phase transaction is in doubt: commit it or roll it back';
end $lockstep$;
