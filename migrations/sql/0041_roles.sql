-- replaceable
-- Roles: what a producer, a worker, an operator, a reader and a tenant may do.
-- Nothing is PUBLIC's. What changes state beyond an INSERT runs with the rights
-- of the schema's owner, with search_path pinned; enqueueing runs with the
-- caller's, so that policies hold.

-- part_functions are the functions that a part needs, by name. A function in
-- none of the parts is the owner's and other functions' alone.
create or replace function @schema@.part_functions(part text) returns text[]
language sql immutable
return case part
  when 'everyone' then '{lock_number,entry_lock,queue_lock,run_lock,mutex_lock,channel,queue_hash,setting,nobody,payload_limit,text_limit,entry_timeout,retention,idempotency_retention,
    schema_version,require_read_committed,refuse,state_of,current_tenant}'::text[]
  when 'producer' then '{enqueue,enqueue_many,insert_job,take_seat,add_jobs,insert_jobs,seat_jobs,parse_jobs,check_jobs,
    job_problem,refuse_value,request_digest,raise_key_reused,next_turn,next_id}'::text[]
  when 'keys' then '{key_holder,meet,enter_gate,enter_gates,pass_gate,take_key,take_keys,rename_job}'::text[]
  when 'worker' then '{register,deregister,claim,extend,finish,complete,fail,snooze,release,assert_claim,hold_lane,claim_state,end_stuck,run_holder,
    due,sweep,upkeep,unpark,count_jobs,paused}'::text[]
  when 'operator' then '{cancel,retry_now,reschedule,set_priority,pause,resume,replay,discard,set_queue,set_limits,unblock_lane,skip_head,start_replay,cancel_replay,purge_dead,
    after_failover,due,sweep,upkeep,unpark}'::text[]
  when 'reader' then '{list_dead,list_blocked,replay_left,waiting_for,count_jobs,job_outline}'::text[]
  when 'payload' then '{job_status,show_dead}'::text[]
  when 'tenant' then '{next_turn,tenant_jobs,tenant_status,tenant_cancel,tenant_replay,tenant_discard}'::text[]
end;

-- caller_rights tells of a function whether it runs with its caller's rights:
-- enqueueing, for policies; end_stuck, since PostgreSQL refuses to end a
-- session with another's; and what is called by these.
create or replace function @schema@.caller_rights(name text) returns boolean
language sql immutable
return name = any (@schema@.part_functions('producer')) or name in ('end_stuck', 'run_holder')
    or name = any (@schema@.part_functions('everyone')) and name <> 'schema_version';

-- secure takes from PUBLIC what new functions give it, has entry points run with
-- the owner's rights, and gives the roles on record what their parts need. Every
-- upgrade ends with it.
create or replace function @schema@.secure() returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $lockstep$
declare
  entry record;
begin
  for entry in
    select p.oid::regprocedure as function, p.prosecdef,
           not @schema@.caller_rights(p.proname)
             and exists (select from unnest('{keys,worker,operator,reader,payload,tenant}'::text[]) u(part) where p.proname = any (@schema@.part_functions(u.part))) as wanted
      from pg_proc p join pg_namespace n on n.oid = p.pronamespace where n.nspname = @schema_literal@ and p.prokind = 'f'
  loop
    execute format('revoke execute on function %s from public', entry.function);
    if entry.wanted and not entry.prosecdef then
      execute format('alter function %s security definer', entry.function);
    end if;
  end loop;
  delete from @schema@.role_grant g where not exists (select from pg_roles r where r.rolname = g.role);
  perform @schema@.give(g.role, g.part, g.payload) from @schema@.role_grant g;
end $lockstep$;

-- give grants a role what one part needs.
create or replace function @schema@.give(role text, part text, payload boolean) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $lockstep$
declare
  parts constant text[] := '{everyone}'::text[] || part
    || case part when 'producer' then '{keys}' when 'operator' then '{reader,payload}' when 'reader' then case when payload then '{payload}' else '{}' end else '{}' end::text[];
  given record;
begin
  execute format('grant usage on schema %I to %I', @schema_literal@, role);
  for given in
    select p.oid::regprocedure as function from pg_proc p join pg_namespace n on n.oid = p.pronamespace
     where n.nspname = @schema_literal@ and exists (select from unnest(parts) u(part) where p.proname = any (@schema@.part_functions(u.part)))
  loop
    execute format('grant execute on function %s to %I', given.function, role);
  end loop;
  if part in ('producer', 'tenant') then
    -- A tenant can't name ids: it could take one that another's bulk call has drawn
    -- and not inserted yet, or that of another's dead letter.
    execute format('grant insert (' || case part when 'producer' then 'id, ' else '' end || 'kind, payload, queue, tenant, ordering_key, priority, run_at, max_attempts, dedupe_key, dedupe_seat, headers),
      select (id, queue, tenant, dedupe_key, dedupe_seat, fence, settled) on %I.job to %I', @schema_literal@, role);
    execute format('grant usage on sequence %I.turn, %I.job_id_seq to %I', @schema_literal@, @schema_literal@, role);
  elsif part = 'worker' then -- for end_stuck
    execute format('grant select (id, fence, queue, tenant, ordering_key, held_since, lease, settled) on %I.job to %I', @schema_literal@, role);
  elsif 'reader' = any (parts) then
    perform @schema@.give_views(role, 'payload' = any (parts));
  end if;
end $lockstep$;

-- give_views lets a role read the views: all columns, or those that hold nothing
-- of what a job carries and comes to.
create or replace function @schema@.give_views(role text, payload boolean) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $lockstep$
declare
  seen record;
begin
  for seen in
    select c.oid::regclass as view, string_agg(quote_ident(a.attname), ', ') as columns
      from pg_class c join pg_namespace n on n.oid = c.relnamespace
      join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
     where n.nspname = @schema_literal@ and c.relkind = 'v'
       and (payload or not (a.attname like '%payload%' or a.attname in ('headers', 'result')))
     group by c.oid
  loop
    execute format('grant select (%s) on %s to %I', seen.columns, seen.view, role);
  end loop;
end $lockstep$;

-- role_policies are the policies of the job table that the grants made for a
-- role. Their names say nothing of it: a dump carries a policy to roles of other
-- numbers, and one that a revoke does not find would outlive it.
create or replace function @schema@.role_policies(role oid) returns text[]
language sql stable
begin atomic
  select coalesce(array_agg(p.polname::text), '{}') from pg_catalog.pg_policy p
   where p.polrelid = $name$@schema@.job$name$::regclass and p.polroles = array[role] and p.polname ~ '^role_[0-9a-f-]+$';
end;

-- grant_part gives a role a part and notes it. The policies of the job table bind
-- nobody before the first tenant's role; from then on they let the others pass.
-- They need a moment alone with the table, and wait no longer than 5 s for it.
create or replace function @schema@.grant_part(role text, part text, payload boolean) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
set lock_timeout = '5 s'
as $lockstep$
#variable_conflict use_column
declare
  id  constant oid := (select r.oid from pg_roles r where r.rolname = grant_part.role);
begin
  if id is null then
    perform @schema@.refuse('role', format('there is no role %L', grant_part.role));
  elsif exists (
      select from @schema@.role_grant g join pg_roles r on r.rolname = g.role
       where (g.part = 'tenant') <> (grant_part.part = 'tenant')
         and case g.part when 'tenant' then pg_has_role(r.oid, id, 'usage') else pg_has_role(id, r.oid, 'usage') end) then
    perform @schema@.refuse('role', format('role %L can''t be both a tenant''s and another part''s, nor a tenant''s role have another part''s: it would see every tenant''s jobs', grant_part.role));
  elsif grant_part.part = 'tenant' and (select r.rolsuper or r.rolbypassrls from pg_roles r where r.oid = id) then
    perform @schema@.refuse('role', format('role %L can''t be a tenant''s: row-level security does not bind it', grant_part.role));
  end if;
  insert into @schema@.role_grant as g (role, part, payload) values (grant_part.role, grant_part.part, grant_part.payload)
  on conflict (role, part) do update set payload = excluded.payload;
  if grant_part.part in ('producer', 'worker', 'tenant')
     and @schema@.role_policies(id) = '{}' then
    execute format('create policy %I on %I.job to %I %s', 'role_' || gen_random_uuid(), @schema_literal@, grant_part.role,
      case grant_part.part when 'tenant'
        then format('using (tenant = (select %1$I.current_tenant())) with check (tenant = (select %1$I.current_tenant()))', @schema_literal@)
        else 'using (true) with check (true)' end);
  end if;
  if grant_part.part = 'tenant' and not (select c.relrowsecurity from pg_class c where c.oid = $name$@schema@.job$name$::regclass) then
    execute format('alter table %I.job enable row level security', @schema_literal@);
  end if;
  if grant_part.part = 'reader' then -- what was given before may have been more
    perform @schema@.take_views(grant_part.role);
    perform @schema@.give(g.role, g.part, g.payload) from @schema@.role_grant g where g.role = grant_part.role;
  else
    perform @schema@.give(grant_part.role, grant_part.part, grant_part.payload);
  end if;
end $lockstep$;

-- take_views takes from a role what give_views gives, and the functions that
-- show payloads.
create or replace function @schema@.take_views(role text) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $lockstep$
declare
  taken record;
begin
  for taken in select c.oid::regclass as view from pg_class c join pg_namespace n on n.oid = c.relnamespace
                where n.nspname = @schema_literal@ and c.relkind = 'v' loop
    execute format('revoke all on %s from %I', taken.view, role);
  end loop;
  for taken in select p.oid::regprocedure as function from pg_proc p join pg_namespace n on n.oid = p.pronamespace
                where n.nspname = @schema_literal@ and p.proname = any (@schema@.part_functions('payload')) loop
    execute format('revoke execute on function %s from %I', taken.function, role);
  end loop;
end $lockstep$;

-- grant_producer lets a role enqueue, by the functions and by a plain INSERT. It
-- can't read payloads. This and the other grants are for the schema's owner.
create or replace function @schema@.grant_producer(role text) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $lockstep$
begin
  perform @schema@.grant_part(role, 'producer', false);
end $lockstep$;

-- grant_worker lets a role claim jobs and report on them: a dispatcher's. If its
-- handlers enqueue, it needs grant_producer too.
create or replace function @schema@.grant_worker(role text) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $lockstep$
begin
  perform @schema@.grant_part(role, 'worker', false);
end $lockstep$;

-- grant_operator lets a role do what people do: cancel, replay, discard,
-- unblock, set policies and limits; and read everything.
create or replace function @schema@.grant_operator(role text) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $lockstep$
begin
  perform @schema@.grant_part(role, 'operator', false);
end $lockstep$;

-- grant_reader lets a role read the views: without what jobs carry (payload,
-- headers, result) unless payload is true.
create or replace function @schema@.grant_reader(role text, payload boolean default false) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $lockstep$
begin
  perform @schema@.grant_part(role, 'reader', coalesce(payload, false));
end $lockstep$;

-- grant_tenant lets a role enqueue jobs of the session's tenant (current_tenant),
-- by a plain INSERT, which the policies hold for, and see, cancel, replay and discard those, by the functions tenant_*. It turns
-- row-level security on for the job table: producers and workers that were given
-- their rights by hand need grant_producer and grant_worker then.
create or replace function @schema@.grant_tenant(role text) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $lockstep$
begin
  perform @schema@.grant_part(role, 'tenant', false);
end $lockstep$;

-- revoke_role takes all from a role that the grants gave it.
create or replace function @schema@.revoke_role(role text) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
set lock_timeout = '5 s'
as $lockstep$
#variable_conflict use_column
declare
  id     constant oid := (select r.oid from pg_roles r where r.rolname = revoke_role.role);
  policy text;
begin
  if id is null then
    perform @schema@.refuse('role', format('there is no role %L', revoke_role.role));
  end if;
  foreach policy in array @schema@.role_policies(id) loop
    execute format('drop policy %I on %I.job', policy, @schema_literal@);
  end loop;
  execute format('revoke all on all functions in schema %1$I from %2$I; revoke all on all tables in schema %1$I from %2$I;
    revoke all on all sequences in schema %1$I from %2$I; revoke all on schema %1$I from %2$I', @schema_literal@, revoke_role.role);
  delete from @schema@.role_grant g where g.role = revoke_role.role;
end $lockstep$;
