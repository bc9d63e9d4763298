-- replaceable
-- Dedupe keys: who has one, and what becomes of a request that finds it taken.
--
-- A job takes the key's first free seat, which is 0 unless another one is there
-- that it may stand beside: one that has been claimed, under the policy one_more,
-- or one that is over and settled, whose lane has not moved on yet. The seats are
-- a unique index of job. It alone does not keep a job in one seat, not committed
-- yet, and a new one in another seat from each other, once the job that they
-- stood beside has left: so whoever has a seat goes through the key's gate, where
-- one waits for the other, and looks again.
--
-- A job counts as claimed from its first claim on: running, retrying, snoozed,
-- given back or replayed. What it was claimed with, it keeps.

-- key_holder is the unfinished job that has a dedupe key, but for the job
-- except_id: the one that has not been claimed, if there are two; and the first
-- seat that is free, as far as can be seen.
create or replace function @schema@.key_holder(queue text, tenant text, dedupe_key text, except_id bigint default 0,
  out id bigint, out kind text, out ordering_key text, out claimed boolean, out holders integer, out seat smallint)
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $lockstep$
#variable_conflict use_column
declare
  other record;
  taken smallint[] := '{}';
begin
  holders := 0;
  for other in
    select j.id, j.kind, j.ordering_key, j.dedupe_seat, j.fence <> 0 as claimed, j.settled
      from @schema@.job j
     where j.queue = key_holder.queue and j.tenant = key_holder.tenant and j.dedupe_key = key_holder.dedupe_key and j.id <> key_holder.except_id
  loop
    taken := taken || other.dedupe_seat;
    if not other.settled then
      holders := holders + 1;
      if id is null or not other.claimed then
        id := other.id; kind := other.kind; ordering_key := other.ordering_key; claimed := other.claimed;
      end if;
    end if;
  end loop;
  seat := 0;
  while seat = any (taken) loop
    seat := seat + 1;
  end loop;
end $lockstep$;

-- insert_job inserts a checked job; false if its dedupe key's seat is taken.
create or replace function @schema@.insert_job(job @schema@.job, seat smallint) returns boolean
language plpgsql
set search_path = pg_catalog, pg_temp
as $lockstep$
begin
  if seat = 0 then -- dedupe_seat is not named: producers need no right to it
    insert into @schema@.job (id, kind, payload, queue, tenant, ordering_key, priority, run_at, max_attempts, dedupe_key, headers)
    values (job.id, job.kind, job.payload, job.queue, job.tenant, job.ordering_key, job.priority, job.run_at, job.max_attempts,
            job.dedupe_key, job.headers)
    on conflict (queue, tenant, dedupe_key, dedupe_seat) where dedupe_key is not null do nothing;
  else
    insert into @schema@.job (id, kind, payload, queue, tenant, ordering_key, priority, run_at, max_attempts, dedupe_key, headers, dedupe_seat)
    values (job.id, job.kind, job.payload, job.queue, job.tenant, job.ordering_key, job.priority, job.run_at, job.max_attempts,
            job.dedupe_key, job.headers, seat)
    on conflict (queue, tenant, dedupe_key, dedupe_seat) where dedupe_key is not null do nothing;
  end if;
  return found;
end $lockstep$;

-- take_seat inserts a checked job that has a dedupe key, in a free seat, or
-- does what the policy says about the job that has the key:
--   created   the job is new (go through the gate: pass_gate)
--   existing  the job of this id has the key; nothing was changed
--   noted     the job of this id has the key, and the commit puts the payload
--             into it unless it has been claimed by then
-- It waits while another transaction has the seat. place is for the error of a
-- request that can't be taken; without it such a one leaves the job as it is.
create or replace function @schema@.take_seat(job @schema@.job, dedupe text, place text, out id bigint, out outcome text)
language plpgsql
set search_path = pg_catalog, pg_temp
as $lockstep$
#variable_conflict use_column
declare
  holder record;
begin
  if take_seat.dedupe = 'one_more' then
    -- What waits for another needs a lane to wait in.
    job.ordering_key := coalesce(job.ordering_key, job.dedupe_key);
  end if;
  loop
    holder := @schema@.key_holder(job.queue, job.tenant, job.dedupe_key);
    if holder.id is not null then
      outcome := @schema@.meet(job, take_seat.dedupe, holder.id, holder.kind, holder.ordering_key, holder.claimed, holder.holders, take_seat.place);
      continue when outcome = 'gone';
      id := holder.id;
      exit when outcome <> 'further';
      job.ordering_key := holder.ordering_key;
    end if;
    id := job.id;
    outcome := 'created';
    exit when @schema@.insert_job(job, holder.seat);
  end loop;
end $lockstep$;

-- meet decides about a request whose dedupe key a job has: existing, noted,
-- further: one more may go in, in that job's lane; or gone: look again who has
-- it. A producer may call it by itself, with whatever arguments, so it notes
-- nothing but for a job that has the key.
create or replace function @schema@.meet(job @schema@.job, dedupe text, holder bigint, kind text, ordering_key text, claimed boolean,
  holders integer, place text) returns text
language plpgsql
set search_path = pg_catalog, pg_temp
as $lockstep$
begin
  if dedupe = 'reject' then
    return 'existing';
  elsif claimed then
    return case when dedupe = 'one_more' and ordering_key is not null and holders = 1 then 'further' else 'existing' end;
  elsif kind = job.kind then
    insert into @schema@.dedupe_note (job_id, run_at, max_attempts, priority, dedupe, queue, kind, tenant, ordering_key, dedupe_key, payload, headers)
    select j.id, job.run_at, job.max_attempts, job.priority, meet.dedupe, j.queue, j.kind, j.tenant, job.ordering_key, j.dedupe_key, job.payload, job.headers
      from @schema@.job j
     where j.id = holder and j.queue = job.queue and j.tenant = job.tenant and j.dedupe_key = job.dedupe_key and j.kind = job.kind;
    return case when found then 'noted' else 'gone' end;
  elsif place is not null then
    perform @schema@.refuse('kind', format('kind is %L, but job %s, which has the dedupe key, is of kind %L: its payload can''t be replaced',
      job.kind, holder, kind), place);
  end if;
  return 'existing';
end $lockstep$;

-- enter_gate makes this transaction the one that decides about a dedupe key; it
-- waits for another that is at it.
create or replace function @schema@.enter_gate(queue text, tenant text, dedupe_key text) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $lockstep$
declare
  entered tid;
begin
  insert into @schema@.dedupe_gate as g (queue, tenant, dedupe_key)
  values (enter_gate.queue, enter_gate.tenant, enter_gate.dedupe_key) on conflict do nothing returning g.ctid into entered;
  delete from @schema@.dedupe_gate g where g.ctid = entered;
end $lockstep$;

-- enter_gates does so for the keys of jobs that this transaction inserted, in
-- the order of the keys: that of the database, as calls that go one by one do.
create or replace function @schema@.enter_gates(ids bigint[]) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
as $lockstep$
declare
  rows tid[];
begin
  with entered as (
    insert into @schema@.dedupe_gate (queue, tenant, dedupe_key)
    select j.queue, j.tenant, j.dedupe_key from unnest(ids) u(id)
     cross join lateral (select l.queue, l.tenant, l.dedupe_key from @schema@.job l where l.id = u.id offset 0) j
     where j.dedupe_key is not null
     order by j.queue collate "default", j.tenant collate "default", j.dedupe_key collate "default"
    on conflict do nothing returning ctid)
  select array_agg(e.ctid) into rows from entered e;
  delete from @schema@.dedupe_gate where ctid = any (rows);
end $lockstep$;

-- pass_gate looks again, behind the gate, at who has the dedupe key of a job
-- that this transaction inserted. Where another one is found that must not be
-- there beside it, the inserted one goes, and the answer is take_seat's.
create or replace function @schema@.pass_gate(inserted bigint, queue text, tenant text, dedupe_key text, dedupe text, place text,
  out id bigint, out outcome text)
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $lockstep$
#variable_conflict use_column
declare
  own    @schema@.job;
  holder record;
begin
  perform @schema@.enter_gate(pass_gate.queue, pass_gate.tenant, pass_gate.dedupe_key);
  -- A producer may call this by itself: what others inserted does not go.
  select j.* into own from @schema@.job j where j.id = pass_gate.inserted and j.enqueued_xid = pg_current_xact_id();
  loop
    holder := @schema@.key_holder(pass_gate.queue, pass_gate.tenant, pass_gate.dedupe_key, inserted);
    id := inserted;
    outcome := 'created';
    if holder.id is null or own.id is null then
      return;
    end if;
    outcome := @schema@.meet(own, pass_gate.dedupe, holder.id, holder.kind, holder.ordering_key, holder.claimed, holder.holders, pass_gate.place);
    exit when outcome <> 'gone';
  end loop;
  if outcome = 'further' and own.ordering_key = holder.ordering_key then
    outcome := 'created';
    return;
  end if;
  delete from @schema@.job j where j.id = own.id;
  if outcome = 'further' then
    own.ordering_key := holder.ordering_key;
    perform @schema@.insert_job(own, own.dedupe_seat);
    outcome := 'created';
  else
    id := holder.id;
    perform @schema@.note_anew(own.id, holder.id);
  end if;
end $lockstep$;

-- note_anew gives the notes that this transaction made for a job of its own,
-- which has given way to another one, to that: as new notes, since the payload
-- of the job itself was given before them and has just been noted.
create or replace function @schema@.note_anew(gone bigint, holder bigint) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $lockstep$
begin
  with old as (delete from @schema@.dedupe_note n where n.job_id = gone and not n.missed returning n.*)
  insert into @schema@.dedupe_note (job_id, run_at, max_attempts, priority, dedupe, queue, kind, tenant, ordering_key, dedupe_key, payload, headers)
  select holder, o.run_at, o.max_attempts, o.priority, o.dedupe, o.queue, o.kind, o.tenant, o.ordering_key, o.dedupe_key, o.payload, o.headers
    from old o order by o.id;
end $lockstep$;

-- alone_with_key tells whether a job that this transaction put into the live
-- table is the only unfinished one of its dedupe key.
create or replace function @schema@.alone_with_key(id bigint, queue text, tenant text, dedupe_key text) returns boolean
language plpgsql
set search_path = pg_catalog, pg_temp
as $lockstep$
begin
  perform @schema@.enter_gate(queue, tenant, dedupe_key);
  return (select h.id is null from @schema@.key_holder(queue, tenant, dedupe_key, id) h);
end $lockstep$;
