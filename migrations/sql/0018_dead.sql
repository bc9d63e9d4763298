-- replaceable
-- What people do about dead letters and the lanes they block, and the policies
-- of queues.

-- set_queue sets a queue's policies; null leaves one as it is. A change from
-- `block` to `skip` lets the blocked lanes go on, up to 200 a call; it answers
-- how many are left (call again).
create or replace function @schema@.set_queue(name text, on_dead text default null, backoff_base interval default null,
  backoff_factor double precision default null, backoff_cap interval default null) returns integer
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $lockstep$
#variable_conflict use_column
begin
  perform @schema@.require_read_committed();
  if set_queue.name is null or octet_length(set_queue.name) not between 1 and 200 then
    perform @schema@.refuse('name', 'name must be 1 to 200 bytes long');
  elsif set_queue.on_dead not in ('skip', 'block') then
    perform @schema@.refuse('on_dead', format('on_dead is %L; it must be skip or block', set_queue.on_dead));
  elsif set_queue.backoff_base not between '0' and '366 days' then
    perform @schema@.refuse('backoff_base', format('backoff_base is %s; it must be between 0 and 366 days', set_queue.backoff_base));
  elsif set_queue.backoff_factor not between 1 and 1000 then
    perform @schema@.refuse('backoff_factor', format('backoff_factor is %s; it must be between 1 and 1000', set_queue.backoff_factor));
  elsif set_queue.backoff_cap not between '0' and '366 days' then
    perform @schema@.refuse('backoff_cap', format('backoff_cap is %s; it must be between 0 and 366 days', set_queue.backoff_cap));
  end if;
  insert into @schema@.queue as q (name) values (set_queue.name) on conflict (name) do nothing;
  update @schema@.queue q
     set on_dead = coalesce(set_queue.on_dead, q.on_dead), backoff_base = coalesce(set_queue.backoff_base, q.backoff_base),
         backoff_factor = coalesce(set_queue.backoff_factor, q.backoff_factor), backoff_cap = coalesce(set_queue.backoff_cap, q.backoff_cap)
   where q.name = set_queue.name;
  if (select q.on_dead from @schema@.queue q where q.name = set_queue.name) = 'block' then
    return 0;
  end if;
  perform @schema@.retire_spared(set_queue.name);
  return (select count(*) from @schema@.dead_job d
           cross join lateral (select from @schema@.job j where j.id = d.id and j.hold = 'x' and not j.settled offset 0) h
           where d.blocking and d.queue = set_queue.name);
end $lockstep$;

-- retire_spared lets up to 200 lanes go on that a dead head blocks although
-- the policy is `skip` now, of one queue or (null) of all.
create or replace function @schema@.retire_spared(queue text) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $lockstep$
#variable_conflict use_column
begin
  perform @schema@.retire_blocked(array(
    select h.id from @schema@.queue q
      join @schema@.dead_job d on d.queue = q.name and d.blocking
     cross join lateral (select j.id from @schema@.job j where j.id = d.id and j.hold = 'x' and not j.settled for update skip locked) h
     where q.on_dead = 'skip' and (retire_spared.queue is null or q.name = retire_spared.queue)
     limit 200));
end $lockstep$;

-- retire_blocked lets lanes go on behind their dead heads, whose rows the
-- caller has locked; the dead letters stay. true if all could at once.
create or replace function @schema@.retire_blocked(ids bigint[]) returns boolean
language plpgsql
set search_path = pg_catalog, pg_temp
as $lockstep$
declare
  free constant bigint[] := @schema@.with_letter(ids);
  n    constant integer := cardinality(free);
begin
  if n = 0 then
    return cardinality(ids) = 0;
  end if;
  return (select l.pending = '{}' and n = cardinality(ids) from @schema@.leave(free, array_fill('dead'::text, array[n]),
            array_fill(null::jsonb, array[n]), array_fill(null::text, array[n])) l);
end $lockstep$;

-- lane_head is the head of a lane, its row locked; raises LS005 if the lane is
-- idle and LS006 if the row is locked for a moment.
create or replace function @schema@.lane_head(queue text, tenant text, ordering_key text) returns @schema@.job
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $lockstep$
#variable_conflict use_column
declare
  head @schema@.job;
begin
  perform @schema@.require_read_committed();
  select j.* into head from @schema@.job j
   where j.queue = lane_head.queue and j.tenant = lane_head.tenant and j.ordering_key = lane_head.ordering_key and j.stage in ('r', 'b')
     for update skip locked;
  if found then
    return head;
  elsif exists (select 1 from @schema@.job j where j.queue = lane_head.queue and j.tenant = lane_head.tenant
                   and j.ordering_key = lane_head.ordering_key and j.stage in ('r', 'b')) then
    raise exception using errcode = 'LS006', message = 'the lane''s head is locked by another transaction', hint = 'try again';
  end if;
  raise exception using errcode = 'LS005', message = format('lane %L of queue %L has no head', lane_head.ordering_key, lane_head.queue);
end $lockstep$;

-- unblock_lane lets a lane go on behind the dead head that blocks it. The dead
-- letter stays. true if it went on at once, false if it will in a moment.
create or replace function @schema@.unblock_lane(queue text, tenant text, ordering_key text) returns boolean
language plpgsql
set search_path = pg_catalog, pg_temp
as $lockstep$
declare
  head constant @schema@.job := @schema@.lane_head(queue, tenant, ordering_key);
begin
  if head.hold <> 'x' then
    raise exception using errcode = 'LS006', message = format('lane %L of queue %L is not blocked', ordering_key, queue);
  end if;
  return @schema@.retire_blocked(array[head.id]);
end $lockstep$;

-- skip_head makes the head of a lane, if nobody runs it, a dead letter, and
-- lets the lane go on whatever the queue's policy is.
create or replace function @schema@.skip_head(queue text, tenant text, ordering_key text) returns boolean
language plpgsql
set search_path = pg_catalog, pg_temp
as $lockstep$
declare
  head constant @schema@.job := @schema@.lane_head(queue, tenant, ordering_key);
begin
  if head.settled then
    raise exception using errcode = 'LS006', message = format('job %s is on its way out of its lane', head.id), hint = 'try again';
  elsif head.worker <> @schema@.nobody() then
    raise exception using errcode = 'LS006', message = format('job %s is running', head.id), hint = 'cancel it';
  elsif head.hold <> 'x' then
    perform @schema@.block(array[head.id], array['skipped by an operator']);
  end if;
  return @schema@.retire_blocked(array[head.id]);
end $lockstep$;

-- replay gives a dead job a full new budget of attempts: in its place, if it
-- blocks its lane, else like a new job, at the end of its lane. It keeps its
-- id, and its attempts stay on record. replayed · busy (try again) · duplicate
-- (an unfinished job has its dedupe key: the dead letter stays).
create or replace function @schema@.replay(id bigint) returns text
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $lockstep$
#variable_conflict use_column
declare
  dead @schema@.dead_job;
  head record;
begin
  perform @schema@.require_read_committed();
  select d.* into dead from @schema@.dead_job d where d.id = replay.id for update skip locked;
  if not found then
    return @schema@.not_dead(replay.id);
  end if;
  select j.settled into head from @schema@.job j where j.id = replay.id for update skip locked;
  if found then
    if head.settled then
      return 'busy'; -- on its way out of the lane
    end if;
    update @schema@.job j
       set stage = 'r', hold = '-', run_at = clock_timestamp(), attempt = 0, lost = 0, turn = @schema@.next_turn()
     where j.id = replay.id;
    perform @schema@.tell_ready(array[replay.id]);
  elsif exists (select 1 from @schema@.job j where j.id = replay.id) then
    return 'busy';
  else
    insert into @schema@.job (id, fence, kind, payload, queue, tenant, ordering_key, priority, max_attempts, dedupe_key, headers, created_at, dedupe_seat)
    values (dead.id, dead.fence, dead.kind, dead.payload, dead.queue, dead.tenant, dead.ordering_key, dead.priority, dead.max_attempts,
            dead.dedupe_key, dead.headers, dead.created_at,
            (select h.seat from @schema@.key_holder(dead.queue, dead.tenant, dead.dedupe_key) h))
    on conflict (queue, tenant, dedupe_key, dedupe_seat) where dedupe_key is not null do nothing;
    if not found then
      return 'duplicate';
    elsif dead.dedupe_key is not null and not @schema@.alone_with_key(replay.id, dead.queue, dead.tenant, dead.dedupe_key) then
      delete from @schema@.job j where j.id = replay.id;
      return 'duplicate';
    end if;
  end if;
  delete from @schema@.dead_job d where d.id = replay.id;
  return 'replayed';
end $lockstep$;

-- not_dead says about a dead letter that could not be had: busy, or raises.
create or replace function @schema@.not_dead(id bigint) returns text
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $lockstep$
#variable_conflict use_column
begin
  if exists (select 1 from @schema@.dead_job d where d.id = not_dead.id) then
    return 'busy';
  end if;
  perform @schema@.absent(not_dead.id);
  raise exception using errcode = 'LS006', message = format('job %s is not dead', not_dead.id);
end $lockstep$;

-- discard forgets a dead letter; a lane it blocks goes on. discarded · busy
-- (its lane is locked for a moment: try again).
create or replace function @schema@.discard(id bigint) returns text
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $lockstep$
#variable_conflict use_column
begin
  perform @schema@.require_read_committed();
  perform 1 from @schema@.dead_job d where d.id = discard.id for update skip locked;
  if not found then
    return @schema@.not_dead(discard.id);
  end if;
  perform @schema@.retire_blocked(array(
    select j.id from @schema@.job j where j.id = discard.id and not j.settled for update skip locked));
  if exists (select 1 from @schema@.job j where j.id = discard.id) then
    return 'busy';
  end if;
  delete from @schema@.dead_job d where d.id = discard.id;
  return 'discarded';
end $lockstep$;
