-- replaceable
-- Enqueueing many jobs by one call: by set, and where that can't be, one by one.
--
-- Whatever a call waits for, it takes in one order: first the idempotency keys,
-- then the seats of the dedupe keys, then their gates, each sorted by key. So
-- two calls with the same keys, in whatever order, can't deadlock.

-- parse_jobs reads a JSON array of jobs; the fields are enqueue's arguments.
-- The first bad one raises LS002, its place from 1 in the error's detail.
do $lockstep$ begin
  if pg_get_function_result(to_regprocedure($name$@schema@.parse_jobs(jsonb)$name$)) !~ 'idempotency_key' then
    drop function @schema@.parse_jobs(jsonb);
  end if;
end $lockstep$;

create or replace function @schema@.parse_jobs(jobs jsonb) returns table (
  ordinal integer, kind text, payload jsonb, queue text, tenant text, ordering_key text, priority numeric, run_at timestamptz,
  delay interval, max_attempts numeric, dedupe_key text, dedupe text, idempotency_key text, headers jsonb)
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $lockstep$
#variable_conflict use_column
declare
  bad record;
begin
  if jobs is null or jsonb_typeof(jobs) <> 'array' then
    perform @schema@.refuse('jobs', 'jobs must be a JSON array of objects');
  end if;
  select u.n, u.job into bad from jsonb_array_elements(parse_jobs.jobs) with ordinality u(job, n)
   where jsonb_typeof(u.job) <> 'object' or not array(select jsonb_object_keys(u.job)) <@
     '{kind,payload,queue,tenant,ordering_key,priority,run_at,delay,max_attempts,dedupe_key,dedupe,idempotency_key,headers}' limit 1;
  if found then
    perform @schema@.refuse('jobs', case jsonb_typeof(bad.job) when 'object' then
      'job has an unknown field: ' || (select string_agg(quote_literal(k), ', ') from jsonb_object_keys(bad.job) k
         where k <> all ('{kind,payload,queue,tenant,ordering_key,priority,run_at,delay,max_attempts,dedupe_key,dedupe,idempotency_key,headers}'))
      else 'job must be a JSON object' end, 'job ' || bad.n);
  end if;
  return query
    select u.n::integer, p.kind, coalesce(u.job -> 'payload', '{}'), coalesce(p.queue, 'default'), coalesce(p.tenant, ''),
           p.ordering_key, coalesce(p.priority, 0), p.run_at, p.delay, coalesce(p.max_attempts, 12), p.dedupe_key,
           coalesce(p.dedupe, 'reject'), p.idempotency_key, coalesce(p.headers, '{}')
      from jsonb_array_elements(parse_jobs.jobs) with ordinality u(job, n)
     cross join lateral jsonb_to_record(u.job) p(kind text, queue text, tenant text, ordering_key text, priority numeric,
       run_at timestamptz, delay interval, max_attempts numeric, dedupe_key text, dedupe text, idempotency_key text, headers jsonb);
end $lockstep$;

-- check_jobs raises for the first bad job of a bulk call and writes nothing.
create or replace function @schema@.check_jobs(jobs jsonb) returns void
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $lockstep$
declare
  bad record;
begin
  select p.ordinal, q.problem into bad from @schema@.parse_jobs(jobs) p
   cross join lateral (select @schema@.job_problem(p.queue, p.kind, p.tenant, p.ordering_key, p.dedupe_key, p.dedupe, p.idempotency_key,
     p.priority, p.run_at, p.delay, p.max_attempts, p.payload, p.headers) as problem) q
   where q.problem is not null order by p.ordinal limit 1;
  if found then
    perform @schema@.refuse(split_part(bad.problem, ' ', 1), bad.problem, 'job ' || bad.ordinal);
  end if;
exception when data_exception then
  perform @schema@.refuse_value(jobs);
  raise;
end $lockstep$;

-- refuse_value raises for the first number, time or interval of a bulk call that
-- is none.
create or replace function @schema@.refuse_value(jobs jsonb) returns void
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $lockstep$
declare
  given record;
begin
  for given in
    select u.n, f.field, u.job ->> f.field as value
      from jsonb_array_elements(jobs) with ordinality u(job, n)
     cross join unnest('{priority,run_at,delay,max_attempts}'::text[]) f(field)
     where u.job ->> f.field is not null order by u.n
  loop
    begin
      perform case given.field when 'run_at' then given.value::timestamptz::text when 'delay' then given.value::interval::text
                               else given.value::numeric::text end;
    exception when data_exception then
      perform @schema@.refuse(given.field, format('%s is %L; it must be %s', given.field, given.value,
        case given.field when 'run_at' then 'a time' when 'delay' then 'an interval' else 'a number' end), 'job ' || given.n);
    end;
  end loop;
end $lockstep$;

-- enqueue_many adds the jobs of a JSON array: all, or, if one is bad, none.
-- Their order is the order of the array. The answers are those of enqueue.
--
-- By set, a job whose key somebody has just given up would have to be inserted
-- alone, and so out of order. Then all is undone and done again one by one.
do $lockstep$ begin
  if pg_get_function_result(to_regprocedure($name$@schema@.enqueue_many(jsonb)$name$)) !~ 'outcome' then
    drop function @schema@.enqueue_many(jsonb);
  end if;
end $lockstep$;

create or replace function @schema@.enqueue_many(jobs jsonb)
returns table (ordinal integer, id bigint, created boolean, outcome text)
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $lockstep$
#variable_conflict use_column
declare
  ids bigint[]; -- by ordinal
begin
  perform @schema@.check_jobs(enqueue_many.jobs);
  ids := array(select @schema@.next_id() from generate_series(1, jsonb_array_length(enqueue_many.jobs)));
  if not jsonb_path_exists(enqueue_many.jobs, '$[*] ? (@.dedupe_key != null || @.idempotency_key != null)') then
    perform @schema@.insert_jobs(enqueue_many.jobs, ids, null);
    return query select u.n::integer, u.id, true, 'created' from unnest(ids) with ordinality u(id, n);
    return;
  end if;
  begin
    return query select * from @schema@.add_jobs(enqueue_many.jobs, ids, false);
  exception when sqlstate 'LS000' then
    return query select * from @schema@.add_jobs(enqueue_many.jobs, ids, true);
  end;
end $lockstep$;

-- add_jobs adds checked jobs, some of which have keys, with the ids given;
-- raises LS000 if that can't be done by set.
create or replace function @schema@.add_jobs(jobs jsonb, ids bigint[], one_by_one boolean)
returns table (ordinal integer, id bigint, created boolean, outcome text)
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $lockstep$
#variable_conflict use_column
declare
  known    bigint[]; -- by ordinal: the job that the same request has made before
  there    bigint[]; -- the job that is there now
  outcomes text[];
  item     record;
begin
  known := case when jsonb_path_exists(add_jobs.jobs, '$[*].idempotency_key ? (@ != null)') then
    @schema@.take_keys(add_jobs.jobs, ids, add_jobs.one_by_one) end;
  if add_jobs.one_by_one or jsonb_path_exists(add_jobs.jobs, '$[*].dedupe ? (@ == "replace" || @ == "one_more")') then
    select s.there, s.outcomes into there, outcomes from @schema@.seat_jobs(add_jobs.jobs, ids, known) s;
  else
    select s.there, s.outcomes into there, outcomes from @schema@.insert_jobs(add_jobs.jobs, ids, known) s;
  end if;
  for item in -- whose job turned out to be the one of their dedupe key
    select p.tenant, p.idempotency_key, u.there
      from unnest(ids, there) with ordinality u(drawn, there, n)
      join @schema@.parse_jobs(add_jobs.jobs) p on p.ordinal = u.n
     where u.drawn <> u.there and p.idempotency_key is not null and known[u.n] is null
  loop
    perform @schema@.rename_job(item.tenant, item.idempotency_key, item.there);
  end loop;
  return query -- a job of this call may have found another one that then gave way to a third
    select u.n::integer, coalesce(m.there, u.there), u.outcome = 'created', u.outcome
      from unnest(there, outcomes) with ordinality u(there, outcome, n)
      left join (select d.drawn, d.there from unnest(ids, there) d(drawn, there) where d.drawn <> d.there) m on m.drawn = u.there;
end $lockstep$;

-- take_keys is take_key for the jobs of a bulk call: by ordinal, the jobs that
-- the same requests have made before, null for the others.
create or replace function @schema@.take_keys(jobs jsonb, ids bigint[], one_by_one boolean) returns bigint[]
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $lockstep$
#variable_conflict use_column
declare
  known bigint[] := array_fill(null::bigint, array[cardinality(ids)]);
  fresh bigint[];
  item  record;
begin
  if one_by_one then
    for item in
      select p.ordinal, p.tenant, p.idempotency_key as key,
             @schema@.request_digest(p.kind, p.queue, p.ordering_key, p.priority::integer, p.payload, p.run_at, p.delay) as digest
        from @schema@.parse_jobs(take_keys.jobs) p where p.idempotency_key is not null
       order by p.tenant, p.idempotency_key, p.ordinal
    loop
      known[item.ordinal] := @schema@.take_key(item.tenant, item.key, item.digest, ids[item.ordinal], 'job ' || item.ordinal);
    end loop;
    return known;
  end if;
  with inserted as (
    insert into @schema@.idempotency as i (tenant, key, digest, job_id)
    select p.tenant, p.idempotency_key,
           @schema@.request_digest(p.kind, p.queue, p.ordering_key, p.priority::integer, p.payload, p.run_at, p.delay), ids[p.ordinal]
      from @schema@.parse_jobs(take_keys.jobs) p where p.idempotency_key is not null
     order by p.tenant, p.idempotency_key, p.ordinal
    on conflict do nothing returning i.job_id)
  select array_agg(n.job_id) into fresh from inserted n;
  for item in
    select p.ordinal, p.idempotency_key as key, i.job_id, i.created_at,
           i.digest = @schema@.request_digest(p.kind, p.queue, p.ordering_key, p.priority::integer, p.payload, p.run_at, p.delay) as same
      from @schema@.parse_jobs(take_keys.jobs) p
      left join lateral (
        select o.job_id, o.created_at, o.digest from @schema@.idempotency o where o.tenant = p.tenant and o.key = p.idempotency_key limit 1) i on true
     where p.idempotency_key is not null and ids[p.ordinal] not in (select f.id from unnest(fresh) f(id)) order by p.ordinal
  loop
    if item.job_id is null or item.created_at < clock_timestamp() - @schema@.idempotency_retention() then
      raise exception using errcode = 'LS000';
    elsif not item.same then
      perform @schema@.raise_key_reused(item.key, item.job_id, 'job ' || item.ordinal);
    end if;
    known[item.ordinal] := item.job_id;
  end loop;
  return known;
end $lockstep$;

-- insert_jobs inserts jobs with the ids given by set, all but those known,
-- sorted by dedupe key. there are the jobs by ordinal, and outcomes, under the
-- policy reject, the answers.
drop function if exists @schema@.insert_jobs(jsonb, bigint[]);
create or replace function @schema@.insert_jobs(jobs jsonb, ids bigint[], known bigint[], out there bigint[], out outcomes text[])
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $lockstep$
#variable_conflict use_column
declare
  fresh bigint[];
  item  record;
begin
  with inserted as (
    insert into @schema@.job as j (id, kind, payload, queue, tenant, ordering_key, priority, run_at, max_attempts, dedupe_key, headers)
    select ids[p.ordinal], p.kind, p.payload, p.queue, p.tenant, p.ordering_key, p.priority,
           coalesce(p.run_at, clock_timestamp() + coalesce(p.delay, '0')), p.max_attempts, p.dedupe_key, p.headers
      from @schema@.parse_jobs(insert_jobs.jobs) p where known is null or known[p.ordinal] is null
     order by p.queue, p.tenant, p.dedupe_key, p.ordinal
    on conflict (queue, tenant, dedupe_key, dedupe_seat) where dedupe_key is not null do nothing
    returning j.id)
  select array_agg(i.id) into fresh from inserted i;
  if not jsonb_path_exists(insert_jobs.jobs, '$[*] ? (@.dedupe_key != null || @.idempotency_key != null)') then
    return; -- all are new, and nobody asks
  end if;
  there := ids;
  outcomes := array_fill('created'::text, array[cardinality(ids)]);
  for item in
    select p.ordinal, coalesce(known[p.ordinal], t.id) as id, known[p.ordinal] is not null as repeated
      from @schema@.parse_jobs(insert_jobs.jobs) p
      left join lateral ( -- one look at the index for each: a join may read all keys there are
        select j.id from @schema@.job j
         where j.queue = p.queue and j.tenant = p.tenant and j.dedupe_key = p.dedupe_key and not j.settled
         order by j.fence <> 0, j.id limit 1) t on true
     where ids[p.ordinal] not in (select f.id from unnest(fresh) f(id))
  loop
    if item.id is null then
      raise exception using errcode = 'LS000'; -- it has just finished, or is about to
    end if;
    there[item.ordinal] := item.id;
    outcomes[item.ordinal] := case when item.repeated then 'repeated' else 'existing' end;
  end loop;
  perform @schema@.enter_gates(fresh);
  if exists (
    select 1 from unnest(fresh) u(id)
     cross join lateral (select l.queue, l.tenant, l.dedupe_key from @schema@.job l where l.id = u.id and l.dedupe_key is not null offset 0) j
     cross join lateral (
       select 1 from @schema@.job o
        where o.queue = j.queue and o.tenant = j.tenant and o.dedupe_key = j.dedupe_key and o.id <> u.id and not o.settled limit 1) other)
  then
    raise exception using errcode = 'LS000';
  end if;
end $lockstep$;

-- seat_jobs is insert_jobs one by one, and for every policy.
create or replace function @schema@.seat_jobs(jobs jsonb, ids bigint[], known bigint[], out there bigint[], out outcomes text[])
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $lockstep$
#variable_conflict use_column
declare
  job      @schema@.job;
  item     record;
  answer   record;
  seated   integer[] := '{}'; -- ordinals of those that took a seat, in order
  policies text[] := '{}';
begin
  there := ids;
  outcomes := array_fill('created'::text, array[cardinality(ids)]);
  for item in select p.* from @schema@.parse_jobs(seat_jobs.jobs) p order by p.queue, p.tenant, p.dedupe_key, p.ordinal loop
    if known[item.ordinal] is not null then
      there[item.ordinal] := known[item.ordinal];
      outcomes[item.ordinal] := 'repeated';
      continue;
    end if;
    job.id := ids[item.ordinal];
    job.kind := item.kind; job.payload := item.payload; job.headers := item.headers;
    job.queue := item.queue; job.tenant := item.tenant; job.ordering_key := item.ordering_key;
    job.priority := item.priority; job.max_attempts := item.max_attempts; job.dedupe_key := item.dedupe_key;
    job.run_at := coalesce(item.run_at, clock_timestamp() + coalesce(item.delay, '0'));
    if item.dedupe_key is null then
      perform @schema@.insert_job(job, 0::smallint);
      continue;
    end if;
    select s.id, s.outcome into answer from @schema@.take_seat(job, item.dedupe, 'job ' || item.ordinal) s;
    there[item.ordinal] := answer.id;
    outcomes[item.ordinal] := answer.outcome;
    if answer.outcome = 'created' then
      seated := seated || item.ordinal;
      policies := policies || item.dedupe;
    end if;
  end loop;
  for i in 1 .. cardinality(seated) loop
    select g.id, g.outcome into answer
      from (select j.queue, j.tenant, j.dedupe_key from @schema@.job j where j.id = ids[seated[i]]) j
     cross join lateral @schema@.pass_gate(ids[seated[i]], j.queue, j.tenant, j.dedupe_key, policies[i], 'job ' || seated[i]) g;
    there[seated[i]] := answer.id;
    outcomes[seated[i]] := answer.outcome;
  end loop;
end $lockstep$;
