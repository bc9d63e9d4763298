-- replaceable
-- extend makes leases end a lease from now. One answer per id: extended |
-- cancelled (extended too, but a cancel was asked for) | busy (the row is
-- locked for a moment: try again) | lost.
create or replace function @schema@.extend(worker uuid, ids bigint[], fences bigint[], lease interval)
returns table (id bigint, outcome text)
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set plan_cache_mode = force_generic_plan
as $lockstep$
#variable_conflict use_column
declare
  mine bigint[];
begin
  perform @schema@.require_read_committed();
  perform @schema@.check_claim(extend.worker, 1, extend.lease);
  if extend.ids is null or cardinality(extend.ids) is distinct from cardinality(extend.fences) then
    perform @schema@.refuse('ids', 'ids and fences must be arrays, equally long');
  end if;
  mine := array(
    select l.id from unnest(extend.ids, extend.fences) u(id, fence)
     cross join lateral (
       select j.id from @schema@.job j
        where j.id = u.id and j.fence = u.fence and j.worker = extend.worker and not j.settled
          for no key update skip locked) l);
  update @schema@.job j
     set lease_until = clock_timestamp() + extend.lease, lease = extend.lease, held_since = '-infinity'
   where j.id = any (mine);
  return query
    select u.id,
           case when j.id = any (mine) then case when j.cancel_requested then 'cancelled' else 'extended' end
                when j.id is not null then 'busy' else 'lost' end
      from unnest(extend.ids, extend.fences) u(id, fence)
      left join lateral (
        select l.id, l.cancel_requested from @schema@.job l
         where l.id = u.id and l.fence = u.fence and l.worker = extend.worker and not l.settled offset 0) j on true;
end $lockstep$;
