-- replaceable
-- Upkeep: history partitions and forgetting.

-- How long finished jobs and attempts are kept.
do $lockstep$ begin
  if to_regprocedure($name$@schema@.retention()$name$) is null then
    create function @schema@.retention() returns interval
    language sql stable parallel safe
    return '7 days'::interval;
  end if;
end $lockstep$;

-- set_limits changes what is allowed and kept; null leaves a limit as it is.
-- For the schema's owner.
drop function if exists @schema@.set_limits(integer, integer, interval, interval);
create or replace function @schema@.set_limits(payload_bytes integer default null, text_bytes integer default null,
  entry_timeout interval default null, retention interval default null, idempotency_retention interval default null) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $lockstep$
declare
  change record;
begin
  if payload_bytes not between 2 and 200000000 then
    perform @schema@.refuse('payload_bytes', format('payload_bytes is %s; it must be between 2 and 200000000', payload_bytes));
  elsif text_bytes not between 2 and 200000000 then
    perform @schema@.refuse('text_bytes', format('text_bytes is %s; it must be between 2 and 200000000', text_bytes));
  elsif entry_timeout not between '100 ms' and '1 hour' then
    perform @schema@.refuse('entry_timeout', format('entry_timeout is %s; it must be between 100 ms and 1 hour', entry_timeout));
  elsif retention not between '0' and '36600 days' then
    perform @schema@.refuse('retention', format('retention is %s; it must be between 0 and 100 years', retention));
  elsif idempotency_retention not between '0' and '36600 days' then
    perform @schema@.refuse('idempotency_retention', format('idempotency_retention is %s; it must be between 0 and 100 years', idempotency_retention));
  end if;
  for change in
    select * from (values ('payload_limit', 'integer', payload_bytes::text), ('text_limit', 'integer', text_bytes::text),
                          ('entry_timeout', 'interval', entry_timeout::text), ('retention', 'interval', retention::text),
                          ('idempotency_retention', 'interval', idempotency_retention::text)) v(name, type, value)
     where v.value is not null
  loop
    execute format('create or replace function %I.%I() returns %s language sql stable parallel safe return %L::%s',
      @schema_literal@, change.name, change.type, change.value, change.type);
  end loop;
end $lockstep$;

-- upkeep makes partitions of the history three days ahead, drops those past
-- retention, and purges old attempts, what tells of discarded letters, idempotency keys past theirs, missed notes,
-- dead letters past their queue's dead_retention, replays that are over, and
-- dispatchers not heard of for a day.
-- One at a time; what can't have its lock within 50 ms is left for the next
-- one, since whoever waits for a table stands before everyone behind it.
do $lockstep$ begin
  if pg_get_function_result(to_regprocedure($name$@schema@.upkeep()$name$)) !~ 'dead_purged' then
    drop function @schema@.upkeep(); -- it answered less
  end if;
end $lockstep$;

create or replace function @schema@.upkeep(
  out partitions_made integer, out partitions_dropped integer, out attempts_purged integer, out dispatchers_purged integer,
  out skipped boolean, out more boolean, out keys_purged integer, out dead_purged integer)
language plpgsql
set search_path = pg_catalog, pg_temp
set lock_timeout = '50ms'
set timezone = 'UTC'
as $lockstep$
declare
  today constant date := clock_timestamp()::date;
  day   record;
  strays_purged integer;
  discarded_purged integer;
  notes_purged  integer;
begin
  perform @schema@.require_read_committed();
  partitions_made := 0; partitions_dropped := 0; attempts_purged := 0; dispatchers_purged := 0; keys_purged := 0;
  dead_purged := 0; more := false;
  skipped := not pg_try_advisory_xact_lock(@schema@.own_mutex('upkeep'));
  if skipped then
    return;
  end if;
  with old as (
    select a.job_id, a.fence from @schema@.attempt a
     where a.ended_at < clock_timestamp() - @schema@.retention()
       and not exists (select 1 from @schema@.job j where j.id = a.job_id)
       and not exists (select 1 from @schema@.dead_job d where d.id = a.job_id)
     order by a.ended_at limit 5000 for update skip locked)
  delete from @schema@.attempt a using old o where a.job_id = o.job_id and a.fence = o.fence;
  get diagnostics attempts_purged = row_count;
  delete from @schema@.finished_job_default f where f.ctid = any (array(
    select o.ctid from @schema@.finished_job_default o where o.finished_at < clock_timestamp() - @schema@.retention() limit 5000 for update skip locked));
  get diagnostics strays_purged = row_count;
  delete from @schema@.dispatcher d where d.id = any (array(
    select o.id from @schema@.dispatcher o where o.seen_at < clock_timestamp() - '1 day'::interval for update skip locked));
  get diagnostics dispatchers_purged = row_count;
  delete from @schema@.idempotency i where i.ctid = any (array(
    select o.ctid from @schema@.idempotency o where o.created_at < clock_timestamp() - @schema@.idempotency_retention()
     order by o.created_at limit 5000 for update skip locked));
  get diagnostics keys_purged = row_count;
  delete from @schema@.dedupe_note n where n.id = any (array(
    select o.id from @schema@.dedupe_note o where o.missed and o.created_at < clock_timestamp() - @schema@.retention()
     order by o.created_at limit 5000 for update skip locked));
  get diagnostics notes_purged = row_count;
  dead_purged := @schema@.purge_aged();
  delete from @schema@.discarded c where c.id = any (array(
    select o.id from @schema@.discarded o where o.discarded_at < clock_timestamp() - @schema@.retention()
     order by o.discarded_at limit 5000 for update skip locked));
  get diagnostics discarded_purged = row_count;
  delete from @schema@.replay_run r where r.id = any (array(
    select o.id from @schema@.replay_run o where o.ended_at < clock_timestamp() - @schema@.retention() for update skip locked));
  more := greatest(attempts_purged, strays_purged, keys_purged, notes_purged, dead_purged, discarded_purged) = 5000;
  -- Last, since the table's locks are held from here to the commit.
  for i in 0 .. 3 loop
    partitions_made := partitions_made + @schema@.make_partition(today + i);
  end loop;
  for day in
    select c.oid::regclass as name from pg_inherits i join pg_class c on c.oid = i.inhrelid
     where i.inhparent = $name$@schema@.finished_job$name$::regclass and c.relname ~ '^finished_job_[0-9]{8}$'
       and to_date(right(c.relname, 8), 'YYYYMMDD') + 1 + @schema@.retention() < clock_timestamp()
     order by c.relname limit 20
  loop
    partitions_dropped := partitions_dropped + @schema@.drop_partition(day.name);
  end loop;
end $lockstep$;

-- make_partition prepares a day of the history; 1 if it did. Attaching takes a
-- weaker lock on the parent than creating in place.
create or replace function @schema@.make_partition(day date) returns integer
language plpgsql
set search_path = pg_catalog, pg_temp
set timezone = 'UTC'
as $lockstep$
declare
  name constant text := 'finished_job_' || to_char(day, 'YYYYMMDD');
begin
  if exists (select 1 from pg_class c join pg_namespace n on n.oid = c.relnamespace
              where n.nspname = @schema_literal@ and c.relname = name) then
    return 0;
  end if;
  execute format('create table %I.%I (like %I.finished_job including defaults including constraints)', @schema_literal@, name, @schema_literal@);
  execute format('alter table %I.finished_job attach partition %I.%I for values from (%L) to (%L)',
    @schema_literal@, @schema_literal@, name, day::timestamptz, (day + 1)::timestamptz);
  return 1;
exception when lock_not_available or check_violation or duplicate_table or unique_violation then
  return 0; -- another has just made it; or later: the default partition takes the rows meanwhile
end $lockstep$;

create or replace function @schema@.drop_partition(name regclass) returns integer
language plpgsql
set search_path = pg_catalog, pg_temp
as $lockstep$
begin
  execute format('drop table %s', name);
  return 1;
exception when lock_not_available then
  return 0;
end $lockstep$;

do $lockstep$ begin perform @schema@.make_partition(clock_timestamp()::date + i) from generate_series(0, 3) i; end $lockstep$;
