-- replaceable
-- Notes: new payloads for jobs that are there.
--
-- An enqueue does not touch the job's row: its transaction may stay open for
-- long, and the job's lane would stand. The commit does, if it can have the row
-- at once. If it can't, the note stays, and whoever has the row next puts it
-- in: a claim does so before it hands the job out. So a claim that begins after
-- the commit never hands out an older payload. A note whose job has been claimed
-- meanwhile, or is gone, is settled by due().

-- apply_notes puts the newest notes into jobs that have never been claimed, and
-- whose rows the caller has locked. Like everything here, it waits for no note:
-- one that somebody else has is left to them, or its payload could run twice.
create or replace function @schema@.apply_notes(ids bigint[]) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
as $lockstep$
declare
  note record;
begin
  for note in
    select distinct on (l.job_id) l.*
      from (select n.job_id, n.turn, n.payload, n.headers from @schema@.dedupe_note n
             where n.job_id = any (ids) and n.turn > 0 and not n.missed for update skip locked) l
     order by l.job_id, l.turn desc
  loop
    update @schema@.job j set payload = note.payload, headers = note.headers, note_turn = note.turn
     where j.id = note.job_id and j.note_turn < note.turn;
    perform @schema@.forget_notes(note.job_id, note.turn);
  end loop;
end $lockstep$;

-- note_is_newer tells whether a note was committed after the payload that a job
-- has: of another note, whose turn is note_turn, or (0) its own, which a note may
-- have seen committed. One that could not see counts as newer.
create or replace function @schema@.note_is_newer(turn bigint, seen pg_snapshot, note_turn bigint, enqueued_xid xid8) returns boolean
language sql immutable parallel safe
return case note_turn when 0 then coalesce(pg_catalog.pg_visible_in_snapshot(enqueued_xid, seen), true) else note_turn < turn end;

-- with_notes puts what was noted for jobs, whose rows the caller has locked, into
-- those that have never been claimed, and answers which may be claimed: all but
-- those of whose notes somebody else has one for a moment. For one more, what was
-- noted for the job before it counts too, once that has been claimed or is over.
create or replace function @schema@.with_notes(ids bigint[]) returns bigint[]
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set plan_cache_mode = force_generic_plan
as $lockstep$
declare
  notes  bigint[]; -- beside each, the job that it is for
  jobs   bigint[];
  locked bigint[];
begin
  if not exists (select 1 from @schema@.dedupe_note n where n.turn > 0 and not n.missed) then
    return ids;
  end if;
  -- The look is newer than the rows' locks: what was committed before is in it.
  select array_agg(n.id), array_agg(j.id) into notes, jobs
    from unnest(ids) u(id)
   cross join lateral (
     select l.id, l.queue, l.tenant, l.dedupe_key, l.kind, l.note_turn, l.enqueued_xid
       from @schema@.job l where l.id = u.id and l.fence = 0 and l.dedupe_key is not null offset 0) j
   cross join lateral (
     select o.id from @schema@.dedupe_note o
      where o.queue = j.queue and o.tenant = j.tenant and o.dedupe_key = j.dedupe_key and o.turn > 0 and not o.missed
        and (o.job_id = j.id or
             o.kind = j.kind and o.dedupe = 'one_more'
             and @schema@.note_is_newer(o.turn, o.seen, j.note_turn, j.enqueued_xid)
             and not exists (select 1 from @schema@.job h where h.id = o.job_id and h.fence = 0 and not h.settled offset 0)) offset 0) n;
  if notes is null then
    return ids;
  end if;
  locked := array(select o.id from @schema@.dedupe_note o where o.id = any (notes) for update skip locked);
  ids := array(select u.id from unnest(ids) u(id)
                where not exists (select 1 from unnest(notes, jobs) n(id, job) where n.job = u.id and n.id <> all (locked)));
  update @schema@.dedupe_note o set job_id = jobs[array_position(notes, o.id)]
   where o.id = any (locked) and o.job_id <> jobs[array_position(notes, o.id)];
  perform @schema@.apply_notes(array(select distinct n.job from unnest(jobs) n(job) where n.job = any (ids)));
  return @schema@.fitting(ids); -- with their new payloads
end $lockstep$;

-- forget_notes deletes the notes of a job up to the turn of the payload that was
-- put into it: a later one may have been committed since that was drawn.
drop function if exists @schema@.forget_notes(bigint, boolean);
drop function if exists @schema@.forget_notes(bigint, bigint, boolean);
create or replace function @schema@.forget_notes(job_id bigint, newest bigint) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $lockstep$
#variable_conflict use_column
begin
  delete from @schema@.dedupe_note n where n.id = any (array(
    select o.id from @schema@.dedupe_note o
     where o.job_id = forget_notes.job_id and not o.missed and o.turn between 1 and newest for update skip locked));
end $lockstep$;

-- apply_notes_to does so for a job, if its row can be locked; false if not, or
-- if the job has been claimed or is gone.
create or replace function @schema@.apply_notes_to(id bigint) returns boolean
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $lockstep$
#variable_conflict use_column
begin
  perform 1 from @schema@.job j where j.id = apply_notes_to.id and j.fence = 0 and not j.settled for update skip locked;
  if not found then
    return false;
  end if;
  perform @schema@.apply_notes(array[apply_notes_to.id]);
  return true;
end $lockstep$;

-- note_commit (deferred, for each note) puts a payload into its job as the
-- transaction commits: it is the newest then, whenever it was noted. A
-- transaction that can't see what has been committed since it began leaves that
-- to due(), and so does one that is prepared: it would keep the job's row. What
-- it has enqueued beside is placed first, for the same reason.
create or replace function @schema@.note_commit() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $lockstep$
declare
  sees  constant boolean := current_setting('transaction_isolation') in ('read committed', 'read uncommitted');
  fresh bigint;
begin
  if not exists (select 1 from @schema@.dedupe_note n where n.id = new.id) then
    return null; -- it was given to another job since (note_anew)
  end if;
  if sees and current_setting('lockstep.signals', true) is distinct from 'off' then
    perform @schema@.place_noted();
    perform 1 from @schema@.job j where j.id = new.job_id and j.fence = 0 and not j.settled for update skip locked;
    if found then
      fresh := @schema@.next_turn();
      update @schema@.job j set payload = new.payload, headers = new.headers, note_turn = fresh where j.id = new.job_id;
      delete from @schema@.dedupe_note n where n.id = new.id;
      perform @schema@.forget_notes(new.job_id, fresh);
      return null;
    end if;
  end if;
  update @schema@.dedupe_note n set turn = @schema@.next_turn(), seen = case when sees then pg_current_snapshot() end where n.id = new.id;
  perform @schema@.signal('d', new.queue, (extract(epoch from clock_timestamp()) * 1000)::bigint);
  return null;
end $lockstep$;

do $lockstep$ begin
  if not exists (select 1 from pg_trigger where tgrelid = $name$@schema@.dedupe_note$name$::regclass and tgname = 'note_commit') then
    create constraint trigger note_commit after insert on @schema@.dedupe_note
      deferrable initially deferred for each row execute function @schema@.note_commit();
  end if;
end $lockstep$;

-- settle_notes settles up to 30 notes that a commit had to leave, in the order
-- of their turns. What somebody is at is paged past, with all other notes of its
-- job, so that one job can't hold up the others. Answers how many jobs it had to
-- leave, and one more if it did not come to the end. One at a time.
--
-- A try may wait 2 ms for a dedupe key, so it takes about 50 ms at most. The last
-- round begins at a random place of what is ahead, with the first notes of their
-- keys: so it comes by and by to notes behind any number of refused ones.
create or replace function @schema@.settle_notes() returns integer
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $lockstep$
declare
  until   constant timestamptz := clock_timestamp() + '50 ms'::interval;
  note    record;
  shut    bigint[] := '{}'; -- the jobs that are left
  at_turn bigint := 0;
  settled integer := 0;
  final   boolean := false;
begin
  if not exists (select 1 from @schema@.dedupe_note n where n.turn > 0 and not n.missed)
    or not pg_try_advisory_xact_lock(@schema@.own_mutex('notes'))
  then
    return 0;
  end if;
  for round in 1 .. 30 loop
    for note in
      select n.id, n.turn, n.job_id from @schema@.dedupe_note n
       where n.turn > at_turn and not n.missed and n.job_id <> all (shut)
         and (not final or not exists (
           select 1 from @schema@.dedupe_note o
            where o.queue = n.queue and o.tenant = n.tenant and o.dedupe_key = n.dedupe_key and o.turn > 0 and o.turn < n.turn and not o.missed))
       order by n.turn limit 10
    loop
      at_turn := note.turn;
      if note.job_id = any (shut) then
        continue;
      elsif @schema@.settle_note(note.id) then
        settled := settled + 1;
      else
        shut := shut || note.job_id;
      end if;
    end loop;
    exit when not found or final or settled >= 30;
    final := round = 29 or clock_timestamp() > until;
    if final then
      at_turn := coalesce(
        (select a.turn - 1 from (select n.turn from @schema@.dedupe_note n
                                  where n.turn > at_turn and not n.missed and n.job_id <> all (shut) order by n.turn limit 1000) a
          order by random() limit 1), at_turn);
    end if;
  end loop;
  return cardinality(shut) + (final or settled >= 30)::integer;
end $lockstep$;

-- settle_note puts a note into its job. If that has been claimed, or is gone,
-- the note is missed or, under one_more, becomes a job of its own. false: somebody
-- is at it, so later.
create or replace function @schema@.settle_note(id bigint) returns boolean
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $lockstep$
#variable_conflict use_column
declare
  note @schema@.dedupe_note;
begin
  select n.* into note from @schema@.dedupe_note n where n.id = settle_note.id and not n.missed for update skip locked;
  if not found then -- a claim has it, or had it
    return not exists (select 1 from @schema@.dedupe_note n where n.id = settle_note.id and not n.missed);
  elsif @schema@.apply_notes_to(note.job_id) then
    return true;
  elsif exists (select 1 from @schema@.job j where j.id = note.job_id and j.fence = 0 and not j.settled) then
    return false;
  elsif note.dedupe = 'one_more' then
    return @schema@.further_job(note);
  end if;
  update @schema@.dedupe_note n set missed = true where n.id = note.id;
  return true;
end $lockstep$;

-- further_job makes a job of a note whose own was claimed before the commit; or
-- puts the note into the one that somebody else has made, unless that has a
-- payload that was not committed before the note was. It joins its
-- lane as one that falls due does: nothing here waits for a lane, nor for the
-- transaction of somebody who has the key.
create or replace function @schema@.further_job(note @schema@.dedupe_note) returns boolean
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set lock_timeout = '2ms'
as $lockstep$
declare
  holder record;
  job    @schema@.job;
begin
  holder := @schema@.key_holder(note.queue, note.tenant, note.dedupe_key);
  if holder.id is not null and not holder.claimed and holder.kind = note.kind then
    if not exists (
      select 1 from @schema@.job j where j.id = holder.id and @schema@.note_is_newer(note.turn, note.seen, j.note_turn, j.enqueued_xid))
    then
      delete from @schema@.dedupe_note n where n.id = note.id;
      return true;
    end if;
    update @schema@.dedupe_note n set job_id = holder.id where n.id = note.id;
    return @schema@.apply_notes_to(holder.id);
  elsif holder.id is not null and (not holder.claimed or holder.ordering_key is null or holder.holders > 1) then
    update @schema@.dedupe_note n set missed = true where n.id = note.id;
    return true;
  end if;
  job.id := @schema@.next_id();
  job.kind := note.kind; job.payload := note.payload; job.headers := note.headers;
  job.queue := note.queue; job.tenant := note.tenant; job.dedupe_key := note.dedupe_key;
  job.ordering_key := coalesce(holder.ordering_key, note.ordering_key);
  job.priority := note.priority; job.max_attempts := note.max_attempts;
  job.run_at := clock_timestamp() + '1 day'::interval; -- scheduled, so that no trigger places it
  if not @schema@.insert_job(job, holder.seat) then
    return false;
  end if;
  if (select g.outcome <> 'created' from @schema@.pass_gate(job.id, job.queue, job.tenant, job.dedupe_key, 'one_more', null) g) then
    raise exception using errcode = 'lock_not_available'; -- undone: the next look will find who was there
  end if;
  update @schema@.job j set run_at = note.run_at, note_turn = note.turn where j.id = job.id;
  delete from @schema@.dedupe_note n where n.id = note.id;
  perform @schema@.signal('d', note.queue, (extract(epoch from note.run_at) * 1000)::bigint);
  return true;
exception
  when lock_not_available then -- of any statement: a table that grows has a lock, too
    return false;
  when integrity_constraint_violation then -- a limit was lowered: due() must not fail for good
    update @schema@.dedupe_note n set missed = true where n.id = note.id;
    return true;
end $lockstep$;

-- noted_payloads are payloads that were given for jobs that are there and are
-- not in them: pending for a moment, or missed, since the job was claimed, or
-- gone, before the commit. Missed ones are kept as long as finished jobs.
create or replace view @schema@.noted_payloads as
select n.id, case when n.missed then 'missed' else 'pending' end as state, n.job_id, n.queue, n.kind, n.tenant, n.dedupe_key, n.dedupe,
       n.payload, n.headers, n.created_at
  from @schema@.dedupe_note n;
