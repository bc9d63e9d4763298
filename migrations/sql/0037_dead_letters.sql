-- replaceable
-- Looking at dead letters, and forgetting them by age.

create or replace view @schema@.queues as
select q.name, q.on_dead, q.backoff_base, q.backoff_factor, q.backoff_cap, q.dead_retention from @schema@.queue q;

-- check_error_pattern refuses a pattern that LIKE could not use. A pattern is
-- LIKE's and no regular expression: what it costs to match one is bounded by the
-- lengths of the pattern and the text, whatever is written in it.
create or replace function @schema@.check_error_pattern(error text) returns void
language plpgsql immutable
set search_path = pg_catalog, pg_temp
as $lockstep$
begin
  if octet_length(error) > 500 then
    perform @schema@.refuse('error', format('error is %s bytes long; a pattern may have at most 500', octet_length(error)));
  elsif (length(error) - length(rtrim(error, chr(92)))) % 2 = 1 then -- chr(92): no setting reads it otherwise than a backslash
    perform @schema@.refuse('error', format('error is %L; a pattern must not end in a single backslash, which escapes the sign after it', error));
  end if;
end $lockstep$;

-- dead_letters is dead_jobs without what the jobs carry.
create or replace view @schema@.dead_letters as
select d.id, d.queue, d.kind, d.tenant, d.ordering_key, d.blocking, d.attempt, d.max_attempts, d.fence, d.error, d.died_at, d.created_at
  from @schema@.dead_job d;

-- list_dead is a page of dead letters, the latest first, without their payloads.
-- A filter that is null is not applied; error is a LIKE pattern ('%timeout%');
-- died_from is included, died_before is not. The next page begins after the
-- last letter of this one: give its died_at and id as after_died_at, after_id.
-- At most 1,000 letters a page.
create or replace function @schema@.list_dead(queue text default null, kind text default null, tenant text default null,
  ordering_key text default null, error text default null, died_from timestamptz default null, died_before timestamptz default null,
  after_died_at timestamptz default null, after_id bigint default null, max integer default 100)
returns setof @schema@.dead_letters
language plpgsql stable
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $lockstep$
#variable_conflict use_column
begin
  perform @schema@.check_error_pattern(list_dead.error);
  if list_dead.max is null or list_dead.max not between 1 and 1000 then
    perform @schema@.refuse('max', format('max is %s; it must be between 1 and 1000', list_dead.max));
  elsif (list_dead.after_died_at is null) <> (list_dead.after_id is null) then
    perform @schema@.refuse('after_id', 'after_died_at and after_id must be given together');
  end if;
  return query
    select d.* from @schema@.dead_letters d
     where (list_dead.queue is null or d.queue = list_dead.queue)
       and (list_dead.kind is null or d.kind = list_dead.kind)
       and (list_dead.tenant is null or d.tenant = list_dead.tenant)
       and (list_dead.ordering_key is null or d.ordering_key = list_dead.ordering_key)
       and (list_dead.error is null or d.error like list_dead.error)
       and (list_dead.died_from is null or d.died_at >= list_dead.died_from)
       and (d.died_at, d.id) < (least(list_dead.after_died_at, list_dead.died_before, 'infinity'),
                                case when list_dead.after_died_at < list_dead.died_before or list_dead.died_before is null
                                     then coalesce(list_dead.after_id, 0) else 0 end)
     order by d.died_at desc, d.id desc limit list_dead.max;
end $lockstep$;

-- show_dead is one dead letter, whole. Raises LS005 for an id that never was,
-- LS006 for a job that is not dead. Its attempts are in the view attempts.
create or replace function @schema@.show_dead(id bigint) returns setof @schema@.dead_jobs
language plpgsql stable
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $lockstep$
#variable_conflict use_column
begin
  return query select v.* from @schema@.dead_jobs v where v.id = show_dead.id;
  if not found then
    perform @schema@.not_dead(show_dead.id);
  end if;
end $lockstep$;

-- purge_dead forgets up to max (at most 5,000) dead letters that died longer ago
-- than older_than, of one queue or kind or (null) of all, the oldest first. more
-- says that there may be others: call again. A letter whose job blocks its lane
-- is left to a person, and one that somebody else is at to the next purge.
create or replace function @schema@.purge_dead(older_than interval, queue text default null, kind text default null, max integer default 1000,
  out purged integer, out more boolean)
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $lockstep$
#variable_conflict use_column
declare
  most constant integer := least(greatest(purge_dead.max, 1), 5000);
  gone bigint[];
begin
  perform @schema@.require_read_committed();
  if purge_dead.older_than is null or purge_dead.older_than not between '0' and '36600 days' then
    perform @schema@.refuse('older_than', format('older_than is %s; it must be between 0 and 100 years', purge_dead.older_than));
  end if;
  gone := array(
    select d.id from @schema@.dead_job d
     where d.died_at < clock_timestamp() - purge_dead.older_than
       and (purge_dead.queue is null or d.queue = purge_dead.queue) and (purge_dead.kind is null or d.kind = purge_dead.kind)
       and not exists (select from @schema@.job j where j.id = d.id)
     order by d.died_at, d.id limit most for update skip locked);
  with purged as (delete from @schema@.dead_job d where d.id = any (gone) returning d.id, d.created_at)
  insert into @schema@.discarded (id)
  select p.id from purged p where p.created_at > clock_timestamp() - @schema@.retention() on conflict do nothing; -- of older ones nobody knows
  purged := cardinality(gone);
  more := purged = most;
end $lockstep$;

-- purge_aged forgets dead letters past what their queue keeps them for, at most
-- 5,000. Answers how many.
create or replace function @schema@.purge_aged() returns integer
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $lockstep$
declare
  aged record;
  n    integer := 0;
begin
  for aged in select q.name, q.dead_retention from @schema@.queue q where q.dead_retention is not null loop
    exit when n >= 5000;
    n := n + (select p.purged from @schema@.purge_dead(aged.dead_retention, aged.name, max => 5000 - n) p);
  end loop;
  return n;
end $lockstep$;

-- blocked_lanes are lanes that a dead head holds up, with what waits behind it.
create or replace view @schema@.blocked_lanes as
select h.queue, h.tenant, h.ordering_key, h.id as head, h.kind, d.error, d.died_at,
       (select count(*) from @schema@.job w where w.queue = h.queue and w.tenant = h.tenant and w.ordering_key = h.ordering_key and w.stage = 'w') as waiting
  from @schema@.job h left join @schema@.dead_job d on d.id = h.id
 where h.hold = 'x' and not h.settled;

-- list_blocked is a page of blocked_lanes, of one queue or (null) of all, by
-- their heads; the next page begins after the last head of this one. At most
-- 1,000 lanes a page.
create or replace function @schema@.list_blocked(queue text default null, after bigint default 0, max integer default 100)
returns setof @schema@.blocked_lanes
language plpgsql stable
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $lockstep$
#variable_conflict use_column
begin
  if list_blocked.max is null or list_blocked.max not between 1 and 1000 then
    perform @schema@.refuse('max', format('max is %s; it must be between 1 and 1000', list_blocked.max));
  end if;
  return query
    select l.* from @schema@.blocked_lanes l
     where l.head > coalesce(list_blocked.after, 0) and (list_blocked.queue is null or l.queue = list_blocked.queue)
     order by l.head limit list_blocked.max;
end $lockstep$;

-- restore_letters writes the dead letters of up to 200 blocked heads anew whose
-- letters were deleted by hand, and corrects those that say they block a lane
-- and do not, as their head was deleted. Answers how many.
create or replace function @schema@.restore_letters() returns integer
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $lockstep$
declare
  bare  constant bigint[] := array(
    select j.id from @schema@.job j
     where j.hold = 'x' and not j.settled and not exists (select from @schema@.dead_job d where d.id = j.id)
     order by j.id limit 200 for update skip locked);
  freed constant bigint[] := array(
    select d.id from @schema@.dead_job d
     where d.blocking and not exists (select from @schema@.job j where j.id = d.id)
     limit 200 for update skip locked);
begin
  if bare <> '{}' then
    perform @schema@.bury(bare, array_fill('its dead letter was deleted by hand'::text, array[cardinality(bare)]), true);
  end if;
  update @schema@.dead_job d set blocking = false where d.id = any (freed);
  return cardinality(bare) + cardinality(freed);
end $lockstep$;
