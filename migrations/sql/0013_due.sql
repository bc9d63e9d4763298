-- replaceable
-- due lets jobs that have fallen due run, and lanes go on whose head is
-- settled. Any dispatcher may call it at any time. It only tries locks: what
-- another transaction is at is left for a moment and paged past, so that one
-- lane, or one queue, can't hold up the others. At most 200 jobs fall due a
-- call; remaining counts, up to 200 each, what is still due or settled: it is
-- beyond that, or was refused. It also settles notes that a commit had to
-- leave, and makes the next step of replays
-- (start_replay): replayed is how many dead letters went back by it. due_at is
-- when to call again.
do $lockstep$ begin
  if (select 'replayed' <> all (p.proargnames) from pg_proc p where p.oid = to_regprocedure($name$@schema@.due(integer)$name$)) then
    drop function @schema@.due(integer); -- it answered less
  end if;
end $lockstep$;
create or replace function @schema@.due(max integer default 200,
  out due integer, out retired integer, out remaining integer, out due_at timestamptz, out looked_at timestamptz, out replayed integer)
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set plan_cache_mode = force_generic_plan
as $lockstep$
#variable_conflict use_column
declare
  page bigint[];
  last_at timestamptz := '-infinity';
  last_id bigint := 0;
  moved integer;
  shut bigint[] := '{}'; -- the locks that were refused
begin
  perform @schema@.require_read_committed();
  looked_at := clock_timestamp();
  due := 0;
  retired := 0;
  remaining := @schema@.settle_notes();
  for round in 1 .. 10 loop
    page := array(
      select j.id from @schema@.job j
       where j.settled and j.id + 0 > last_id and @schema@.queue_lock(j.queue) <> all (shut)
       order by j.id + 0 limit 200 for update skip locked); -- + 0: by the index of the settled
    exit when page = '{}';
    last_id := (select max(u.id) from unnest(page) u(id));
    retired := @schema@.retire(page);
    exit when retired > 0;
    shut := shut || @schema@.refused_locks(page);
  end loop;
  last_id := 0;
  for round in 1 .. 10 loop
    page := array(
      select j.id from @schema@.job j
       where j.stage in ('s', 'b') and j.hold = '-' and j.run_at <= due.looked_at and (j.run_at, j.id) > (last_at, last_id)
         and (shut = '{}' or j.stage = 'b' or j.ordering_key is null
              or @schema@.queue_lock(j.queue) <> all (shut) and @schema@.entry_lock(j.queue, j.tenant, j.ordering_key) <> all (shut))
       order by j.run_at, j.id limit least(greatest(due.max, 1), 200) for update skip locked);
    exit when page = '{}';
    select j.run_at, j.id into last_at, last_id from @schema@.job j where j.id = any (page) order by j.run_at desc, j.id desc limit 1;
    moved := @schema@.let_run(page);
    due := due + moved;
    exit when moved > 0;
    shut := shut || @schema@.refused_locks(page);
  end loop;
  remaining := remaining + (select count(*) from (select 1 from @schema@.job j where j.stage in ('s', 'b') and j.hold = '-' and j.run_at <= due.looked_at limit 200) x)
           + (select count(*) from (select 1 from @schema@.job j where j.settled limit 200) x);
  due_at := (select j.run_at from @schema@.job j where j.stage in ('s', 'b') and j.hold = '-' and j.run_at > due.looked_at
              order by j.run_at, j.id limit 1);
  select r.replayed, least(due.due_at, r.due_at) into replayed, due_at from @schema@.replay_due() r;
end $lockstep$;

-- refused_locks are the locks because of which jobs could not be moved: those
-- of their queues that can't be had, and the entry locks of the other lanes.
create or replace function @schema@.refused_locks(ids bigint[]) returns bigint[]
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $lockstep$
begin
  return array(
    select case when pg_try_advisory_xact_lock_shared(@schema@.queue_lock(l.queue))
                then @schema@.entry_lock(l.queue, l.tenant, l.ordering_key) else @schema@.queue_lock(l.queue) end
      from (select distinct j.queue, j.tenant, j.ordering_key from @schema@.job j where j.id = any (ids) and j.ordering_key is not null) l);
end $lockstep$;

-- let_run makes due jobs, whose rows the caller has locked and gives in the
-- order of their due times, run. A head set aside, or a job without a key, goes
-- to the end of the ready line; a scheduled keyed job enters its lane now, if
-- its entry lock can be had. Answers how many it moved.
create or replace function @schema@.let_run(ids bigint[]) returns integer
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set plan_cache_mode = force_generic_plan
as $lockstep$
declare
  free    bigint[]; -- no lock needed
  entered bigint[]; -- entry lock held
  queues  text[];
  tenants text[];
  keys    text[];
begin
  free := array(select u.id from unnest(ids) with ordinality u(id, n)
                 cross join lateral (select l.stage, l.ordering_key from @schema@.job l where l.id = u.id offset 0) j
                 where j.stage = 'b' or j.ordering_key is null order by u.n);
  if free <> '{}' then
    perform @schema@.make_ready(free);
    perform @schema@.tell_ready(free);
  end if;
  ids := @schema@.in_turn(ids);
  select array_agg(l.queue), array_agg(l.tenant), array_agg(l.ordering_key) into queues, tenants, keys
    from (select distinct j.queue, j.tenant, j.ordering_key from @schema@.job j
           where j.id = any (ids) and j.stage = 's' and j.ordering_key is not null) l;
  if queues is null then
    return cardinality(free);
  end if;
  select array_agg(l.queue), array_agg(l.tenant), array_agg(l.key) into queues, tenants, keys
    from unnest(queues, tenants, keys) l(queue, tenant, key) where @schema@.try_entry(l.queue, l.tenant, l.key);
  entered := array(
    select u.id from unnest(ids) with ordinality u(id, n)
     cross join lateral (select l.stage, l.queue, l.tenant, l.ordering_key from @schema@.job l where l.id = u.id offset 0) j
     where j.stage = 's' and j.ordering_key is not null
       and exists (select 1 from unnest(queues, tenants, keys) l(queue, tenant, key)
                    where l.queue = j.queue and l.tenant = j.tenant and l.key = j.ordering_key)
     order by u.n);
  if entered <> '{}' then
    perform @schema@.head_lanes(queues, tenants, keys);
    perform @schema@.place_locked(entered);
  end if;
  return cardinality(free) + cardinality(entered);
end $lockstep$;

-- in_turn are those of due jobs, whose rows the caller has locked, that are
-- scheduled with a key, but for those behind one of their lane that is due before
-- them and is not among these: somebody else has its row, another due() mostly,
-- and it is to be placed first.
create or replace function @schema@.in_turn(ids bigint[]) returns bigint[]
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set plan_cache_mode = force_generic_plan
as $lockstep$
declare
  due     bigint[];
  last_at timestamptz;
  queues  text[];
  tenants text[];
  keys    text[];
  firsts  timestamptz[]; -- beside lanes, and with ids: the first one due that is not among them
  first_ids bigint[];
begin
  select array_agg(u.id order by u.n), max(j.run_at), array_agg(j.queue), array_agg(j.tenant), array_agg(j.ordering_key)
    into due, last_at, queues, tenants, keys
    from unnest(ids) with ordinality u(id, n)
   cross join lateral (select l.stage, l.run_at, l.queue, l.tenant, l.ordering_key from @schema@.job l where l.id = u.id offset 0) j
   where j.stage = 's' and j.ordering_key is not null;
  select array_agg(f.queue), array_agg(f.tenant), array_agg(f.ordering_key), array_agg(f.run_at), array_agg(f.id)
    into queues, tenants, keys, firsts, first_ids
    from (
      select distinct on (e.queue, e.tenant, e.ordering_key) e.* from (
        select j.id, j.stage, j.run_at, j.queue, j.tenant, j.ordering_key from @schema@.job j
         where j.stage in ('s', 'b') and j.hold = '-' and j.run_at <= last_at offset 0) e
       where e.stage = 's' and e.id <> all (due)
         and (e.queue, e.tenant, e.ordering_key) in (select l.queue, l.tenant, l.key from unnest(queues, tenants, keys) l(queue, tenant, key))
       order by e.queue, e.tenant, e.ordering_key, e.run_at, e.id) f;
  if queues is null then
    return due;
  end if;
  return array(
    select u.id from unnest(due) with ordinality u(id, n)
     cross join lateral (select l.run_at, l.queue, l.tenant, l.ordering_key from @schema@.job l where l.id = u.id offset 0) j
     where not exists (
       select 1 from unnest(queues, tenants, keys, firsts, first_ids) f(queue, tenant, key, run_at, id)
        where f.queue = j.queue and f.tenant = j.tenant and f.key = j.ordering_key and (f.run_at, f.id) < (j.run_at, u.id))
     order by u.n);
end $lockstep$;

-- make_ready puts jobs at the end of the ready line, in the order of the array.
-- Its settings leave an UPDATE ... FROM one plan only, the look-up of each id.
create or replace function @schema@.make_ready(ids bigint[]) returns void
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
  update @schema@.job j set stage = 'r', hold = '-', turn = u.turn
    from unnest(ids, array(select @schema@.next_turn() from generate_series(1, cardinality(ids)))) u(id, turn) where j.id = u.id;
end $lockstep$;
