-- replaceable
-- What people do about dead letters and the lanes they block, and the policies
-- of queues.

-- set_queue sets a queue's policies; null leaves one as it is. A change from
-- `block` to `skip` lets the blocked lanes go on, up to 200 a call; it answers
-- how many are left (call again). dead_retention is how long dead letters are
-- kept that block no lane: 1 minute to 100 years, or 0 for as long as nobody
-- discards them.
drop function if exists @schema@.set_queue(text, text, interval, double precision, interval);
create or replace function @schema@.set_queue(name text, on_dead text default null, backoff_base interval default null,
  backoff_factor double precision default null, backoff_cap interval default null, dead_retention interval default null) returns integer
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
  elsif set_queue.dead_retention <> '0' and set_queue.dead_retention not between '1 minute' and '36600 days' then
    perform @schema@.refuse('dead_retention', format('dead_retention is %s; it must be 0 for none, or between 1 minute and 100 years', set_queue.dead_retention));
  end if;
  insert into @schema@.queue as q (name) values (set_queue.name) on conflict (name) do nothing;
  update @schema@.queue q
     set on_dead = coalesce(set_queue.on_dead, q.on_dead), backoff_base = coalesce(set_queue.backoff_base, q.backoff_base),
         backoff_factor = coalesce(set_queue.backoff_factor, q.backoff_factor), backoff_cap = coalesce(set_queue.backoff_cap, q.backoff_cap),
         dead_retention = nullif(coalesce(set_queue.dead_retention, q.dead_retention), '0')
   where q.name = set_queue.name;
  if (select q.on_dead from @schema@.queue q where q.name = set_queue.name) = 'block' then
    return 0;
  end if;
  perform @schema@.retire_spared(set_queue.name);
  return (select count(*) from @schema@.job j where j.hold = 'x' and not j.settled and j.queue = set_queue.name);
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
    select j.id from @schema@.job j
     where j.hold = 'x' and not j.settled and (retire_spared.queue is null or j.queue = retire_spared.queue)
       and coalesce((select q.on_dead from @schema@.queue q where q.name = j.queue), 'skip') = 'skip'
     order by j.id limit 200 for update skip locked));
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

-- lane_head is the head of a lane, its row locked; null if another transaction
-- has the row. Raises LS005 if the lane is idle.
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
  if not found and not exists (select from @schema@.job j where j.queue = lane_head.queue and j.tenant = lane_head.tenant
                                  and j.ordering_key = lane_head.ordering_key and j.stage in ('r', 'b')) then
    raise exception using errcode = 'LS005', message = format('lane %L of queue %L has no head', lane_head.ordering_key, lane_head.queue);
  end if;
  return head;
end $lockstep$;

-- pass_head lets a lane go on behind its dead head, whose row the caller has
-- locked: done | pending (it will in a moment, as another transaction is at the
-- lane) | busy (another transaction has the dead letter: nothing was changed).
create or replace function @schema@.pass_head(id bigint) returns text
language plpgsql
set search_path = pg_catalog, pg_temp
as $lockstep$
begin
  if @schema@.with_letter(array[id]) = '{}' then
    return 'busy';
  end if;
  return case when @schema@.retire_blocked(array[id]) then 'done' else 'pending' end;
end $lockstep$;

-- unblock_lane lets a lane go on behind the dead head that blocks it. The dead
-- letter stays. unblocked | pending (it goes on in a moment) | busy (the head
-- or its letter is locked for a moment: try again). Raises LS005 for a lane
-- without a head, LS006 for one that is not blocked.
do $lockstep$ begin
  if to_regprocedure($name$@schema@.unblock_lane(text, text, text)$name$)::oid in (select p.oid from pg_proc p where p.prorettype = 'boolean'::regtype) then
    drop function @schema@.unblock_lane(text, text, text);
    drop function @schema@.skip_head(text, text, text);
  end if;
end $lockstep$;
create or replace function @schema@.unblock_lane(queue text, tenant text, ordering_key text) returns text
language plpgsql
set search_path = pg_catalog, pg_temp
as $lockstep$
declare
  head constant @schema@.job := @schema@.lane_head(queue, tenant, ordering_key);
begin
  if head.hold <> 'x' then
    raise exception using errcode = 'LS006', message = format('lane %L of queue %L is not blocked', ordering_key, queue);
  elsif head.id is null then
    return 'busy';
  end if;
  return replace(@schema@.pass_head(head.id), 'done', 'unblocked');
end $lockstep$;

-- skip_head makes the head of a lane, if nobody runs it, a dead letter, and
-- lets the lane go on whatever the queue's policy is. skipped | pending (the
-- lane goes on in a moment) | busy (the head or its letter is locked, or on its
-- way out, for a moment: try again). Raises LS005 for a lane without a head,
-- LS006 for a head that runs: cancel that one.
create or replace function @schema@.skip_head(queue text, tenant text, ordering_key text) returns text
language plpgsql
set search_path = pg_catalog, pg_temp
as $lockstep$
declare
  head constant @schema@.job := @schema@.lane_head(queue, tenant, ordering_key);
begin
  if head.id is null or head.settled then
    return 'busy';
  elsif head.worker <> @schema@.nobody() then
    raise exception using errcode = 'LS006', message = format('job %s is running', head.id), hint = 'cancel it';
  elsif head.hold <> 'x' then
    perform @schema@.block(array[head.id], array['skipped by an operator']);
  end if;
  return replace(@schema@.pass_head(head.id), 'done', 'skipped');
end $lockstep$;

-- replay gives a dead job a full new budget of attempts: in its place, if it
-- blocks its lane, else like a new job, at the end of its lane. It keeps its
-- id, and its attempts stay on record. replayed | busy (try again) | duplicate
-- (an unfinished job has its dedupe key: the dead letter stays). Raises LS005
-- for an id that never was, LS006 for a job that is not dead, or that a limit
-- lowered since refuses.
create or replace function @schema@.replay(id bigint) returns text
language plpgsql
set search_path = pg_catalog, pg_temp
as $lockstep$
declare
  answer  text;
  problem text;
begin
  perform @schema@.require_read_committed();
  begin
    answer := @schema@.replay_letter(id, false);
  exception when check_violation then
    get stacked diagnostics problem = message_text;
    raise exception using errcode = 'LS006', message = format('job %s can''t be enqueued any more: %s', id, problem),
      hint = 'raise the limit, or discard it';
  end;
  return case answer when 'gone' then @schema@.not_dead(id) else answer end;
end $lockstep$;

-- replay_letter is replay for one that may be gone. A caller that works on many
-- only tries: the lane's entry lock, which the placing needs at the commit, is not
-- waited for, and a dedupe key in an open transaction for 5 ms at most. A blocked head
-- is replayed without its letter too, which somebody deleted by hand.
create or replace function @schema@.replay_letter(id bigint, only_try boolean) returns text
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $lockstep$
#variable_conflict use_column
declare
  dead   @schema@.dead_job;
  head   record;
  answer text;
begin
  select d.* into dead from @schema@.dead_job d where d.id = replay_letter.id for update skip locked;
  if not found and exists (select from @schema@.dead_job d where d.id = replay_letter.id) then
    return 'busy';
  end if;
  select j.settled, j.hold into head from @schema@.job j where j.id = replay_letter.id for update skip locked;
  if found then
    if head.hold <> 'x' then
      return 'gone';
    elsif head.settled then
      return 'busy'; -- on its way out of the lane
    end if;
    update @schema@.job j
       set stage = 'r', hold = '-', run_at = clock_timestamp(), attempt = 0, lost = 0, turn = @schema@.next_turn()
     where j.id = replay_letter.id;
    perform @schema@.tell_ready(array[replay_letter.id]);
  elsif exists (select from @schema@.job j where j.id = replay_letter.id and (j.hold = 'x' or dead.id is not null)) then
    return 'busy';
  elsif dead.id is null then
    return 'gone';
  else
    answer := case when only_try then @schema@.try_replay_anew(dead) else @schema@.replay_anew(dead) end;
    if answer <> 'replayed' then
      return answer;
    end if;
  end if;
  delete from @schema@.dead_job d where d.id = replay_letter.id;
  return 'replayed';
end $lockstep$;

-- replay_anew enqueues the job of a letter again: replayed | duplicate.
create or replace function @schema@.replay_anew(dead @schema@.dead_job) returns text
language plpgsql
set search_path = pg_catalog, pg_temp
as $lockstep$
begin
  insert into @schema@.job (id, fence, kind, payload, queue, tenant, ordering_key, priority, max_attempts, dedupe_key, headers, created_at, dedupe_seat)
  values (dead.id, dead.fence, dead.kind, dead.payload, dead.queue, dead.tenant, dead.ordering_key, dead.priority, dead.max_attempts,
          dead.dedupe_key, dead.headers, dead.created_at,
          (select h.seat from @schema@.key_holder(dead.queue, dead.tenant, dead.dedupe_key) h))
  on conflict (queue, tenant, dedupe_key, dedupe_seat) where dedupe_key is not null do nothing;
  if not found then
    return 'duplicate';
  elsif dead.dedupe_key is not null and not @schema@.alone_with_key(dead.id, dead.queue, dead.tenant, dead.dedupe_key) then
    delete from @schema@.job j where j.id = dead.id;
    return 'duplicate';
  end if;
  return 'replayed';
end $lockstep$;

-- try_replay_anew is replay_anew for a caller that works on many: busy if the
-- lane's entry lock can't be had, or if a job with the dedupe key is in a
-- transaction that does not end within 5 ms; refused if the job may not be
-- enqueued any more, as a limit was lowered.
create or replace function @schema@.try_replay_anew(dead @schema@.dead_job) returns text
language plpgsql
set search_path = pg_catalog, pg_temp
set lock_timeout = '5 ms'
as $lockstep$
begin
  if dead.ordering_key is not null and not @schema@.try_entry(dead.queue, dead.tenant, dead.ordering_key) then
    return 'busy';
  end if;
  return @schema@.replay_anew(dead);
exception
  when lock_not_available then
    return 'busy';
  when integrity_constraint_violation then
    return 'refused';
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

-- discard forgets a dead letter; a lane it blocks goes on, also where somebody
-- has deleted the letter by hand. discarded | busy (it or its lane is locked for
-- a moment: nothing was changed, try again). Raises LS005 for an id that never
-- was, LS006 for a job that is not dead.
create or replace function @schema@.discard(id bigint) returns text
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $lockstep$
#variable_conflict use_column
declare
  head bigint[];
begin
  perform @schema@.require_read_committed();
  perform 1 from @schema@.dead_job d where d.id = discard.id for update skip locked;
  if not found and (exists (select from @schema@.dead_job d where d.id = discard.id)
                    or not exists (select from @schema@.job j where j.id = discard.id and j.hold = 'x')) then
    return @schema@.not_dead(discard.id);
  end if;
  head := array(select j.id from @schema@.job j where j.id = discard.id and j.hold = 'x' and not j.settled for update skip locked);
  begin
    perform @schema@.retire_blocked(head);
    if exists (select 1 from @schema@.job j where j.id = discard.id) then
      raise exception using errcode = 'LS000'; -- undone: the head keeps its place, for a replay
    end if;
  exception when sqlstate 'LS000' then
    return 'busy';
  end;
  delete from @schema@.dead_job d where d.id = discard.id;
  insert into @schema@.discarded (id) values (discard.id) on conflict do nothing;
  return 'discarded';
end $lockstep$;
