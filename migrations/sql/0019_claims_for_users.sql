-- replaceable
-- For a worker's own SQL: a claim that is checked and held by the database.

-- assert_claim locks the job's row until the transaction ends, such that
-- heartbeats go on but nobody can take the job away, and raises LS003 if the
-- claim is no longer the caller's.
create or replace function @schema@.assert_claim(id bigint, fence bigint) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $lockstep$
#variable_conflict use_column
begin
  perform 1 from @schema@.job j
   where j.id = assert_claim.id and j.fence = assert_claim.fence and j.worker <> @schema@.nobody() and not j.settled
     for key share;
  if not found then
    perform @schema@.raise_claim_lost(assert_claim.id, assert_claim.fence);
  end if;
end $lockstep$;

create or replace function @schema@.raise_claim_lost(id bigint, fence bigint) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $lockstep$
begin
  raise exception using errcode = 'LS003', message = format('the claim of job %s with fence %s is lost', id, fence),
    hint = 'its lease ended, or its outcome is recorded: roll back and stop';
end $lockstep$;

-- hold_lane takes the run lock of the job's lane for the transaction; false if
-- another session holds it. Raises LS003 if the claim is no longer the caller's.
create or replace function @schema@.hold_lane(id bigint, fence bigint) returns boolean
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $lockstep$
#variable_conflict use_column
declare
  job record;
begin
  perform @schema@.require_read_committed();
  select j.queue, j.tenant, j.ordering_key into job from @schema@.job j where j.id = hold_lane.id;
  if found and not pg_try_advisory_xact_lock(@schema@.run_lock(job.queue, job.tenant, job.ordering_key, hold_lane.id)) then
    return false;
  end if;
  -- The lock is newer than the statement before: look again.
  perform 1 from @schema@.job j
   where j.id = hold_lane.id and j.fence = hold_lane.fence and j.worker <> @schema@.nobody() and not j.settled;
  if not found then
    perform @schema@.raise_claim_lost(hold_lane.id, hold_lane.fence);
  end if;
  return true;
end $lockstep$;

-- end_stuck ends the session that a claim reported as stuck, with the caller's
-- own rights, after testing again that it still holds the lane past another
-- lease. A caller who may not see when the session began is likely to be refused
-- by PostgreSQL, and is told so.
create or replace function @schema@.end_stuck(id bigint, fence bigint, pid integer, backend_start timestamptz) returns boolean
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $lockstep$
#variable_conflict use_column
declare
  job record;
begin
  select j.queue, j.tenant, j.ordering_key into job from @schema@.job j
   where j.id = end_stuck.id and j.fence = end_stuck.fence and j.held_since > '-infinity'
     and j.held_since + j.lease <= clock_timestamp() and not j.settled;
  if not found
     or not exists (select 1 from @schema@.run_holder(job.queue, job.tenant, job.ordering_key, end_stuck.id) h where h = end_stuck.pid)
     or not exists (select 1 from pg_stat_activity a where a.pid = end_stuck.pid and (a.backend_start = end_stuck.backend_start) is not false) then
    return false;
  end if;
  return pg_terminate_backend(end_stuck.pid);
end $lockstep$;

-- after_failover moves the fence and the turns far ahead. Call it once after a
-- promotion of an asynchronous standby, or a restore: numbers that had been
-- given out and were not replicated must not be given out again.
create or replace function @schema@.after_failover() returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $lockstep$
begin
  perform setval($name$@schema@.fence$name$, @schema@.next_fence() + 1000000000);
  perform setval($name$@schema@.turn$name$, @schema@.next_turn() + 1000000000);
end $lockstep$;
