-- replaceable
-- Replaying many dead letters at a rate that holds over all processes, and
-- through restarts: what is to do and how far it has come stands in a row.

-- start_replay has dead letters replayed at a rate (letters a second, above 0
-- to 1,000): those that are there now, of the ids given or that the filter holds
-- for. A filter that is null is not applied; error is a LIKE pattern
-- ('%timeout%'); died_from is included, died_before is not. Letters of one lane
-- are replayed in their original order. Whoever calls due() at its due_at drives
-- it, which all dispatchers do. started_by is for people; null: the session's
-- user. Answers the replay's id, by which the view replays lists it.
create or replace function @schema@.start_replay(rate double precision default 10, ids bigint[] default null, queue text default null,
  kind text default null, tenant text default null, ordering_key text default null, error text default null,
  died_from timestamptz default null, died_before timestamptz default null, started_by text default null) returns bigint
language plpgsql
set search_path = pg_catalog, pg_temp
as $lockstep$
#variable_conflict use_column
declare
  fresh bigint;
begin
  perform @schema@.require_read_committed();
  perform @schema@.check_error_pattern(start_replay.error);
  if start_replay.rate is null or not (start_replay.rate > 0 and start_replay.rate <= 1000) then
    perform @schema@.refuse('rate', format('rate is %s; it must be above 0, and at most 1000 letters a second', start_replay.rate));
  elsif cardinality(start_replay.ids) > 1000 then
    perform @schema@.refuse('ids', format('ids has %s ids; at most 1000 are allowed: use a filter', cardinality(start_replay.ids)));
  elsif octet_length(start_replay.started_by) > 200 then
    perform @schema@.refuse('started_by', 'started_by must be at most 200 bytes long');
  end if;
  insert into @schema@.replay_run as r (ids, queue, kind, tenant, ordering_key, error, died_from, died_before, rate, started_by, last_turn)
  values (start_replay.ids, start_replay.queue, start_replay.kind, start_replay.tenant, start_replay.ordering_key, start_replay.error,
          start_replay.died_from, start_replay.died_before, start_replay.rate, coalesce(start_replay.started_by, session_user),
          @schema@.next_turn())
  returning r.id into fresh;
  -- Any dispatcher may drive it, so one of any queue will do: all are told.
  perform @schema@.signal('d', q.queue, (extract(epoch from clock_timestamp()) * 1000)::bigint)
     from (select distinct u.queue from @schema@.dispatcher d cross join lateral unnest(d.queues) u(queue)
            where d.seen_at > clock_timestamp() - 3 * d.lease limit 100) q;
  return fresh;
end $lockstep$;

-- cancel_replay ends a replay: the letters it has not come to stay. cancelled |
-- ended (it was over) | busy (a step is being made: try again). Raises LS005 for
-- an id that never was.
create or replace function @schema@.cancel_replay(id bigint) returns text
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $lockstep$
#variable_conflict use_column
declare
  run record;
begin
  perform @schema@.require_read_committed();
  select r.ended_at into run from @schema@.replay_run r where r.id = cancel_replay.id for update skip locked;
  if found and run.ended_at is null then
    update @schema@.replay_run r set ended_at = clock_timestamp(), outcome = 'cancelled' where r.id = cancel_replay.id;
    return 'cancelled';
  elsif found then
    return 'ended';
  elsif exists (select from @schema@.replay_run r where r.id = cancel_replay.id) then
    return 'busy';
  end if;
  raise exception using errcode = 'LS005', message = format('there is no replay %s', cancel_replay.id);
end $lockstep$;

-- replay_wants tells whether a replay is to replay a letter that it comes to.
create or replace function @schema@.replay_wants(run @schema@.replay_run, lane_turn bigint, queue text, kind text, tenant text,
  ordering_key text, error text, died_at timestamptz) returns boolean
language sql stable
begin atomic
  select lane_turn <= (run).last_turn and died_at <= (run).started_at
     and ((run).queue is null or queue = (run).queue) and ((run).kind is null or kind = (run).kind)
     and ((run).tenant is null or tenant = (run).tenant) and ((run).ordering_key is null or ordering_key = (run).ordering_key)
     and ((run).died_from is null or died_at >= (run).died_from) and ((run).died_before is null or died_at < (run).died_before)
     and ((run).error is null or coalesce(error, '') like (run).error);
end;

-- replay_left counts the letters that a replay has still to come to.
create or replace function @schema@.replay_left(run @schema@.replay_run) returns bigint
language plpgsql stable
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $lockstep$
begin
  if run.ended_at is not null then
    return 0;
  elsif run.ids is not null then
    return (select count(*) from @schema@.dead_job d where d.id = any (run.ids) and (d.lane_turn, d.id) > (run.at_turn, run.at_id)
       and @schema@.replay_wants(run, d.lane_turn, d.queue, d.kind, d.tenant, d.ordering_key, d.error, d.died_at));
  end if;
  return (select count(*) from @schema@.dead_job d where (d.lane_turn, d.id) > (run.at_turn, run.at_id)
     and @schema@.replay_wants(run, d.lane_turn, d.queue, d.kind, d.tenant, d.ordering_key, d.error, d.died_at));
end $lockstep$;

-- replays lists replays, those that are over for as long as the history is kept.
-- remaining is counted when you ask: it reads the letters that are still ahead.
create or replace view @schema@.replays as
select r.id, coalesce(r.outcome, 'running') as state, r.rate, r.replayed, r.kept, @schema@.replay_left(r) as remaining,
       r.started_by, r.started_at, r.stepped_at, r.ended_at,
       r.ids, r.queue, r.kind, r.tenant, r.ordering_key, r.error, r.died_from, r.died_before
  from @schema@.replay_run r;

-- replay_due makes a step of each replay whose time has come. It tries about 30
-- letters in all, since each costs a subtransaction, and at most 7 that are busy,
-- which may wait 5 ms each for a dedupe key: for anything else it waits not at all.
-- due_at is when to call again: who made a step is to keep the pace, the others
-- look a little later whether it does.
create or replace function @schema@.replay_due(out replayed integer, out due_at timestamptz)
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $lockstep$
declare
  run    @schema@.replay_run;
  step   record;
  mine   bigint[] := '{}';
  to_try integer := 30;
begin
  replayed := 0;
  for run in
    select r.* from @schema@.replay_run r where r.ended_at is null and r.next_at <= clock_timestamp()
     order by r.next_at limit 5 for update skip locked
  loop
    mine := mine || run.id;
    if to_try >= 10 then -- else it comes first in one of the next calls
      step := @schema@.replay_step(run, to_try);
      replayed := replayed + step.done;
      to_try := to_try - step.tried;
    end if;
  end loop;
  due_at := (select min(case when r.id = any (mine) then r.next_at else greatest(r.next_at, clock_timestamp()) + '100 ms' end)
               from @schema@.replay_run r where r.ended_at is null);
end $lockstep$;

-- replay_step replays the letters whose time has come of a replay, whose row the
-- caller has locked, and notes how far it came. Answers how many.
--
-- The pace is kept by next_at: no letter before it, and a letter moves it on by
-- 1/rate. What was missed is not made up for, or a replay would burst after a
-- standstill; but from 20 letters a second on, where a timer's lateness counts, up
-- to 200 ms of it are, as long as no second has more than the rate and a
-- twentieth. Below, a hundredth is kept in hand, so that commits which take
-- longer than others do not bunch.
--
-- A letter or a lane that somebody else is at is left, and the letters behind it
-- in its lane with it; the replay comes back to it, and goes on with other lanes,
-- within the letters that a step looks at. It tries at most as many as it is told,
-- and a busy one counts as five. Once half of these are such that stay where they
-- are, it goes on at a random lane: so it comes by and by to all that are behind.
drop function if exists @schema@.replay_step(@schema@.replay_run, integer);
create or replace function @schema@.replay_step(run @schema@.replay_run, most integer, out done integer, out tried integer)
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
as $lockstep$
declare
  moment  constant timestamptz := clock_timestamp();
  quick   constant boolean := run.rate >= 20;
  since   constant timestamptz := greatest(run.next_at, moment - case when quick then '200 ms'::interval else '0' end);
  allowed integer := least(1 + floor(extract(epoch from moment - since) * run.rate), most);
  letter  record;
  letters refcursor;
  answer  text;
  looked  integer := 0;
  over    boolean := false;
  jumped  boolean := false;
  staying integer := 0;
  shut    text[] := '{}'; -- lanes, and letters without one, that are left for now
begin
  done := 0;
  tried := 0;
  run.rate := greatest(run.rate, 1e-9); -- a slower one has times, and products, that are out of range
  if quick then
    select coalesce(array_agg(u.at order by u.at), '{}'), coalesce(array_agg(u.n order by u.at), '{}') into run.recent_at, run.recent
      from unnest(run.recent_at, run.recent) u(at, n) where u.at > moment - '1 s'::interval;
    allowed := least(allowed, floor(run.rate * 1.05) - (select coalesce(sum(n), 0) from unnest(run.recent) n));
    if allowed <= 0 then
      update @schema@.replay_run r set next_at = run.recent_at[1] + '1 s' where r.id = run.id;
      return;
    end if;
  end if;
  if run.ids is not null then
    open letters scroll for
      select d.id, d.lane_turn, array[d.queue, d.tenant, coalesce(d.ordering_key, '')]::text || case when d.ordering_key is null then d.id::text else '' end as lane,
             @schema@.replay_wants(run, d.lane_turn, d.queue, d.kind, d.tenant, d.ordering_key, d.error, d.died_at) as wanted
        from @schema@.dead_job d where d.id = any (run.ids) and (d.lane_turn, d.id) > (run.at_turn, run.at_id)
       order by d.lane_turn, d.id;
  else
    open letters scroll for
      select d.id, d.lane_turn, array[d.queue, d.tenant, coalesce(d.ordering_key, '')]::text || case when d.ordering_key is null then d.id::text else '' end as lane,
             @schema@.replay_wants(run, d.lane_turn, d.queue, d.kind, d.tenant, d.ordering_key, d.error, d.died_at) as wanted
        from @schema@.dead_job d where (d.lane_turn, d.id) > (run.at_turn, run.at_id)
       order by d.lane_turn, d.id limit 1000;
  end if;
  while done < allowed and tried < most loop
    fetch letters into letter;
    over := not found;
    exit when over;
    looked := looked + 1;
    if letter.wanted and letter.lane <> all (shut) then
      answer := @schema@.replay_letter(letter.id, true);
      tried := tried + case answer when 'busy' then 5 else 1 end;
      if answer = 'busy' then
        shut := shut || letter.lane;
      elsif answer = 'replayed' then
        done := done + 1;
      elsif answer in ('duplicate', 'refused') and shut = '{}' then
        staying := staying + 1;
      end if;
    end if;
    if shut = '{}' then
      run.at_turn := letter.lane_turn;
      run.at_id := letter.id;
    elsif not jumped and 2 * (tried - done) >= most then
      jumped := true;
      shut := shut || @schema@.lanes_to_pass(letters, looked, shut);
    end if;
  end loop;
  close letters;
  if over and shut = '{}' and (looked < 1000 or run.ids is not null) then
    run.outcome := 'done';
    run.ended_at := clock_timestamp();
  end if;
  if quick and done > 0 then
    run.recent_at := run.recent_at || clock_timestamp(); -- its letters were replayed since moment: no second may have more
    run.recent := run.recent || done;
  end if;
  update @schema@.replay_run r
     set recent_at = run.recent_at, recent = run.recent, at_turn = run.at_turn, at_id = run.at_id, stepped_at = moment, replayed = r.replayed + done, kept = r.kept + staying,
         outcome = run.outcome, ended_at = run.ended_at,
         next_at = case when done > 0 then since + done * (case when run.rate < 20 then 1.01 else 1 end) / run.rate * '1 s'::interval
                        when shut <> '{}' then clock_timestamp() + '20 ms' else since end
   where r.id = run.id;
end $lockstep$;

-- lanes_to_pass draws how many of the lanes that are ahead, and not shut, a step
-- passes, and answers these. It leaves the cursor where it was: behind as many
-- letters as were looked at.
create or replace function @schema@.lanes_to_pass(letters refcursor, looked integer, shut text[]) returns text[]
language plpgsql
set search_path = pg_catalog, pg_temp
as $lockstep$
declare
  letter record;
  ahead  text[] := '{}';
begin
  loop
    fetch letters into letter;
    exit when not found;
    if letter.wanted and letter.lane <> all (shut) then
      ahead := ahead || letter.lane;
    end if;
  end loop;
  move absolute looked from letters;
  ahead := array(select u.lane from unnest(ahead) with ordinality u(lane, n) group by u.lane order by min(u.n));
  return ahead[1 : floor(random() * cardinality(ahead))];
end $lockstep$;
