-- replaceable
-- Tenants: roles that see and enqueue the jobs of one tenant only, whose name
-- the session carries. docs/roles.md tells who may do what.

-- current_tenant is whose session this is: the setting lockstep.tenant, or the
-- claim "tenant" of request.jwt.claims, as public APIs over SQL set it. Null for
-- neither, and where they contradict each other: no row is of no tenant.
create or replace function @schema@.current_tenant() returns text
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $lockstep$
declare
  setting constant text := nullif(current_setting('lockstep.tenant', true), '');
  claim   constant text := nullif(nullif(current_setting('request.jwt.claims', true), '')::jsonb ->> 'tenant', '');
begin
  return case when setting <> claim then null else coalesce(setting, claim) end;
end $lockstep$;

-- require_own raises LS005 unless a job is of the session's tenant. It tests what
-- the policies test, since a function with its owner's rights is not bound by
-- them.
create or replace function @schema@.require_own(id bigint) returns void
language plpgsql stable
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $lockstep$
#variable_conflict use_column
declare
  mine constant text := @schema@.current_tenant();
begin
  if not exists (select from @schema@.job j where j.id = require_own.id and j.tenant = mine)
     and not exists (select from @schema@.dead_job d where d.id = require_own.id and d.tenant = mine)
     and not exists (select from @schema@.finished_job f where f.id = require_own.id and f.tenant = mine) then
    raise exception using errcode = 'LS005', message = format('there is no job %s', require_own.id);
  end if;
end $lockstep$;

-- tenant_jobs is a page of the session's tenant's jobs by id, live ones and those
-- that are over; the next page begins after the last id of this one. At most
-- 1,000 jobs a page.
create or replace function @schema@.tenant_jobs(after bigint default 0, max integer default 100) returns setof @schema@.jobs
language plpgsql stable
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $lockstep$
#variable_conflict use_column
begin
  if tenant_jobs.max is null or tenant_jobs.max not between 1 and 1000 then
    perform @schema@.refuse('max', format('max is %s; it must be between 1 and 1000', tenant_jobs.max));
  end if;
  return query
    select v.* from @schema@.jobs v
     where v.tenant = @schema@.current_tenant() and v.tenant <> '' and v.id > coalesce(tenant_jobs.after, 0)
     order by v.id limit tenant_jobs.max;
end $lockstep$;

-- tenant_status is job_status for a job of the session's tenant. Raises LS005 for
-- any other.
create or replace function @schema@.tenant_status(id bigint) returns setof @schema@.jobs
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $lockstep$
begin
  perform @schema@.require_own(id);
  return query select v.* from @schema@.job_status(id) v;
end $lockstep$;

-- tenant_cancel is cancel for a job of the session's tenant. Raises LS005 for any
-- other.
create or replace function @schema@.tenant_cancel(id bigint) returns text
language plpgsql
set search_path = pg_catalog, pg_temp
as $lockstep$
begin
  perform @schema@.require_read_committed();
  perform @schema@.require_own(id);
  return @schema@.cancel(id);
end $lockstep$;

-- tenant_replay is replay for a dead job of the session's tenant. Raises LS005
-- for any other.
create or replace function @schema@.tenant_replay(id bigint) returns text
language plpgsql
set search_path = pg_catalog, pg_temp
as $lockstep$
begin
  perform @schema@.require_read_committed();
  perform @schema@.require_own(id);
  return @schema@.replay(id);
end $lockstep$;

-- tenant_discard is discard for a dead job of the session's tenant. Raises LS005
-- for any other.
create or replace function @schema@.tenant_discard(id bigint) returns text
language plpgsql
set search_path = pg_catalog, pg_temp
as $lockstep$
begin
  perform @schema@.require_read_committed();
  perform @schema@.require_own(id);
  return @schema@.discard(id);
end $lockstep$;
