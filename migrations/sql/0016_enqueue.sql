-- replaceable
-- Enqueueing by function: what a plain INSERT does, with errors that name the
-- field, and with answers for keys that were given before.

-- job_problem says what is wrong with a job, field first, or null.
drop function if exists @schema@.job_problem(text, text, text, text, text, numeric, timestamptz, interval, numeric, jsonb, jsonb);
create or replace function @schema@.job_problem(queue text, kind text, tenant text, ordering_key text, dedupe_key text, dedupe text,
  idempotency_key text, priority numeric, run_at timestamptz, delay interval, max_attempts numeric, payload jsonb, headers jsonb) returns text
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
    when dedupe not in ('reject', 'replace', 'one_more') then format('dedupe is %L; it must be reject, replace or one_more', dedupe)
    when dedupe <> 'reject' and dedupe_key is null then format('dedupe is %s without a dedupe_key; give one', dedupe)
    when idempotency_key = '' then 'idempotency_key must not be empty; leave it out for none'
    when octet_length(idempotency_key) > 1000 then format('idempotency_key is %s bytes long; at most 1000 are allowed', octet_length(idempotency_key))
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
    when octet_length(payload::text) > 2000 and payload @? '$.**{1000}' then 'payload is nested more than 1000 levels deep'
    when octet_length(headers::text) > 2000 and headers @? '$.**{1000}' then 'headers are nested more than 1000 levels deep'
  end;
end;

-- enqueue adds a job. outcome, and created beside it, tell what became of the
-- request, and id which job it is about:
--   created   a new job (created is true for this one alone)
--   existing  an unfinished job of the same queue and tenant has the dedupe key;
--             nothing was changed
--   noted     such a job is there and has not been claimed: at the commit it
--             gets this payload and these headers, if it has not been claimed
--             by then; its place, its due time and the rest stay
--   repeated  the same request, by its idempotency key, made this job before
--
-- dedupe is the policy for a dedupe key that is taken: reject answers existing;
-- replace answers noted if the job has not been claimed yet, else existing;
-- one_more is replace, but beside a job that has been claimed it adds one more,
-- in its lane (without an ordering key, that is a lane named by the dedupe key).
-- An idempotency key given before with another request raises LS008.
drop function if exists @schema@.enqueue(text, jsonb, text, text, text, integer, timestamptz, interval, integer, text, jsonb);
drop function if exists @schema@.add_job(bigint, text, jsonb, text, text, text, integer, timestamptz, integer, text, jsonb);
create or replace function @schema@.enqueue(kind text, payload jsonb default '{}', queue text default 'default', tenant text default '',
  ordering_key text default null, priority integer default 0, run_at timestamptz default null, delay interval default null,
  max_attempts integer default null, dedupe_key text default null, dedupe text default 'reject', idempotency_key text default null,
  headers jsonb default '{}', out id bigint, out created boolean, out outcome text)
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $lockstep$
#variable_conflict use_column
declare
  problem constant text := @schema@.job_problem(enqueue.queue, enqueue.kind, enqueue.tenant, enqueue.ordering_key, enqueue.dedupe_key,
    enqueue.dedupe, enqueue.idempotency_key, enqueue.priority, enqueue.run_at, enqueue.delay, enqueue.max_attempts, enqueue.payload,
    enqueue.headers);
  job  @schema@.job;
begin
  if problem is not null then
    perform @schema@.refuse(split_part(problem, ' ', 1), problem);
  end if;
  job.id := @schema@.next_id();
  job.kind := enqueue.kind; job.payload := enqueue.payload; job.headers := enqueue.headers;
  job.queue := enqueue.queue; job.tenant := coalesce(enqueue.tenant, ''); job.ordering_key := enqueue.ordering_key;
  job.priority := coalesce(enqueue.priority, 0); job.max_attempts := coalesce(enqueue.max_attempts, 12); job.dedupe_key := enqueue.dedupe_key;
  job.run_at := coalesce(enqueue.run_at, clock_timestamp() + coalesce(enqueue.delay, '0'));
  if enqueue.idempotency_key is not null then
    id := @schema@.take_key(job.tenant, enqueue.idempotency_key, @schema@.request_digest(job.kind, job.queue, job.ordering_key,
      job.priority, job.payload, enqueue.run_at, enqueue.delay), job.id, 'argument idempotency_key');
    if id is not null then
      created := false;
      outcome := 'repeated';
      return;
    end if;
  end if;
  id := job.id;
  outcome := 'created';
  if job.dedupe_key is null then
    perform @schema@.insert_job(job, 0::smallint);
  else
    enqueue.dedupe := coalesce(enqueue.dedupe, 'reject');
    select s.id, s.outcome into id, outcome from @schema@.take_seat(job, enqueue.dedupe, 'argument kind') s;
    if outcome = 'created' then
      select g.id, g.outcome into id, outcome from @schema@.pass_gate(job.id, job.queue, job.tenant, job.dedupe_key, enqueue.dedupe, 'argument kind') g;
    end if;
    if id <> job.id and enqueue.idempotency_key is not null then
      perform @schema@.rename_job(job.tenant, enqueue.idempotency_key, id);
    end if;
  end if;
  created := outcome = 'created';
end $lockstep$;
