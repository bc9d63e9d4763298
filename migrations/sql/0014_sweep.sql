-- replaceable
-- sweep repairs what nobody is responsible for: lanes that wait without a
-- head (a head deleted by hand, a producer under REPEATABLE READ), jobs that no
-- trigger placed, lanes that a dead head blocks although their queue's
-- policy is to skip it (it died while the policy changed), blocked heads whose
-- dead letter was deleted by hand, payloads noted where triggers were off, and
-- jobs that are parked though no pause covers them. It looks at up to max lanes after the one
-- named by `after` (queue, tenant, ordering key; null: from the beginning), of
-- one queue or of all. more says that the pass goes on behind cursor. refused
-- counts what is to be looked at again soon, as somebody is at it. One at a time:
-- another one answers at once, for all that there is nothing to do, and for a queue,
-- which the one at work may have passed, that it was refused.
drop function if exists @schema@.sweep(integer, text, text[]);
create or replace function @schema@.sweep(max integer default 1000, queue text default null, after text[] default null,
  out placed integer, out promoted integer, out refused integer, out more boolean, out cursor text[], out unparked integer)
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set plan_cache_mode = force_generic_plan
as $lockstep$
#variable_conflict use_column
declare
  lane    record;
  queues  text[] := '{}';
  tenants text[] := '{}';
  keys    text[] := '{}';
begin
  perform @schema@.require_read_committed();
  placed := 0; promoted := 0; refused := 0; more := false; unparked := 0;
  if not pg_try_advisory_xact_lock(@schema@.own_mutex('sweep')) then
    refused := (sweep.queue is not null)::integer;
    return;
  end if;
  if sweep.after is null then
    placed := @schema@.place_strays();
    perform @schema@.turn_strays();
    perform @schema@.restore_letters();
    perform @schema@.retire_spared(sweep.queue);
    select u.returned, u.more into unparked, more from @schema@.unpark_some(1000, sweep.queue, null, null) u;
    if more and unparked > 0 then
      return; -- again from the beginning: null is its cursor
    end if;
    refused := more::integer; -- what is left is locked for a moment
  end if;
  cursor := coalesce(sweep.after, array[coalesce(sweep.queue, ''), '', '']);
  for looked in 1 .. least(greatest(sweep.max, 1), 1000) loop
    select j.queue, j.tenant, j.ordering_key,
           exists (select 1 from @schema@.job h where h.queue = j.queue and h.tenant = j.tenant
                     and h.ordering_key = j.ordering_key and h.stage in ('r', 'b') offset 0) as headed -- offset 0: never hashed over all heads
      into lane
      from @schema@.job j
     where j.stage = 'w' and (j.queue, j.tenant, j.ordering_key) > (sweep.cursor[1], sweep.cursor[2], sweep.cursor[3])
     order by j.queue, j.tenant, j.ordering_key limit 1;
    more := found and (sweep.queue is null or lane.queue = sweep.queue);
    exit when not more;
    cursor := array[lane.queue, lane.tenant, lane.ordering_key];
    if not lane.headed then
      queues := queues || lane.queue; tenants := tenants || lane.tenant; keys := keys || lane.ordering_key;
      exit when cardinality(keys) = 200;
    end if;
  end loop;
  if not more then
    cursor := null;
  end if;
  if keys <> '{}' then
    select array_agg(l.queue), array_agg(l.tenant), array_agg(l.key), sweep.refused + cardinality(keys) - count(*)
      into queues, tenants, keys, refused
      from unnest(queues, tenants, keys) l(queue, tenant, key) where @schema@.try_entry(l.queue, l.tenant, l.key);
    select h.promoted, sweep.refused + h.left_headless into promoted, refused from @schema@.promote_headless(queues, tenants, keys) h;
  end if;
end $lockstep$;

-- place_strays places jobs left in `e` by finished transactions: one that is
-- seen by another transaction is one. At most 200 lanes of them.
create or replace function @schema@.place_strays() returns integer
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set plan_cache_mode = force_generic_plan
as $lockstep$
declare
  strays bigint[];
begin
  strays := array(
    select j.id from @schema@.job j
     where j.stage = 'e' and j.enqueued_xid <> pg_current_xact_id()
     order by j.id + 0 limit 200 for update skip locked); -- + 0: by the index of the entering
  strays := array(
    select u.id from unnest(strays) with ordinality u(id, n)
     cross join lateral (select l.queue, l.tenant, l.ordering_key from @schema@.job l where l.id = u.id offset 0) j
     where @schema@.try_entry(j.queue, j.tenant, j.ordering_key) order by u.n);
  if strays <> '{}' then
    perform @schema@.head_lanes(array_agg(l.queue), array_agg(l.tenant), array_agg(l.ordering_key))
       from (select distinct j.queue, j.tenant, j.ordering_key from @schema@.job j where j.id = any (strays)) l;
    perform @schema@.place_locked(strays);
  end if;
  return cardinality(strays);
end $lockstep$;

-- turn_strays gives their turn to up to 200 notes (0033) whose trigger did not
-- run at their commit, so that due() settles them.
create or replace function @schema@.turn_strays() returns void
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $lockstep$
declare
  strays constant bigint[] := array(
    select n.id from @schema@.dedupe_note n where n.turn = 0 and not n.missed order by n.id + 0 limit 200 for update skip locked);
begin
  update @schema@.dedupe_note n set turn = @schema@.next_turn() where n.id = any (strays);
end $lockstep$;
