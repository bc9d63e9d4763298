-- replaceable
-- Finishing: workers report how attempts ended.

-- finish records outcomes, given as parallel arrays, and moves lanes on:
--   completed
--   failed     runs again after its delay (null: the queue's backoff); dead if
--              it was the last attempt
--   dead       failed for good
--   snoozed    runs again after its delay; the attempt is not used up
--   released   given back at once; the attempt is not used up
--   cancelled  ended because a cancel was asked for
-- A report counts if and only if (id, fence, worker) still stands in the row.
-- One answer per id: done | already (this fence's outcome was recorded before)
-- | pending (recorded; the lane moves on a moment later: report again, or
-- leave it to due()) | busy (the row is locked for a moment: report again)
-- | lost (the claim is not this worker's any more; nothing was changed).
--
-- take are kinds, or patterns, that the worker has a free slot for: next is the
-- lane's next job, claimed for it, if no other job of that queue is ready for it.
-- settle_only is for a handler's own transaction: a keyed job is only settled
-- there, and its lane moves on by a second report after the commit. At most
-- 1,000 reports; those beyond 200 lanes answer busy.
create or replace function @schema@.finish(worker uuid, ids bigint[], fences bigint[], outcomes text[], results jsonb[], errors text[],
  delays interval[], take text[] default null, take_lease interval default '30 seconds', settle_only boolean default false)
returns table (id bigint, outcome text, next json)
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set plan_cache_mode = force_generic_plan
as $lockstep$
#variable_conflict use_column
declare
  mine    bigint[];  -- reports whose rows are locked and stand, in parallel:
  plans   text[];    -- what is done about each
  notes   jsonb[];   -- its result
  reasons text[];    -- its error
  waits   interval[];
  keyed   boolean[];
  known   boolean[]; -- it is settled: what was recorded then counts
  others  bigint[]; -- reports that were not mine, and their answers
  answers text[];
  pending bigint[] := '{}';
  busy    bigint[] := '{}';
  heads   bigint[] := '{}';
  nexts   bigint[] := '{}';
  taken   json;
  claimed bigint[];
  claims  json[];
begin
  perform @schema@.require_read_committed();
  perform @schema@.check_worker(finish.worker);
  perform @schema@.check_finish(finish.ids, finish.fences, finish.outcomes, finish.results, finish.errors, finish.delays);
  select array_agg(m.id), array_agg(m.plan), array_agg(m.result), array_agg(m.error), array_agg(m.delay), array_agg(m.keyed), array_agg(m.settled)
    into mine, plans, notes, reasons, waits, keyed, known
    from (select u.id, u.delay, j.settled, j.ordering_key is not null as keyed,
                 case when j.settled then j.result else u.result end as result,
                 case when j.settled then j.error else left(u.error, @schema@.text_limit()) end as error,
                 case when j.settled then j.outcome
                      when u.outcome in ('completed', 'cancelled', 'dead') then u.outcome
                      when j.cancel_requested then 'cancelled'
                      when u.outcome = 'failed' and j.attempt >= j.max_attempts then 'dead'
                      else u.outcome end as plan
            from unnest(finish.ids, finish.fences, finish.outcomes, finish.results, finish.errors, finish.delays)
                   u(id, fence, outcome, result, error, delay)
           cross join lateral (
             select l.settled, l.outcome, l.result, l.error, l.ordering_key, l.cancel_requested, l.attempt, l.max_attempts
               from @schema@.job l
              where l.id = u.id and l.fence = u.fence and l.worker = finish.worker
                for update skip locked) j) m;
  if mine is not null then
    busy := array(select u.id from unnest(mine, plans, keyed) u(id, plan, keyed)
                   where u.keyed and u.plan not in ('failed', 'snoozed', 'released') offset 200);
    if busy <> '{}' then
      select array_agg(u.id), array_agg(u.plan), array_agg(u.result), array_agg(u.error), array_agg(u.delay), array_agg(u.keyed), array_agg(u.known)
        into mine, plans, notes, reasons, waits, keyed, known
        from unnest(mine, plans, notes, reasons, waits, keyed, known) u(id, plan, result, error, delay, keyed, known) where u.id <> all (busy);
    end if;
    perform @schema@.note_attempts(array_agg(u.id), array_agg(u.plan), array_agg(u.error))
       from unnest(mine, plans, reasons, known) u(id, plan, error, known) where u.plan <> 'completed' and not u.known having count(*) > 0;
    perform @schema@.set_aside(array_agg(u.id), array_agg(case when u.plan = 'released' then '0' else u.delay end), u.plan <> 'failed')
       from unnest(mine, plans, waits) u(id, plan, delay) where u.plan in ('failed', 'snoozed', 'released') group by u.plan <> 'failed';
    select e.pending, e.heads, e.nexts into pending, heads, nexts
      from @schema@.end_jobs(mine, plans, notes, reasons, keyed, finish.settle_only) e;
    taken := @schema@.take_over(finish.worker, array_remove(nexts, null), finish.take, finish.take_lease);
  end if;
  select array_agg((t.value ->> 'id')::bigint), array_agg(t.value) into claimed, claims from json_array_elements(taken) t;
  select array_agg(o.id), array_agg(o.answer) into others, answers
    from @schema@.not_mine(finish.worker, finish.ids, finish.fences, mine) o;
  return query
    select u.id,
           case when u.id = any (busy) then 'busy'
                when u.id = any (pending) then 'pending'
                when u.id = any (mine) then 'done'
                else answers[array_position(others, u.id)] end,
           claims[array_position(claimed, nexts[array_position(heads, u.id)])]
      from unnest(finish.ids) u(id);
end $lockstep$;

create or replace function @schema@.check_finish(ids bigint[], fences bigint[], outcomes text[], results jsonb[], errors text[], delays interval[]) returns void
language plpgsql immutable
set search_path = pg_catalog, pg_temp
as $lockstep$
declare
  n constant integer := cardinality(ids);
  unknown text;
begin
  if n is null or n > 1000 then
    perform @schema@.refuse('ids', 'ids must be an array of at most 1000 job ids');
  elsif array_position(ids, null) is not null then
    perform @schema@.refuse('ids', 'ids must not be null');
  elsif (select count(distinct i) from unnest(ids) i) < n then
    perform @schema@.refuse('ids', 'ids must not name a job twice');
  elsif (cardinality(fences), cardinality(outcomes), cardinality(results), cardinality(errors), cardinality(delays))
        is distinct from (n, n, n, n, n) then
    perform @schema@.refuse('ids', 'ids, fences, outcomes, results, errors and delays must be equally long');
  end if;
  unknown := (select coalesce(o, 'null') from unnest(outcomes) o
               where o is null or o not in ('completed', 'failed', 'dead', 'snoozed', 'released', 'cancelled') limit 1);
  if unknown is not null then
    perform @schema@.refuse('outcomes', format('outcome %L is not one of completed, failed, dead, snoozed, released, cancelled', unknown));
  end if;
end $lockstep$;

-- note_attempts keeps a row of attempts that did not complete their jobs.
create or replace function @schema@.note_attempts(ids bigint[], outcomes text[], errors text[]) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $lockstep$
begin
  insert into @schema@.attempt (job_id, fence, attempt, worker, claimed_at, ended_at, outcome, error)
  select j.id, j.fence, j.attempt, j.worker, j.claimed_at, clock_timestamp(), u.outcome, u.error
    from unnest(ids, outcomes, errors) u(id, outcome, error)
   cross join lateral (select l.id, l.fence, l.attempt, l.worker, l.claimed_at from @schema@.job l where l.id = u.id offset 0) j;
end $lockstep$;

-- set_aside gives claimed jobs back: they run again after a delay (null: the
-- queue's backoff, 0: at once, at the end of the ready line). They keep their
-- fence, so that a repeated report is known for one, and a head stays its
-- lane's head. refund: the attempt is not used up. An attempt that ended with a
-- report sets the count of losses back; one that was lost adds to it.
create or replace function @schema@.set_aside(ids bigint[], delays interval[], refund boolean default false, reported boolean default true) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_indexscan = off
set enable_indexonlyscan = off
set enable_bitmapscan = on
set jit = off
set plan_cache_mode = force_generic_plan
as $lockstep$
declare
  later record;
begin
  update @schema@.job j
     set stage = case when u.delay <= '0' then 'r'::"char" else 'b'::"char" end, hold = '-',
         turn = case when u.delay <= '0' then @schema@.next_turn() else j.turn end,
         run_at = clock_timestamp() + greatest(u.delay, '0'),
         attempt = j.attempt - refund::integer,
         lost = case when reported then 0 else j.lost + 1 end, worker = @schema@.nobody(), lease_until = '-infinity', held_since = '-infinity'
    from (select a.id, least(coalesce(a.delay, @schema@.backoff(b.queue, b.attempt)), '366 days') as delay
            from unnest(ids, delays) a(id, delay)
           cross join lateral (select l.queue, l.attempt from @schema@.job l where l.id = a.id offset 0) b) u
   where j.id = u.id;
  perform @schema@.tell_ready(ids);
  for later in
    select j.queue, min(j.run_at) as due from @schema@.job j where j.id = any (ids) and j.stage::text = 'b' group by j.queue
  loop
    perform @schema@.signal('d', later.queue, (extract(epoch from later.due) * 1000)::bigint);
  end loop;
end $lockstep$;

-- backoff after the n-th attempt: base * factor^(n-1), within the cap, then
-- 20 % of jitter to both sides, what is beyond the cap left out: jobs that all
-- have come to the cap must not come back together.
create or replace function @schema@.backoff(queue text, n integer) returns interval
language plpgsql
set search_path = pg_catalog, pg_temp
as $lockstep$
declare
  base   double precision := 5;
  factor double precision := 2;
  cap    double precision := 3600;
  wait   double precision;
begin
  select extract(epoch from q.backoff_base), q.backoff_factor, extract(epoch from q.backoff_cap)
    into base, factor, cap from @schema@.queue q where q.name = backoff.queue;
  if not found then
    base := 5; factor := 2; cap := 3600;
  end if;
  wait := least(cap, base * power(factor, least(greatest(n, 1) - 1, 64)));
  return (0.8 * wait + random() * (least(cap, 1.2 * wait) - 0.8 * wait)) * interval '1 second';
end $lockstep$;

-- end_jobs ends those that are over for good: jobs without a key at once, and
-- heads by moving their lane on or, with settle_only, by recording the outcome.
create or replace function @schema@.end_jobs(ids bigint[], plans text[], results jsonb[], errors text[], keyed boolean[], settle_only boolean,
  out pending bigint[], out heads bigint[], out nexts bigint[])
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set plan_cache_mode = force_generic_plan
as $lockstep$
declare
  over     bigint[];
  outcomes text[];
  notes    jsonb[];
  reasons  text[];
begin
  pending := '{}'; heads := '{}'; nexts := '{}';
  perform @schema@.archive(array_agg(u.id), array_agg(u.outcome), array_agg(u.result), array_agg(u.error))
     from unnest(ids, plans, results, errors, keyed) u(id, outcome, result, error, keyed)
    where u.outcome in ('completed', 'cancelled', 'dead') and not u.keyed having count(*) > 0;
  select array_agg(u.id), array_agg(u.outcome), array_agg(u.result), array_agg(u.error) into over, outcomes, notes, reasons
    from unnest(ids, plans, results, errors, keyed) u(id, outcome, result, error, keyed)
   where u.outcome in ('completed', 'cancelled', 'dead') and u.keyed;
  if over is null then
    return;
  end if;
  if settle_only then
    perform @schema@.settle(over, outcomes, notes, reasons);
    pending := over;
    return;
  end if;
  select l.pending, l.heads, l.successors into pending, heads, nexts
    from @schema@.leave(over, outcomes, notes, reasons, true) l;
end $lockstep$;

-- take_over claims those of the new heads that the worker may take: their kind
-- is one of take, no pause covers them, and no other job of their queue is ready
-- for it. Everyone is
-- told of the others. Answers the jobs claimed.
create or replace function @schema@.take_over(worker uuid, fresh bigint[], take text[], lease interval) returns json
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set plan_cache_mode = force_generic_plan
as $lockstep$
#variable_conflict use_column
declare
  moment constant timestamptz := clock_timestamp();
  idle   text[]; -- queues where nothing else is ready for the worker
  mine   bigint[] := '{}';
  barred bigint[];
  bound  bigint; -- of the length of all, as text
  pauses boolean;
begin
  if fresh = '{}' then
    return null;
  end if;
  if take is not null then
    perform @schema@.check_claim(take_over.worker, 1, take_over.lease);
    pauses := exists (select from @schema@.pause p);
    idle := array(
      select q.queue from (select distinct j.queue from @schema@.job j where j.id = any (fresh)) q
       where not exists (
         select 1 from unnest(case when pauses then @schema@.unpaused_kinds(q.queue, @schema@.ready_kinds(q.queue, take, '{}'))
                              else @schema@.ready_kinds(q.queue, take, '{}') end) k(kind) cross join lateral (
           select 1 from @schema@.job r
            where r.queue = q.queue and r.kind = k.kind and r.stage = 'r' and r.lease_until <= moment
              and not r.settled and r.id <> all (fresh) limit 1) x));
    select coalesce(array_agg(j.id), '{}'), sum(@schema@.text_bound(j.payload, j.headers)) into mine, bound
      from @schema@.job j where j.id = any (fresh) and @schema@.kind_rank(j.kind, take) >= 0 and j.queue = any (idle);
    if pauses then
      barred := @schema@.paused(mine);
      mine := array(select u.id from unnest(mine) u(id) where u.id <> all (barred));
    end if;
    mine := @schema@.with_notes(@schema@.fitting(mine, bound));
  end if;
  perform @schema@.tell_ready(array(select u.id from unnest(fresh) u(id) where u.id <> all (mine)));
  return @schema@.grant_claims(take_over.worker, mine, take_over.lease);
end $lockstep$;

-- not_mine says what became of reports whose row did not stand, or could not
-- be locked.
create or replace function @schema@.not_mine(worker uuid, ids bigint[], fences bigint[], mine bigint[]) returns table (id bigint, answer text)
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $lockstep$
#variable_conflict use_column
begin
  if ids <@ coalesce(mine, '{}') then
    return;
  end if;
  return query
    select u.id,
           case @schema@.claim_state(not_mine.worker, u.id, u.fence)
             when 'running' then 'busy' when 'settled' then 'busy' when 'ended' then 'already' else 'lost' end
      from unnest(ids, fences) u(id, fence) where mine is null or u.id <> all (mine);
end $lockstep$;

-- claim_state is where a claim stands: running | settled (its outcome is
-- recorded, the lane has not moved on) | ended (its outcome is recorded) | lost.
create or replace function @schema@.claim_state(worker uuid, id bigint, fence bigint) returns text
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $lockstep$
#variable_conflict use_column
declare
  job record;
begin
  select j.worker, j.settled into job from @schema@.job j where j.id = claim_state.id and j.fence = claim_state.fence;
  if job.worker = claim_state.worker then
    return case when job.settled then 'settled' else 'running' end;
  end if;
  -- A job that ended because its worker was lost did not end by the report.
  if exists (select 1 from @schema@.attempt a where a.job_id = claim_state.id and a.fence = claim_state.fence and a.outcome = 'lost') then
    return 'lost';
  elsif exists (select 1 from @schema@.finished_job f where f.id = claim_state.id and f.fence = claim_state.fence)
     or exists (select 1 from @schema@.dead_job d where d.id = claim_state.id and d.fence = claim_state.fence)
     or exists (select 1 from @schema@.attempt a where a.job_id = claim_state.id and a.fence = claim_state.fence
                   and a.worker = claim_state.worker) then
    return 'ended';
  end if;
  return 'lost';
end $lockstep$;

-- One-job wrappers, for people and for small workers.
create or replace function @schema@.complete(worker uuid, id bigint, fence bigint, result jsonb default null) returns text
language sql
begin atomic
  select f.outcome from @schema@.finish(worker, array[id], array[fence], array['completed'], array[result], array[null]::text[], array[null]::interval[]) f;
end;

create or replace function @schema@.fail(worker uuid, id bigint, fence bigint, error text, permanent boolean default false, delay interval default null) returns text
language sql
begin atomic
  select f.outcome from @schema@.finish(worker, array[id], array[fence], array[case when permanent then 'dead' else 'failed' end],
    array[null]::jsonb[], array[error], array[delay]) f;
end;

create or replace function @schema@.snooze(worker uuid, id bigint, fence bigint, delay interval) returns text
language sql
begin atomic
  select f.outcome from @schema@.finish(worker, array[id], array[fence], array['snoozed'], array[null]::jsonb[], array[null]::text[], array[delay]) f;
end;

create or replace function @schema@.release(worker uuid, id bigint, fence bigint) returns text
language sql
begin atomic
  select f.outcome from @schema@.finish(worker, array[id], array[fence], array['released'], array[null]::jsonb[], array[null]::text[], array[null]::interval[]) f;
end;
