-- replaceable
-- Idempotency keys: a request that is repeated makes its job once.

-- How long an idempotency key is kept, from its first request on.
do $lockstep$ begin
  if to_regprocedure($name$@schema@.idempotency_retention()$name$) is null then
    create function @schema@.idempotency_retention() returns interval
    language sql stable parallel safe
    return '7 days'::interval;
  end if;
end $lockstep$;

-- request_digest is what two requests must have in common to be the same one:
-- kind, queue, ordering key, priority, payload, and the due time or the delay
-- as given. Spacing and key order in the payload do not count, as jsonb does
-- not keep them; 1.0 and 1 are different texts, and so different payloads.
create or replace function @schema@.request_digest(kind text, queue text, ordering_key text, priority integer, payload jsonb,
  run_at timestamptz, delay interval) returns bytea
language sql stable
begin atomic
  select sha256(convert_to(jsonb_build_array(kind, queue, ordering_key, priority, extract(epoch from run_at),
    coalesce(extract(epoch from delay), 0)::numeric(20, 6), payload)::text, 'UTF8'));
end;

-- take_key takes an idempotency key for a request that is to make a job, or
-- answers with the job that the same request has made before. Raises LS008 for
-- another request. It waits while another transaction has the key.
create or replace function @schema@.take_key(tenant text, key text, digest bytea, job_id bigint, place text) returns bigint
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $lockstep$
#variable_conflict use_column
declare
  known @schema@.idempotency;
begin
  loop
    insert into @schema@.idempotency (tenant, key, digest, job_id)
    values (take_key.tenant, take_key.key, take_key.digest, take_key.job_id) on conflict do nothing;
    exit when found;
    select i.* into known from @schema@.idempotency i where i.tenant = take_key.tenant and i.key = take_key.key;
    continue when not found; -- its time was over
    if known.created_at >= clock_timestamp() - @schema@.idempotency_retention() then
      if known.digest <> take_key.digest then
        perform @schema@.raise_key_reused(take_key.key, known.job_id, take_key.place);
      end if;
      return known.job_id;
    end if;
    update @schema@.idempotency i
       set digest = take_key.digest, job_id = take_key.job_id, created_at = clock_timestamp()
     where i.tenant = take_key.tenant and i.key = take_key.key and i.created_at = known.created_at;
    exit when found;
  end loop;
  return null;
end $lockstep$;

create or replace function @schema@.raise_key_reused(key text, job_id bigint, place text) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $lockstep$
begin
  raise exception using errcode = 'LS008', column = 'idempotency_key', detail = place,
    message = format('idempotency_key %L was given before with another request, which made job %s', key, job_id),
    hint = 'a new request needs a key of its own';
end $lockstep$;

-- rename_job says that a key's request found the job of its dedupe key, which
-- a repetition of the request is to be answered with.
create or replace function @schema@.rename_job(tenant text, key text, job_id bigint) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $lockstep$
#variable_conflict use_column
begin
  update @schema@.idempotency i set job_id = rename_job.job_id where i.tenant = rename_job.tenant and i.key = rename_job.key;
end $lockstep$;
