-- replaceable
-- Enqueueing by function: what a plain INSERT does, with errors that name the
-- field, and an answer for a dedupe key that is taken.

-- job_problem says what is wrong with a job, field first, or null.
create or replace function @schema@.job_problem(queue text, kind text, tenant text, ordering_key text, dedupe_key text, priority numeric,
  run_at timestamptz, delay interval, max_attempts numeric, payload jsonb, headers jsonb) returns text
language sql stable
begin atomic
  select case
    when kind is null or kind = '' then 'kind must not be empty'
    when octet_length(kind) > 200 then format('kind is %s bytes long; at most 200 are allowed', octet_length(kind))
    when queue is null or queue = '' then 'queue must not be empty'
    when octet_length(queue) > 200 then format('queue is %s bytes long; at most 200 are allowed', octet_length(queue))
    when octet_length(tenant) > 200 then format('tenant is %s bytes long; at most 200 are allowed', octet_length(tenant))
    when ordering_key = '' then 'ordering_key must not be empty; leave it out for a job without order'
    when octet_length(ordering_key) > 1000 then format('ordering_key is %s bytes long; at most 1000 are allowed', octet_length(ordering_key))
    when dedupe_key = '' then 'dedupe_key must not be empty; leave it out for none'
    when octet_length(dedupe_key) > 1000 then format('dedupe_key is %s bytes long; at most 1000 are allowed', octet_length(dedupe_key))
    when priority not between -9 and 9 or priority <> trunc(priority) then
      format('priority is %s; it must be a whole number between -9 and 9', priority)
    when max_attempts not between 1 and 32767 or max_attempts <> trunc(max_attempts) then
      format('max_attempts is %s; it must be a whole number between 1 and 32767', max_attempts)
    when run_at is not null and delay is not null then 'run_at is given together with delay; give one of them'
    when run_at = 'infinity' or run_at = '-infinity' then 'run_at must be a finite time'
    when run_at >= '10000-01-01 00:00:00+00' then 'run_at must be before the year 10000'
    when delay not between '0' and '366000 days' then format('delay is %s; it must be between 0 and 1000 years', delay)
    when payload is null then 'payload must be JSON; leave it out for {}'
    when octet_length(payload::text) > @schema@.payload_limit() then
      format('payload is %s bytes long; at most %s are allowed', octet_length(payload::text), @schema@.payload_limit())
    when headers is null or jsonb_typeof(headers) <> 'object' then 'headers must be a JSON object'
    when octet_length(headers::text) > @schema@.text_limit() then
      format('headers are %s bytes long; at most %s are allowed', octet_length(headers::text), @schema@.text_limit())
  end;
end;

-- enqueue adds a job. With a dedupe key that an unfinished job of the same
-- queue and tenant has, it answers with that job and created = false.
create or replace function @schema@.enqueue(kind text, payload jsonb default '{}', queue text default 'default', tenant text default '',
  ordering_key text default null, priority integer default 0, run_at timestamptz default null, delay interval default null,
  max_attempts integer default null, dedupe_key text default null, headers jsonb default '{}',
  out id bigint, out created boolean)
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $lockstep$
#variable_conflict use_column
declare
  problem constant text := @schema@.job_problem(enqueue.queue, enqueue.kind, enqueue.tenant, enqueue.ordering_key, enqueue.dedupe_key,
    enqueue.priority, enqueue.run_at, enqueue.delay, enqueue.max_attempts, enqueue.payload, enqueue.headers);
begin
  if problem is not null then
    perform @schema@.refuse(split_part(problem, ' ', 1), problem);
  end if;
  select a.id, a.created into id, created
    from @schema@.add_job(null, enqueue.kind, enqueue.payload, enqueue.queue, coalesce(enqueue.tenant, ''), enqueue.ordering_key,
      coalesce(enqueue.priority, 0), coalesce(enqueue.run_at, clock_timestamp() + coalesce(enqueue.delay, '0')),
      coalesce(enqueue.max_attempts, 12), enqueue.dedupe_key, enqueue.headers) a;
end $lockstep$;

-- add_job inserts a checked job, with an id drawn before or, for null, a new
-- one; or it finds the unfinished job that has its dedupe key.
create or replace function @schema@.add_job(chosen bigint, kind text, payload jsonb, queue text, tenant text, ordering_key text,
  priority integer, run_at timestamptz, max_attempts integer, dedupe_key text, headers jsonb,
  out id bigint, out created boolean)
language plpgsql
set search_path = pg_catalog, pg_temp
as $lockstep$
#variable_conflict use_column
begin
  loop
    insert into @schema@.job as j (id, kind, payload, queue, tenant, ordering_key, priority, run_at, max_attempts, dedupe_key, headers)
    values (coalesce(add_job.chosen, @schema@.next_id()), add_job.kind, add_job.payload, add_job.queue, add_job.tenant, add_job.ordering_key,
            add_job.priority, add_job.run_at, add_job.max_attempts, add_job.dedupe_key, add_job.headers)
    on conflict (queue, tenant, dedupe_key, dedupe_seat) where dedupe_key is not null do nothing
    returning j.id into id;
    created := found;
    exit when created;
    select j.id into id from @schema@.job j
     where j.queue = add_job.queue and j.tenant = add_job.tenant and j.dedupe_key = add_job.dedupe_key and j.dedupe_seat = 0;
    exit when found; -- else it has just finished: insert again
  end loop;
end $lockstep$;

-- parse_jobs reads a JSON array of jobs; the fields are enqueue's arguments.
-- The first bad one raises LS002, its place from 1 in the error's detail.
create or replace function @schema@.parse_jobs(jobs jsonb) returns table (
  ordinal integer, kind text, payload jsonb, queue text, tenant text, ordering_key text, priority numeric, run_at timestamptz,
  delay interval, max_attempts numeric, dedupe_key text, headers jsonb)
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
     '{kind,payload,queue,tenant,ordering_key,priority,run_at,delay,max_attempts,dedupe_key,headers}' limit 1;
  if found then
    perform @schema@.refuse('jobs', case jsonb_typeof(bad.job) when 'object' then
      'job has an unknown field: ' || (select string_agg(quote_literal(k), ', ') from jsonb_object_keys(bad.job) k
         where k <> all ('{kind,payload,queue,tenant,ordering_key,priority,run_at,delay,max_attempts,dedupe_key,headers}'))
      else 'job must be a JSON object' end, 'job ' || bad.n);
  end if;
  return query
    select u.n::integer, p.kind, coalesce(u.job -> 'payload', '{}'), coalesce(p.queue, 'default'), coalesce(p.tenant, ''),
           p.ordering_key, coalesce(p.priority, 0), p.run_at, p.delay, coalesce(p.max_attempts, 12), p.dedupe_key, coalesce(p.headers, '{}')
      from jsonb_array_elements(parse_jobs.jobs) with ordinality u(job, n)
     cross join lateral jsonb_to_record(u.job) p(kind text, queue text, tenant text, ordering_key text, priority numeric,
       run_at timestamptz, delay interval, max_attempts numeric, dedupe_key text, headers jsonb);
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
   cross join lateral (select @schema@.job_problem(p.queue, p.kind, p.tenant, p.ordering_key, p.dedupe_key, p.priority,
     p.run_at, p.delay, p.max_attempts, p.payload, p.headers) as problem) q
   where q.problem is not null order by p.ordinal limit 1;
  if found then
    perform @schema@.refuse(split_part(bad.problem, ' ', 1), bad.problem, 'job ' || bad.ordinal);
  end if;
end $lockstep$;

-- enqueue_many adds the jobs of a JSON array: all, or, if one is bad, none.
-- Their order is the order of the array.
--
-- Two calls with the same dedupe keys can't deadlock, since the rows go in
-- sorted by key. That is done by set; but where a job that had a key finished
-- meanwhile, its key is free now, and to insert that one alone would be to go
-- back in the order. Then all is undone and done again one by one.
create or replace function @schema@.enqueue_many(jobs jsonb)
returns table (ordinal integer, id bigint, created boolean)
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $lockstep$
#variable_conflict use_column
declare
  ids     bigint[]; -- by place in the array
  there   bigint[]; -- beside them, the jobs that are there now
  answers boolean[];
begin
  perform @schema@.check_jobs(enqueue_many.jobs);
  ids := array(select @schema@.next_id() from generate_series(1, jsonb_array_length(enqueue_many.jobs)));
  if not jsonb_path_exists(enqueue_many.jobs, '$[*].dedupe_key ? (@ != null)') then
    return query select m.ordinal, m.id, m.created from @schema@.insert_jobs(enqueue_many.jobs, ids) m;
    return;
  end if;
  begin
    select array_agg(m.id order by m.ordinal), array_agg(m.created order by m.ordinal) into there, answers
      from @schema@.insert_jobs(enqueue_many.jobs, ids) m;
    if cardinality(there) < cardinality(ids) then
      raise exception using errcode = 'LS000';
    end if;
    return query select u.n::integer, u.id, u.created from unnest(there, answers) with ordinality u(id, created, n);
  exception when sqlstate 'LS000' then
    return query
      select p.ordinal, a.id, a.created
        from (select * from @schema@.parse_jobs(enqueue_many.jobs) order by queue, tenant, dedupe_key, ordinal) p
       cross join lateral @schema@.add_job(ids[p.ordinal], p.kind, p.payload, p.queue, p.tenant, p.ordering_key, p.priority::integer,
         coalesce(p.run_at, clock_timestamp() + coalesce(p.delay, '0')), p.max_attempts::integer, p.dedupe_key, p.headers) a;
  end;
end $lockstep$;

-- insert_jobs inserts checked jobs with the ids given, sorted by dedupe key,
-- and answers for each that is new or whose key an unfinished job has. One is
-- left out if that job finished in between.
create or replace function @schema@.insert_jobs(jobs jsonb, ids bigint[])
returns table (ordinal integer, id bigint, created boolean)
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $lockstep$
#variable_conflict use_column
declare
  fresh bigint[];
begin
  with inserted as (
    insert into @schema@.job as j (id, kind, payload, queue, tenant, ordering_key, priority, run_at, max_attempts, dedupe_key, headers)
    select ids[p.ordinal], p.kind, p.payload, p.queue, p.tenant, p.ordering_key, p.priority,
           coalesce(p.run_at, clock_timestamp() + coalesce(p.delay, '0')), p.max_attempts, p.dedupe_key, p.headers
      from @schema@.parse_jobs(insert_jobs.jobs) p
     order by p.queue, p.tenant, p.dedupe_key, p.ordinal
    on conflict (queue, tenant, dedupe_key, dedupe_seat) where dedupe_key is not null do nothing
    returning j.id)
  select array_agg(i.id) into fresh from inserted i;
  return query select u.n::integer, u.id, true from unnest(ids) with ordinality u(id, n) join unnest(fresh) f(id) on f.id = u.id;
  if cardinality(fresh) = cardinality(ids) then
    return;
  end if;
  return query
    select p.ordinal, t.id, false
      from @schema@.parse_jobs(insert_jobs.jobs) p
     cross join lateral ( -- one look at the index for each: a join may read all keys there are
       select j.id from @schema@.job j
        where j.queue = p.queue and j.tenant = p.tenant and j.dedupe_key = p.dedupe_key and j.dedupe_seat = 0 limit 1) t
     where ids[p.ordinal] not in (select f.id from unnest(fresh) f(id));
end $lockstep$;
