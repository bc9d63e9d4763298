-- replaceable
-- cancel ends a job that has not been claimed, or asks the worker that runs it
-- to stop: cancelled | requested (running: its context ends) | busy (the row
-- is locked for a moment: try again) | ended (it is over already). A cancelled
-- job is never tried again. Raises LS005 for an id that never was, LS006 for a
-- dead head that blocks its lane: discard that one.
create or replace function @schema@.cancel(id bigint) returns text
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
  select j.worker, j.hold, j.settled into job from @schema@.job j where j.id = cancel.id for update skip locked;
  if not found then
    return @schema@.absent(cancel.id);
  elsif job.settled then
    return 'ended';
  elsif job.hold = 'x' then
    raise exception using errcode = 'LS006', message = format('job %s is dead and blocks its lane', cancel.id),
      hint = 'replay it, discard it, or unblock the lane';
  elsif job.worker <> @schema@.nobody() then
    update @schema@.job j set cancel_requested = true where j.id = cancel.id;
    perform @schema@.signal_cancel(cancel.id);
    return 'requested';
  end if;
  if @schema@.with_notes(array[cancel.id]) = '{}' then -- what was given for it ends with it
    return 'busy';
  end if;
  perform @schema@.leave(array[cancel.id], array['cancelled'], array[null::jsonb], array[null::text], may_retire => false);
  return 'cancelled';
end $lockstep$;

-- absent says about a job that could not be had from the live table: busy or
-- ended, or raises LS005. It looks everywhere at one moment: a job dies, and is
-- replayed, meanwhile.
create or replace function @schema@.absent(id bigint) returns text
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $lockstep$
#variable_conflict use_column
declare
  answer text;
begin
  select case when exists (select 1 from @schema@.job j where j.id = absent.id) then 'busy'
              when exists (select 1 from @schema@.finished_job f where f.id = absent.id)
                or exists (select 1 from @schema@.dead_job d where d.id = absent.id) then 'ended' end into answer;
  if answer is null then
    raise exception using errcode = 'LS005', message = format('there is no job %s', absent.id);
  end if;
  return answer;
end $lockstep$;

-- signal_cancel tells of up to 20 cancels a transaction by id, then of all.
create or replace function @schema@.signal_cancel(id bigint) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $lockstep$
declare
  note constant text := @schema@.setting('cancels');
  xid  constant text := pg_current_xact_id()::text || ':';
  said text := coalesce(current_setting(note, true), '');
  n    integer := 0;
begin
  if current_setting('lockstep.signals', true) = 'off' then
    return;
  end if;
  if starts_with(said, xid) then
    n := coalesce(substring(said from ':([0-9]{1,3})$')::integer, 0);
  end if;
  if n <= 20 then
    perform pg_notify(@schema@.channel(), 'c ' || case when n < 20 then id::text else '*' end);
    perform set_config(note, xid || n + 1, true);
  end if;
end $lockstep$;
