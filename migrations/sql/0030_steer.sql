-- replaceable
-- What people do to a single job that has not ended: let it run now, or at
-- another time, or with another priority. None of it changes the order inside a
-- lane. As everywhere, a row that another transaction has locked is not waited
-- for: the answer is busy, and nothing was changed.

-- job_held locks the row of a live job: null if it is busy. Raises LS005 for an
-- id that never was, LS006 for a job that has ended, or is dead and blocks its
-- lane.
create or replace function @schema@.job_held(id bigint) returns @schema@.job
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $lockstep$
#variable_conflict use_column
declare
  job @schema@.job;
begin
  perform @schema@.require_read_committed();
  select j.* into job from @schema@.job j where j.id = job_held.id for update skip locked;
  if not found then
    if @schema@.absent(job_held.id) = 'busy' then
      return null;
    end if;
    raise exception using errcode = 'LS006', message = format('job %s has ended', job_held.id), hint = @schema@.ended_hint(job_held.id);
  elsif job.settled then
    raise exception using errcode = 'LS006', message = format('job %s has ended: it is %s', job.id, job.outcome);
  elsif job.hold = 'x' then
    raise exception using errcode = 'LS006', message = format('job %s is dead and blocks its lane', job.id),
      hint = 'replay it, discard it, or unblock the lane';
  end if;
  return job;
end $lockstep$;

create or replace function @schema@.ended_hint(id bigint) returns text
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $lockstep$
#variable_conflict use_column
begin
  if exists (select from @schema@.dead_job d where d.id = ended_hint.id) then
    return 'it is dead: replay it';
  end if;
  return 'enqueue a new job';
end $lockstep$;

-- refuse_steering raises LS006 for a job that runs, or waits in its lane.
create or replace function @schema@.refuse_steering(job @schema@.job) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $lockstep$
begin
  if job.worker <> @schema@.nobody() then
    raise exception using errcode = 'LS006', message = format('job %s is running', job.id),
      hint = 'cancel it, or let its handler end';
  elsif job.stage = 'e' then
    raise exception using errcode = 'LS006', message = format('job %s is not committed yet', job.id),
      hint = 'try again after the commit';
  elsif job.stage = 'w' then
    raise exception using errcode = 'LS006',
      message = format('job %s %s in its lane', job.id, coalesce('waits behind job ' || (
        select h.id from @schema@.job h where h.queue = job.queue and h.tenant = job.tenant
           and h.ordering_key = job.ordering_key and h.stage in ('r', 'b')), 'waits')),
      hint = 'the order of a lane does not change: cancel it and enqueue it again to give up its place';
  end if;
end $lockstep$;

-- retry_now lets a job that is retrying, snoozed or scheduled run at once.
-- ready (it may run) | due (scheduled with an ordering key: it joins its lane in a
-- moment, at the end) | busy. Raises LS005 for an id that never was, LS006 for a
-- job in any other state: it says which.
create or replace function @schema@.retry_now(id bigint) returns text
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $lockstep$
#variable_conflict use_column
declare
  job    constant @schema@.job := @schema@.job_held(retry_now.id);
  moment constant timestamptz := clock_timestamp();
begin
  if job.id is null then
    return 'busy';
  end if;
  perform @schema@.refuse_steering(job);
  if job.hold = 'p' then
    raise exception using errcode = 'LS006', message = format('job %s is paused', job.id),
      hint = 'resume its tenant or its ordering key';
  elsif job.stage = 'r' then
    raise exception using errcode = 'LS006', message = format('job %s is ready already', job.id);
  end if;
  update @schema@.job j set run_at = moment where j.id = job.id;
  if job.stage = 's' and job.ordering_key is not null then
    perform @schema@.signal('d', job.queue, (extract(epoch from moment) * 1000)::bigint);
    return 'due';
  end if;
  perform @schema@.make_ready(array[job.id]);
  perform @schema@.tell_ready(array[job.id]);
  return 'ready';
end $lockstep$;

-- reschedule gives a job that nobody runs another due time, by run_at or by a
-- delay from now; one that is past is now. What it comes to:
--
--   scheduled  it is due then. A scheduled job; or a ready one that was never
--              tried, if it has no ordering key or is alone in its lane, which
--              it then joins anew.
--   retrying   it is tried again then, and holds its lane until then. A job that
--              is retrying or snoozed, or was and is ready again.
--   ready      the time is past, and it was ready
--   busy       the row, or its lane, is locked for a moment: try again
--
-- A lane's order does not change: LS006 for a job that waits in its lane, and
-- for a head, never tried, with others behind it; also for one that runs or has
-- ended. LS005 for an id that never was, LS002 for a bad time. A job that leaves
-- its lane keeps the lane's entry lock until the transaction ends: commit soon.
create or replace function @schema@.reschedule(id bigint, run_at timestamptz default null, delay interval default null) returns text
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $lockstep$
#variable_conflict use_column
declare
  moment constant timestamptz := clock_timestamp();
  due    timestamptz;
  job    @schema@.job;
begin
  perform @schema@.check_due(reschedule.run_at, reschedule.delay);
  due := greatest(coalesce(reschedule.run_at, moment + reschedule.delay), moment);
  job := @schema@.job_held(reschedule.id);
  if job.id is null then
    return 'busy';
  end if;
  perform @schema@.refuse_steering(job);
  if job.stage = 'r' or job.hold = 'p' then
    if due <= moment then
      return 'ready';
    elsif job.attempt > 0 or exists (select from @schema@.attempt a where a.job_id = job.id) then
      job.stage := 'b';
    elsif job.ordering_key is null or @schema@.leaves_alone(job) then
      job.stage := 's';
    else
      return 'busy';
    end if;
  end if;
  update @schema@.job j
     set stage = job.stage, hold = '-', run_at = due, lane_turn = case when job.stage = 's' then 0 else j.lane_turn end
   where j.id = job.id;
  perform @schema@.signal('d', job.queue, (extract(epoch from due) * 1000)::bigint);
  return case when job.stage = 's' then 'scheduled' else 'retrying' end;
end $lockstep$;

-- check_due raises LS002 unless one of a time and a delay is given, in its range.
create or replace function @schema@.check_due(run_at timestamptz, delay interval) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $lockstep$
begin
  if num_nonnulls(run_at, delay) <> 1 then
    perform @schema@.refuse('run_at', 'one of run_at and delay must be given');
  elsif run_at in ('infinity', '-infinity') then
    perform @schema@.refuse('run_at', 'run_at must be a finite time');
  elsif run_at >= '10000-01-01 00:00:00+00' then
    perform @schema@.refuse('run_at', 'run_at must be before the year 10000');
  elsif delay not between '0' and '366000 days' then
    perform @schema@.refuse('delay', format('delay is %s; it must be between 0 and 1000 years', delay));
  end if;
end $lockstep$;

-- leaves_alone tells whether a head, its row locked by the caller, may leave its
-- lane without a successor: nobody is behind it, and nobody can get there, as the
-- lane's entry lock is held from here on. false if that lock could not be had;
-- raises LS006 if somebody waits.
create or replace function @schema@.leaves_alone(job @schema@.job) returns boolean
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $lockstep$
declare
  behind bigint;
begin
  if not @schema@.try_entry(job.queue, job.tenant, job.ordering_key) then
    return false;
  end if;
  -- The lock is newer than the look before it: look again.
  behind := (select w.id from @schema@.job w where w.queue = job.queue and w.tenant = job.tenant and w.ordering_key = job.ordering_key
                and w.stage = 'w' order by w.lane_turn limit 1);
  if behind is not null then
    raise exception using errcode = 'LS006', message = format('job %s is its lane''s head, and job %s waits behind it', job.id, behind),
      hint = 'the order of a lane does not change: cancel it and enqueue it again to give up its place';
  end if;
  return true;
end $lockstep$;

-- set_priority changes the priority of a job that has not ended: -9 to 9, higher
-- first, among what may run. Inside a lane it changes nothing, and an attempt
-- that runs is not touched. changed | busy. Raises LS002 for a bad priority, LS005
-- for an id that never was, LS006 for a job that has ended or blocks its lane.
create or replace function @schema@.set_priority(id bigint, priority integer) returns text
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $lockstep$
#variable_conflict use_column
declare
  job @schema@.job;
begin
  if set_priority.priority is null or set_priority.priority not between -9 and 9 then
    perform @schema@.refuse('priority', format('priority is %s; it must be a whole number between -9 and 9', set_priority.priority));
  end if;
  job := @schema@.job_held(set_priority.id);
  if job.id is null then
    return 'busy';
  end if;
  update @schema@.job j set priority = set_priority.priority where j.id = job.id and j.priority <> set_priority.priority;
  return 'changed';
end $lockstep$;
