-- replaceable
-- Placing jobs in their lanes, under the lanes' entry locks.
--
-- A session keeps the plan that it made when there was nothing in the table,
-- and a plan that reads all of nothing looks as good as any. So the statements
-- here leave no choice: `offset 0` makes a subquery one look-up for each row,
-- and stage::text, as no index has it, keeps a look-up by id from becoming a
-- scan of all jobs of a stage.

-- place takes the entry locks of the jobs' lanes, then places the jobs, which
-- this transaction inserted, in the order of the array.
create or replace function @schema@.place(ids bigint[], first_round boolean) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set plan_cache_mode = force_generic_plan
as $lockstep$
declare
  queues  text[];
  tenants text[];
  keys    text[];
begin
  select array_agg(l.queue), array_agg(l.tenant), array_agg(l.ordering_key) into queues, tenants, keys
    from (select distinct j.queue, j.tenant, j.ordering_key from @schema@.job j where j.id = any (ids)) l;
  perform @schema@.lock_lanes(queues, tenants, keys, first_round);
  if current_setting('transaction_isolation') in ('read committed', 'read uncommitted') then
    perform @schema@.head_lanes(queues, tenants, keys);
    perform @schema@.place_locked(ids);
  else
    perform @schema@.place_behind(ids);
  end if;
end $lockstep$;

-- place_one is place for a transaction that entered just one job, as most do:
-- the same rules in fewer statements. false if this job is not to be placed.
create or replace function @schema@.place_one(id bigint, queue text, tenant text, ordering_key text) returns boolean
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set plan_cache_mode = force_generic_plan
as $lockstep$
declare
  behind  constant boolean := current_setting('transaction_isolation') not in ('read committed', 'read uncommitted');
  headed  boolean := true;
  waiting boolean := true;
  fresh   bigint;
begin
  if not @schema@.try_entry(place_one.queue, place_one.tenant, place_one.ordering_key) then
    perform @schema@.lock_lanes(array[place_one.queue], array[place_one.tenant], array[place_one.ordering_key], false);
  end if;
  if not behind then
    select exists (select from @schema@.job h where h.queue = place_one.queue and h.tenant = place_one.tenant
                      and h.ordering_key = place_one.ordering_key and h.stage in ('r', 'b')),
           exists (select from @schema@.job w where w.queue = place_one.queue and w.tenant = place_one.tenant
                      and w.ordering_key = place_one.ordering_key and w.stage = 'w')
      into headed, waiting;
    if waiting and not headed then
      perform @schema@.head_lanes(array[place_one.queue], array[place_one.tenant], array[place_one.ordering_key]);
    end if;
  end if;
  fresh := @schema@.next_turn();
  update @schema@.job j
     set stage = case when headed or waiting then 'w'::"char" else 'r'::"char" end, turn = fresh, lane_turn = fresh
   where j.id = place_one.id and j.stage::text = 'e'
     and j.queue = place_one.queue and j.tenant = place_one.tenant and j.ordering_key = place_one.ordering_key;
  if not found then
    perform @schema@.check_visible();
    return false;
  elsif behind then
    perform @schema@.signal('w', place_one.queue, 0);
  elsif not (headed or waiting) then
    perform @schema@.signal('r', place_one.queue, fresh);
  end if;
  return true;
end $lockstep$;

-- place_locked puts jobs into lanes whose entry locks are held. A lane's first
-- job becomes its head if nobody is there: no head, and nobody waiting. No job
-- ever becomes head while an earlier one waits.
create or replace function @schema@.place_locked(ids bigint[]) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set plan_cache_mode = force_generic_plan
as $lockstep$
declare
  stages "char"[];
begin
  select array_agg(case when r.nth = 1
        and not exists (select 1 from @schema@.job h where h.queue = r.queue and h.tenant = r.tenant
                          and h.ordering_key = r.ordering_key and h.stage in ('r', 'b') offset 0)
        and not exists (select 1 from @schema@.job w where w.queue = r.queue and w.tenant = r.tenant
                          and w.ordering_key = r.ordering_key and w.stage = 'w' offset 0)
      then 'r'::"char" else 'w'::"char" end order by r.n)
    into stages
    from (select u.n, j.queue, j.tenant, j.ordering_key,
                 row_number() over (partition by j.queue, j.tenant, j.ordering_key order by u.n) as nth
            from unnest(ids) with ordinality u(id, n)
           cross join lateral (select l.queue, l.tenant, l.ordering_key from @schema@.job l where l.id = u.id offset 0) j) r;
  perform @schema@.seat(ids, stages);
  perform @schema@.tell_ready(ids);
end $lockstep$;

-- seat gives jobs their stages, and turns in the order of the array. Its
-- settings leave an UPDATE ... FROM one plan only, the look-up of each id.
create or replace function @schema@.seat(ids bigint[], stages "char"[]) returns void
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
  turns constant bigint[] := array(select @schema@.next_turn() from generate_series(1, cardinality(ids)));
  n     bigint;
begin
  update @schema@.job j set stage = u.stage, turn = u.turn, lane_turn = u.turn
    from unnest(ids, stages, turns) u(id, stage, turn) where j.id = u.id;
  get diagnostics n = row_count;
  if n < cardinality(ids) then
    perform @schema@.raise_hidden();
  end if;
end $lockstep$;

-- place_behind is for a transaction whose snapshot is older than its locks
-- (REPEATABLE READ, SERIALIZABLE): it can't tell who is in the lane, so its
-- jobs wait, and somebody who can is asked to look.
create or replace function @schema@.place_behind(ids bigint[]) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $lockstep$
begin
  perform @schema@.seat(ids, array_fill('w'::"char", array[cardinality(ids)]));
  perform @schema@.signal('w', q.queue, 0)
    from (select distinct j.queue from @schema@.job j where j.id = any (ids)) q;
end $lockstep$;

-- promote_headless gives lanes that have waiting jobs but no head the first of
-- them. The caller holds the lanes' entry locks. A first job that somebody
-- else holds is left alone, and so is its lane, until the sweep.
create or replace function @schema@.promote_headless(queues text[], tenants text[], keys text[],
  out promoted integer, out left_headless integer)
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set plan_cache_mode = force_generic_plan
as $lockstep$
declare
  firsts bigint[];
begin
  firsts := array(
    select w.id
      from unnest(queues, tenants, keys) l(queue, tenant, key)
      cross join lateral (
        select j.id from @schema@.job j
         where j.queue = l.queue and j.tenant = l.tenant and j.ordering_key = l.key and j.stage = 'w'
         order by j.lane_turn limit 1) w
     where not exists (select 1 from @schema@.job h where h.queue = l.queue and h.tenant = l.tenant
                         and h.ordering_key = l.key and h.stage in ('r', 'b') offset 0));
  left_headless := cardinality(firsts);
  firsts := array(select j.id from @schema@.job j where j.id = any (firsts) and j.stage::text = 'w' for update skip locked);
  promoted := cardinality(firsts);
  left_headless := left_headless - promoted;
  perform @schema@.promote(firsts);
  perform @schema@.tell_ready(firsts);
end $lockstep$;

-- head_lanes is promote_headless for whoever puts jobs into the lanes: a sweep is
-- asked for where one stays without a head.
create or replace function @schema@.head_lanes(queues text[], tenants text[], keys text[]) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $lockstep$
begin
  if (select h.left_headless > 0 from @schema@.promote_headless(queues, tenants, keys) h) then
    perform @schema@.signal('w', q.queue, 0) from (select distinct u.queue from unnest(queues) u(queue)) q;
  end if;
end $lockstep$;

-- promote makes waiting jobs, whose rows the caller has locked, the heads of
-- their lanes. A fresh turn puts them at the end of the ready line: lanes take
-- turns. Whoever promotes also tells.
create or replace function @schema@.promote(ids bigint[]) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set plan_cache_mode = force_generic_plan
as $lockstep$
begin
  update @schema@.job j set stage = 'r', turn = @schema@.next_turn() where j.id = any (ids);
end $lockstep$;

-- tell_ready signals jobs that this transaction made runnable.
create or replace function @schema@.tell_ready(ids bigint[]) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set plan_cache_mode = force_generic_plan
as $lockstep$
declare
  ready record;
begin
  for ready in
    select j.queue, min(j.turn) as turn from @schema@.job j where j.id = any (ids) and j.stage::text = 'r' group by j.queue
  loop
    perform @schema@.signal('r', ready.queue, ready.turn);
  end loop;
end $lockstep$;
