-- replaceable
-- How a job enters: triggers, so that a plain INSERT or COPY does the same as
-- enqueue().
--
-- A keyed job enters its lane as its transaction commits, under the lane's
-- entry lock: the order in which the lock is had is the order of the lane, and
-- since it is held to the end of the commit, it is the order of the commits.

-- job_enter (before each row) sets a job's stage. It takes no lock: the user's
-- transaction may stay open for long.
create or replace function @schema@.job_enter() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $lockstep$
declare
  note constant text := @schema@.setting('entering');
  xid  constant text := pg_current_xact_id()::text;
  said constant text := coalesce(current_setting(note, true), '');
begin
  -- One without a key comes here only because it was due later, when the clock
  -- was read for the trigger's condition: it has no lane to enter.
  if new.ordering_key is null or new.run_at > clock_timestamp() then
    new.stage := 's';
    return new;
  end if;
  new.stage := 'e';
  -- '1' one job to place, 'many', 'done' placed; '+' it is not the first round.
  perform set_config(note, xid || case said
    when xid || ':1'     then ':many'
    when xid || ':many'  then ':many'
    when xid || ':done'  then ':1+'
    when xid || ':1+'    then ':many+'
    when xid || ':many+' then ':many+'
    else ':1' end, true);
  return new;
end $lockstep$;

-- job_place (deferred, for each row that entered): the first firing places the
-- whole transaction, the others find that done. A note that is not this
-- transaction's, or makes no sense, is not believed: all that is found is
-- placed then.
create or replace function @schema@.job_place() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $lockstep$
declare
  note  constant text := @schema@.setting('entering');
  xid   constant text := pg_current_xact_id()::text;
  said  constant text := coalesce(current_setting(note, true), '');
begin
  if said = xid || ':done' then
    return null;
  elsif said in (xid || ':1', xid || ':1+') then
    if not @schema@.place_one(new.id, new.queue, new.tenant, new.ordering_key) then
      return null; -- placed in an earlier round, or cancelled: the one noted is another
    end if;
  else
    perform @schema@.place_entered(first_round => said <> xid || ':many+');
  end if;
  perform set_config(note, xid || ':done', true);
  return null;
end $lockstep$;

-- place_noted places what this transaction has entered by its note, before it
-- locks a row: the wait for a lane may be long.
create or replace function @schema@.place_noted() returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $lockstep$
declare
  note constant text := @schema@.setting('entering');
  xid  constant text := pg_current_xact_id()::text;
  said constant text := coalesce(current_setting(note, true), '');
begin
  if said in (xid || ':1', xid || ':many', xid || ':1+', xid || ':many+') then
    perform @schema@.place_entered(first_round => said not like '%+');
    perform set_config(note, xid || ':done', true);
  end if;
end $lockstep$;

-- place_entered places all that this transaction entered.
create or replace function @schema@.place_entered(first_round boolean) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set plan_cache_mode = force_generic_plan
as $lockstep$
declare
  ids constant bigint[] := array(
    select e.id from (select j.id from @schema@.job j where j.stage = 'e' and j.enqueued_xid = pg_current_xact_id() offset 0) e order by e.id);
begin
  if ids <> '{}' then
    perform @schema@.place(ids, first_round);
  else
    perform @schema@.check_visible();
  end if;
end $lockstep$;

-- check_visible is asked when a trigger finds less than it was fired for:
-- ordinary for a job that its own transaction has cancelled since.
create or replace function @schema@.check_visible() returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $lockstep$
begin
  if (select c.relforcerowsecurity from pg_class c where c.oid = $name$@schema@.job$name$::regclass) then
    perform @schema@.raise_hidden();
  end if;
end $lockstep$;

create or replace function @schema@.raise_hidden() returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $lockstep$
begin
  raise exception using errcode = 'LS007',
    message = 'a job trigger can''t see the rows of its own transaction',
    hint = 'row-level security is forced on the job table; use: alter table ... no force row level security';
end $lockstep$;

-- job_signal (after each statement) tells of keyless and scheduled jobs; keyed
-- ones are told of by their placing.
create or replace function @schema@.job_signal() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $lockstep$
declare
  fresh record;
begin
  for fresh in
    select i.queue, min(i.turn) filter (where i.stage = 'r') as turn, min(i.run_at) filter (where i.stage = 's') as due
    from inserted i where i.stage in ('r', 's') group by i.queue
  loop
    if fresh.turn is not null then
      perform @schema@.signal('r', fresh.queue, fresh.turn);
    end if;
    if fresh.due is not null then
      perform @schema@.signal('d', fresh.queue, (extract(epoch from fresh.due) * 1000)::bigint);
    end if;
  end loop;
  return null;
end $lockstep$;

-- job_size (before each row that it refuses) stands for check constraints. Those
-- would be evaluated at every update too, and so write out the payload at every
-- claim, placing and heartbeat. What is nested too deeply for JSON's readers could
-- not be handed out, nor could the jobs that are claimed with it.
create or replace function @schema@.job_size() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $lockstep$
declare
  deep constant text := case when new.payload @? '$.**{1000}' then 'payload' else 'headers' end;
begin
  if jsonb_typeof(new.headers) <> 'object' or octet_length(new.headers::text) > @schema@.text_limit() then
    raise exception using errcode = 'check_violation', constraint = 'job_headers_object', column = 'headers',
      message = format('headers must be a JSON object of at most %s bytes', @schema@.text_limit());
  elsif octet_length(new.payload::text) > @schema@.payload_limit() then
    raise exception using errcode = 'check_violation', constraint = 'job_payload_size', column = 'payload',
      message = format('payload is %s bytes long; at most %s are allowed', octet_length(new.payload::text), @schema@.payload_limit());
  end if;
  raise exception using errcode = 'check_violation', constraint = format('job_%s_depth', deep), column = deep,
    message = format('%s: nested more than 1000 levels deep', deep);
end $lockstep$;

create or replace trigger job_size before insert on @schema@.job for each row
  when (octet_length(new.payload::text) > @schema@.payload_limit()
     or jsonb_typeof(new.headers) <> 'object' or octet_length(new.headers::text) > @schema@.text_limit()
     or octet_length(new.payload::text) > 2000 and new.payload @? '$.**{1000}'
     or octet_length(new.headers::text) > 2000 and new.headers @? '$.**{1000}')
  execute function @schema@.job_size();

create or replace trigger job_enter before insert on @schema@.job for each row
  when (new.ordering_key is not null or new.run_at > pg_catalog.clock_timestamp())
  execute function @schema@.job_enter();

do $lockstep$ begin
  if not exists (select 1 from pg_trigger where tgrelid = $name$@schema@.job$name$::regclass and tgname = 'job_place') then
    create constraint trigger job_place after insert on @schema@.job
      deferrable initially deferred for each row
      when (new.stage = 'e')
      execute function @schema@.job_place();
  end if;
end $lockstep$;

create or replace trigger job_signal after insert on @schema@.job
  referencing new table as inserted for each statement
  execute function @schema@.job_signal();
