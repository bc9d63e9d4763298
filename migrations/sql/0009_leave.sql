-- replaceable
-- How a job leaves: completed, cancelled or dead. A head's lane moves on in
-- the same statement, or, where another transaction is at the lane, the
-- outcome is recorded in the row (settled) and the lane moves on a moment
-- later. Nothing here waits for a lock.

-- follow finds out how the lanes of heads go on. The caller has locked the
-- heads' rows. clear are the heads that may leave, and successors, beside
-- each, the waiting job that follows it (its row locked) or null; a head that
-- is not among them must be settled.
--
-- The next job is locked before the head goes: otherwise a cancel of that very
-- job would leave its lane without a head, and a later job could overtake. It
-- is neither waited for nor skipped over. An empty lane is retired under its
-- entry lock, after a second look in a new statement: the lock may have been
-- released by a producer whose job the first look could not see yet. Without
-- may_retire, for a caller whose transaction may stay open, no lock is taken,
-- and the heads of empty lanes are settled.
create or replace function @schema@.follow(heads bigint[], may_retire boolean, out clear bigint[], out successors bigint[])
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set plan_cache_mode = force_generic_plan
as $lockstep$
declare
  undecided bigint[] := heads;
  nexts     bigint[]; -- beside undecided: the next waiting job; null is none
  locked    bigint[];
  gone      bigint[]; -- undecided whose next job went while we looked
  held      bigint[] := '{}'; -- heads of empty lanes whose entry lock is held
begin
  clear := '{}';
  successors := '{}';
  for round in 1 .. 5 loop
    select array_agg(u.id), array_agg(w.id) into undecided, nexts
      from unnest(undecided) u(id)
     cross join lateral (select l.queue, l.tenant, l.ordering_key from @schema@.job l where l.id = u.id offset 0) h
      left join lateral (
        select j.id from @schema@.job j
         where j.queue = h.queue and j.tenant = h.tenant and j.ordering_key = h.ordering_key and j.stage = 'w'
         order by j.lane_turn limit 1) w on true;
    locked := array(select j.id from @schema@.job j where j.id = any (nexts) and j.stage::text = 'w' for update skip locked);
    select clear || coalesce(array_agg(u.id), '{}'), successors || coalesce(array_agg(u.next), '{}')
      into clear, successors
      from unnest(undecided, nexts) u(id, next)
     where u.next = any (locked) or u.next is null and u.id = any (held);
    gone := array(select u.id from unnest(undecided, nexts) u(id, next)
                   where u.next <> all (locked) and not exists (select 1 from @schema@.job j where j.id = u.next and j.stage::text = 'w' offset 0));
    locked := array(select u.id from unnest(undecided, nexts) u(id, next)
                     cross join lateral (select l.queue, l.tenant, l.ordering_key from @schema@.job l where l.id = u.id offset 0) j
                     where may_retire and u.next is null and u.id <> all (held) and @schema@.try_entry(j.queue, j.tenant, j.ordering_key));
    held := held || locked;
    undecided := gone || locked;
    exit when undecided = '{}';
  end loop;
end $lockstep$;

-- archive moves jobs, whose rows the caller has locked and whose lanes it
-- moves on, out of the live table.
create or replace function @schema@.archive(ids bigint[], outcomes text[], results jsonb[], errors text[]) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set plan_cache_mode = force_generic_plan
as $lockstep$
declare
  ended constant timestamptz := clock_timestamp();
begin
  insert into @schema@.finished_job (
    id, lane_turn, fence, enqueued_xid, run_at, created_at, claimed_at, finished_at, worker, attempt, max_attempts,
    priority, outcome, queue, kind, tenant, ordering_key, dedupe_key, payload, headers, result, error)
  select j.id, j.lane_turn, j.fence, j.enqueued_xid, j.run_at, j.created_at, j.claimed_at, coalesce(j.ended_at, ended),
         j.worker, j.attempt, j.max_attempts, j.priority, u.outcome, j.queue, j.kind, j.tenant, j.ordering_key,
         j.dedupe_key, j.payload, j.headers, u.result, u.error
    from unnest(ids, outcomes, results, errors) u(id, outcome, result, error)
   cross join lateral (select l.* from @schema@.job l where l.id = u.id offset 0) j
   where u.outcome <> 'dead';
  if 'dead' = any (outcomes) then
    perform @schema@.bury(array(select u.id from unnest(ids, outcomes) u(id, outcome) where u.outcome = 'dead'),
                          array(select u.error from unnest(errors, outcomes) u(error, outcome) where u.outcome = 'dead'), false);
  end if;
  delete from @schema@.job j where j.id = any (ids);
end $lockstep$;

-- bury writes the dead letters of jobs.
create or replace function @schema@.bury(ids bigint[], errors text[], blocking boolean) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $lockstep$
begin
  insert into @schema@.dead_job (
    id, lane_turn, fence, enqueued_xid, run_at, created_at, claimed_at, died_at, worker, attempt, max_attempts,
    priority, blocking, queue, kind, tenant, ordering_key, dedupe_key, payload, headers, error)
  select j.id, j.lane_turn, j.fence, j.enqueued_xid, j.run_at, j.created_at, j.claimed_at,
         coalesce(j.ended_at, clock_timestamp()), j.worker, j.attempt, j.max_attempts, j.priority, bury.blocking,
         j.queue, j.kind, j.tenant, j.ordering_key, j.dedupe_key, j.payload, j.headers, u.error
    from unnest(ids, errors) u(id, error) cross join lateral (select l.* from @schema@.job l where l.id = u.id offset 0) j
  on conflict (id) do update set blocking = excluded.blocking; -- a blocked head that leaves its lane
end $lockstep$;

-- settle records outcomes in the rows of heads that can't leave yet. The first
-- outcome stands.
create or replace function @schema@.settle(ids bigint[], outcomes text[], results jsonb[], errors text[]) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_indexscan = off
set enable_indexonlyscan = off
set enable_bitmapscan = on
set jit = off
set plan_cache_mode = force_generic_plan
as $lockstep$
begin
  update @schema@.job j
     set settled = true, outcome = u.outcome, result = u.result, error = u.error,
         ended_at = coalesce(j.ended_at, clock_timestamp())
    from unnest(ids, outcomes, results, errors) u(id, outcome, result, error) where j.id = u.id and not j.settled;
end $lockstep$;

-- block keeps dead heads in their lanes, for a person to decide.
create or replace function @schema@.block(ids bigint[], errors text[]) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $lockstep$
begin
  perform @schema@.bury(ids, errors, true);
  update @schema@.job j
     set stage = 'b', hold = 'x', run_at = 'infinity', lease_until = '-infinity', worker = @schema@.nobody(),
         settled = false, outcome = null, result = null, error = null, ended_at = null, cancel_requested = false
   where j.id = any (ids);
end $lockstep$;

-- leave ends jobs whose rows the caller has locked, at most 200 lanes of them,
-- with outcomes 'completed', 'cancelled' or 'dead'. pending are those only
-- settled. successors, beside the heads they follow (null for none), are the
-- new heads of their lanes; everyone is told of them unless the caller is to
-- (quiet). may_retire is follow's.
create or replace function @schema@.leave(ids bigint[], outcomes text[], results jsonb[], errors text[],
  quiet boolean default false, may_retire boolean default true,
  out pending bigint[], out heads bigint[], out successors bigint[])
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set plan_cache_mode = force_generic_plan
as $lockstep$
declare
  blocked bigint[] := '{}';
  keyed   bigint[];
begin
  if 'dead' = any (outcomes) then
    blocked := @schema@.block_dead(ids, outcomes, errors);
  end if;
  keyed := array(select j.id from @schema@.job j
                  where j.id = any (ids) and j.ordering_key is not null and j.stage::text in ('r', 'b') and j.id <> all (blocked));
  pending := '{}';
  heads := '{}';
  successors := '{}';
  if keyed <> '{}' then
    select f.clear, f.successors, array(select k.id from unnest(keyed) k(id) where k.id <> all (f.clear))
      into heads, successors, pending from @schema@.follow(keyed, may_retire) f;
  end if;
  if pending <> '{}' then
    if not quiet then -- nobody may be there to report again: due() has to do it
      perform @schema@.signal('d', q.queue, (extract(epoch from clock_timestamp()) * 1000)::bigint)
         from (select distinct j.queue from @schema@.job j where j.id = any (pending) and not j.settled) q;
    end if;
    perform @schema@.settle(array_agg(u.id), array_agg(u.outcome), array_agg(u.result), array_agg(u.error))
       from unnest(ids, outcomes, results, errors) u(id, outcome, result, error) where u.id = any (pending);
  end if;
  perform @schema@.archive(array_agg(u.id), array_agg(u.outcome), array_agg(u.result), array_agg(u.error))
     from unnest(ids, outcomes, results, errors) u(id, outcome, result, error)
    where u.id <> all (pending) and u.id <> all (blocked);
  perform @schema@.promote(array_remove(successors, null));
  if not quiet then
    perform @schema@.tell_ready(array_remove(successors, null));
  end if;
end $lockstep$;

-- block_dead keeps those of the dying heads whose queue's policy is `block` in
-- their lanes, for a person to decide, and answers which. One that is blocked
-- already is on its way out.
create or replace function @schema@.block_dead(ids bigint[], outcomes text[], errors text[]) returns bigint[]
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $lockstep$
declare
  blocked bigint[];
  reasons text[];
begin
  select coalesce(array_agg(j.id), '{}'), coalesce(array_agg(u.error), '{}') into blocked, reasons
    from unnest(ids, outcomes, errors) u(id, outcome, error)
   cross join lateral (select l.* from @schema@.job l where l.id = u.id offset 0) j
    join @schema@.queue q on q.name = j.queue
   where u.outcome = 'dead' and q.on_dead = 'block' and j.ordering_key is not null
     and j.stage in ('r', 'b') and j.hold <> 'x';
  perform @schema@.block(blocked, reasons);
  return blocked;
end $lockstep$;

-- with_letter are those of the jobs, whose rows the caller has locked, that may
-- leave as far as their dead letters go: the letter of a blocked head is locked
-- here, and a head whose letter somebody else holds has to wait.
create or replace function @schema@.with_letter(ids bigint[]) returns bigint[]
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $lockstep$
declare
  locked constant bigint[] := array(select d.id from @schema@.dead_job d where d.id = any (ids) for update skip locked);
begin
  return array(select u.id from unnest(ids) u(id)
                where u.id = any (locked) or not exists (select 1 from @schema@.dead_job d where d.id = u.id));
end $lockstep$;

-- retire lets the lanes of settled heads, whose rows the caller has locked,
-- go on. Answers how many could.
create or replace function @schema@.retire(ids bigint[]) returns integer
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $lockstep$
declare
  free    constant bigint[] := @schema@.with_letter(ids);
  pending bigint[];
begin
  if free = '{}' then
    return 0;
  end if;
  select l.pending into pending from (
    select array_agg(j.id) as ids, array_agg(j.outcome::text) as outcomes, array_agg(j.result) as results, array_agg(j.error) as errors
      from @schema@.job j where j.id = any (free)) s,
    lateral @schema@.leave(s.ids, s.outcomes, s.results, s.errors) l;
  return cardinality(free) - cardinality(pending);
end $lockstep$;
