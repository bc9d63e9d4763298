-- replaceable
-- Pauses: what they cover, and how they begin and end.
--
-- A paused queue or kind is left out when jobs are claimed, and its jobs stay
-- where they are. Jobs of a paused tenant or ordering key stand among the
-- others in the ready line: a claim that meets one parks it (stage b, hold p),
-- so that it is met once. A parked head is still its lane's head. Nobody else
-- parks: what enters the ready line under a pause runs as little as what stood
-- there, and whoever enqueues or finishes need not look at pauses.
--
-- A ready job under a pause is therefore in order, and a parked one without a
-- pause is not. So who parks holds the tenant's pause lock, shared, until its
-- transaction ends, and who resumes holds it exclusively: a resume sees all that
-- was parked before it, and nobody parks for a pause that is going. What is left
-- by hand, or by a resume that did not get to its end, unpark() returns.

-- pause_lock: shared by who parks jobs of a tenant ('': of none), exclusive for
-- who resumes them.
create or replace function @schema@.pause_lock(tenant text) returns bigint
language sql immutable parallel safe
return @schema@.lock_number('pause', '', tenant, '');

-- pause_scope checks what is to be paused or resumed, and names it: a queue; a
-- kind, everywhere or in a queue; a tenant, everywhere or in a queue; or an
-- ordering key of a queue and a tenant (none: ''). Raises LS002 for anything else.
create or replace function @schema@.pause_scope(queue text, kind text, tenant text, ordering_key text) returns @schema@.pause
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $lockstep$
declare
  s @schema@.pause;
begin
  if queue = '' or octet_length(queue) > 200 then
    perform @schema@.refuse('queue', 'queue must be 1 to 200 bytes long; leave it out for every queue');
  elsif kind = '' or octet_length(kind) > 200 then
    perform @schema@.refuse('kind', 'kind must be 1 to 200 bytes long');
  elsif octet_length(tenant) > 200 then
    perform @schema@.refuse('tenant', 'tenant must be at most 200 bytes long');
  elsif ordering_key = '' or octet_length(ordering_key) > 1000 then
    perform @schema@.refuse('ordering_key', 'ordering_key must be 1 to 1000 bytes long');
  elsif kind is not null and (tenant is not null or ordering_key is not null) then
    perform @schema@.refuse('kind', 'kind is given together with a tenant or an ordering_key; give one of them');
  elsif ordering_key is not null and queue is null then
    perform @schema@.refuse('queue', 'queue must be given with an ordering_key');
  elsif ordering_key is null and tenant = '' then
    perform @schema@.refuse('tenant', 'tenant must not be empty; the jobs without a tenant can be paused by queue, kind or key');
  elsif num_nonnulls(queue, kind, tenant, ordering_key) = 0 then
    perform @schema@.refuse('queue', 'one of queue, kind, tenant and ordering_key must be given');
  end if;
  s.scope := case when kind is not null then 'kind' when ordering_key is not null then 'key'
                  when tenant is not null then 'tenant' else 'queue' end;
  s.queue := coalesce(queue, ''); s.kind := coalesce(kind, '');
  s.tenant := coalesce(tenant, ''); s.ordering_key := coalesce(ordering_key, '');
  return s;
end $lockstep$;

-- pause stops jobs from being started: of a queue; of a kind, in one queue or
-- everywhere; of a tenant, in one queue or everywhere; of an ordering key (of a
-- queue and, unless it is of none, a tenant). From its commit on no claim takes
-- them, and a second later no handler begins; what runs, runs on. paused |
-- already (the pause that stands keeps its reason, author and time).
create or replace function @schema@.pause(queue text default null, kind text default null, tenant text default null,
  ordering_key text default null, reason text default '', paused_by text default session_user) returns text
language plpgsql
set search_path = pg_catalog, pg_temp
as $lockstep$
declare
  s constant @schema@.pause := @schema@.pause_scope(queue, kind, tenant, ordering_key);
begin
  if octet_length(reason) > 2000 then
    perform @schema@.refuse('reason', format('reason is %s bytes long; at most 2000 are allowed', octet_length(reason)));
  elsif octet_length(paused_by) > 200 then
    perform @schema@.refuse('paused_by', format('paused_by is %s bytes long; at most 200 are allowed', octet_length(paused_by)));
  end if;
  insert into @schema@.pause (scope, queue, kind, tenant, ordering_key, reason, paused_by)
  values (s.scope, s.queue, s.kind, s.tenant, s.ordering_key, coalesce(pause.reason, ''), coalesce(pause.paused_by, ''))
  on conflict do nothing;
  if not found then
    return 'already';
  end if;
  perform @schema@.signal('p', '', 0);
  return 'paused';
end $lockstep$;

-- resume ends a pause: exactly that one, so what another pause covers stays
-- paused. state is resumed | not paused | busy (jobs are being parked, or
-- another resume is at it: try again). Jobs that were parked return to the end of
-- the ready line, up to 1,000 a call: returned counts them, and more tells that
-- some are left. Dispatchers return those; a second call does too.
create or replace function @schema@.resume(queue text default null, kind text default null, tenant text default null,
  ordering_key text default null, out state text, out returned integer, out more boolean)
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set lock_timeout = '2s'
as $lockstep$
#variable_conflict use_column
declare
  s constant @schema@.pause := @schema@.pause_scope(resume.queue, resume.kind, resume.tenant, resume.ordering_key);
begin
  perform @schema@.require_read_committed();
  returned := 0; more := false;
  begin
    if s.scope in ('tenant', 'key') then
      perform pg_advisory_xact_lock(@schema@.pause_lock(s.tenant));
    end if;
    delete from @schema@.pause p
     where p.scope = s.scope and p.queue = s.queue and p.kind = s.kind and p.tenant = s.tenant and p.ordering_key = s.ordering_key;
    state := case when found then 'resumed' else 'not paused' end;
  exception when lock_not_available then
    state := 'busy';
    return;
  end;
  if state = 'resumed' then
    perform @schema@.signal('p', '', 0);
    if s.queue <> '' then
      perform @schema@.signal('r', s.queue, 0);
    end if;
  end if;
  if s.scope in ('tenant', 'key') then
    select u.returned, u.more into returned, more
      from @schema@.unpark_some(1000, nullif(s.queue, ''), s.tenant, nullif(s.ordering_key, '')) u;
  end if;
end $lockstep$;

-- unpaused_kinds are those of the kinds that are paused neither in the queue nor
-- everywhere; none if the queue is.
create or replace function @schema@.unpaused_kinds(queue text, kinds text[]) returns text[]
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $lockstep$
begin
  if exists (select from @schema@.pause p where p.scope = 'queue' and p.queue = unpaused_kinds.queue) then
    return '{}';
  elsif not exists (select from @schema@.pause p where p.scope = 'kind') then
    return kinds;
  end if;
  return array(
    select k.kind from unnest(kinds) with ordinality k(kind, n)
     where not exists (select from @schema@.pause p where p.scope = 'kind' and p.queue = '' and p.kind = k.kind offset 0)
       and not exists (select from @schema@.pause p where p.scope = 'kind' and p.queue = unpaused_kinds.queue and p.kind = k.kind offset 0)
     order by k.n);
end $lockstep$;

-- parkable are those of the jobs whose tenant or ordering key is paused.
create or replace function @schema@.parkable(ids bigint[]) returns bigint[]
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set plan_cache_mode = force_generic_plan
as $lockstep$
begin
  return array(
    select u.id from unnest(ids) u(id)
     cross join lateral (select l.queue, l.tenant, l.ordering_key from @schema@.job l where l.id = u.id offset 0) j
     where j.tenant <> '' and (
           exists (select from @schema@.pause p where p.scope = 'tenant' and p.queue = '' and p.kind = '' and p.tenant = j.tenant offset 0)
        or exists (select from @schema@.pause p where p.scope = 'tenant' and p.queue = j.queue and p.kind = '' and p.tenant = j.tenant offset 0))
        or j.ordering_key is not null and
           exists (select from @schema@.pause p where p.scope = 'key' and p.queue = j.queue and p.kind = '' and p.tenant = j.tenant
                      and p.ordering_key = j.ordering_key offset 0));
end $lockstep$;

-- paused are those of the jobs that any pause covers: not to be started.
create or replace function @schema@.paused(ids bigint[]) returns bigint[]
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set plan_cache_mode = force_generic_plan
as $lockstep$
begin
  if not exists (select from @schema@.pause p) then
    return '{}';
  end if;
  return @schema@.parkable(ids) || array(
    select u.id from unnest(ids) u(id)
     cross join lateral (select l.queue, l.kind from @schema@.job l where l.id = u.id offset 0) j
     where exists (select from @schema@.pause p where p.scope = 'queue' and p.queue = j.queue offset 0)
        or exists (select from @schema@.pause p where p.scope = 'kind' and p.queue = '' and p.kind = j.kind offset 0)
        or exists (select from @schema@.pause p where p.scope = 'kind' and p.queue = j.queue and p.kind = j.kind offset 0));
end $lockstep$;

-- park sets aside those of the jobs, ready and with their rows locked by the
-- caller, whose tenant or key is paused, and answers how many. A job that was
-- lost by its worker has been lost once more, also where a resume that is not
-- committed keeps it from being parked: its loss is on record, and is not to be
-- found again by the next claim.
create or replace function @schema@.park(ids bigint[]) returns integer
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set plan_cache_mode = force_generic_plan
as $lockstep$
declare
  shared text[];
  n      integer;
begin
  update @schema@.job j
     set lost = j.lost + 1, worker = @schema@.nobody(), lease_until = '-infinity', held_since = '-infinity'
   where j.id = any (ids) and j.worker <> @schema@.nobody();
  shared := array(select t.tenant from (select distinct j.tenant from @schema@.job j where j.id = any (ids)) t
                   where pg_try_advisory_xact_lock_shared(@schema@.pause_lock(t.tenant)));
  -- The locks are newer than what the caller saw: look again.
  ids := @schema@.parkable(array(select j.id from @schema@.job j where j.id = any (ids) and j.tenant = any (shared)));
  update @schema@.job j
     set stage = 'b', hold = 'p', lease_until = '-infinity', held_since = '-infinity'
   where j.id = any (ids);
  get diagnostics n = row_count;
  return n;
end $lockstep$;

-- park_ahead parks what is paused among the next thousand jobs of the ready line
-- that nobody has: where one stands, there may be a million.
create or replace function @schema@.park_ahead(queue text, kinds text[]) returns integer
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set plan_cache_mode = force_generic_plan
as $lockstep$
begin
  return @schema@.park(@schema@.parkable(array(
    select r.id from unnest(kinds) k(kind)
     cross join lateral (
       select j.id, j.priority, j.turn from @schema@.job j
        where j.queue = park_ahead.queue and j.kind = k.kind and j.stage = 'r' and j.worker = @schema@.nobody() and not j.settled
        order by j.priority desc, j.turn
        limit 1000 for update skip locked) r
     order by r.priority desc, r.turn limit 1000)));
end $lockstep$;

-- unpark returns up to max parked jobs (at most 1,000) that no pause covers to
-- the end of the ready line: what a resume has left. Any dispatcher may call it at
-- any time; one at a time, another one answers that there is nothing to do.
-- more: some are left.
create or replace function @schema@.unpark(max integer default 1000, out returned integer, out more boolean)
language plpgsql
set search_path = pg_catalog, pg_temp
as $lockstep$
begin
  perform @schema@.require_read_committed();
  returned := 0; more := false;
  if pg_try_advisory_xact_lock(@schema@.own_mutex('unpark')) then
    select u.returned, u.more into returned, more from @schema@.unpark_some(least(greatest(max, 1), 1000), null, null, null) u;
  end if;
end $lockstep$;

-- unpark_some is unpark for a queue, a tenant and a key, each null for all.
create or replace function @schema@.unpark_some(max integer, queue text, tenant text, ordering_key text,
  out returned integer, out more boolean)
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set plan_cache_mode = force_generic_plan
as $lockstep$
#variable_conflict use_column
declare
  owner record; -- a queue and a tenant with parked jobs
  last  text[] := array['', ''];
  page  integer;
  left_ boolean;
begin
  returned := 0; more := false;
  loop
    select j.queue, j.tenant into owner from @schema@.job j
     where j.hold = 'p' and (j.queue, j.tenant) > (last[1], last[2]) order by j.queue, j.tenant limit 1;
    exit when not found;
    last := array[owner.queue, owner.tenant];
    continue when owner.queue <> unpark_some.queue or owner.tenant <> unpark_some.tenant;
    continue when owner.tenant <> '' and (
         exists (select from @schema@.pause p where p.scope = 'tenant' and p.queue = '' and p.kind = '' and p.tenant = owner.tenant)
      or exists (select from @schema@.pause p where p.scope = 'tenant' and p.queue = owner.queue and p.kind = '' and p.tenant = owner.tenant));
    select u.returned, u.more into page, left_
      from @schema@.unpark_of(max - returned, owner.queue, owner.tenant, unpark_some.ordering_key) u;
    returned := returned + page;
    more := more or left_;
    exit when more and returned >= max; -- else what others have is still to be told
  end loop;
end $lockstep$;

-- unpark_of returns parked jobs of a queue and a tenant, of one key or (null) of
-- all and of none, if their key is not paused.
create or replace function @schema@.unpark_of(max integer, queue text, tenant text, ordering_key text,
  out returned integer, out more boolean)
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set plan_cache_mode = force_generic_plan
as $lockstep$
#variable_conflict use_column
declare
  ids bigint[];
begin
  ids := array(
    select j.id from @schema@.job j
     where j.hold = 'p' and j.queue = unpark_of.queue and j.tenant = unpark_of.tenant and not j.settled
       and (unpark_of.ordering_key is null or j.ordering_key = unpark_of.ordering_key)
       and not exists (select from @schema@.pause p where p.scope = 'key' and p.queue = j.queue and p.kind = '' and p.tenant = j.tenant
                          and p.ordering_key = j.ordering_key offset 0)
     order by j.ordering_key, j.id limit unpark_of.max for update of j skip locked);
  returned := cardinality(ids);
  if ids <> '{}' then
    perform @schema@.make_ready(ids);
    perform @schema@.tell_ready(ids);
  end if;
  more := exists (
    select from @schema@.job j
     where j.hold = 'p' and j.queue = unpark_of.queue and j.tenant = unpark_of.tenant and not j.settled
       and (unpark_of.ordering_key is null or j.ordering_key = unpark_of.ordering_key)
       and not exists (select from @schema@.pause p where p.scope = 'key' and p.queue = j.queue and p.kind = '' and p.tenant = j.tenant
                          and p.ordering_key = j.ordering_key offset 0));
end $lockstep$;

-- pauses are the pauses that stand; null is every queue.
create or replace view @schema@.pauses as
select p.scope, nullif(p.queue, '') as queue, nullif(p.kind, '') as kind,
       case when p.scope in ('tenant', 'key') then p.tenant end as tenant, nullif(p.ordering_key, '') as ordering_key,
       p.reason, p.paused_by, p.paused_at
  from @schema@.pause p;
