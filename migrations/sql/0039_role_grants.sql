-- Which roles were given what, so that an upgrade can give them what is new.
create table @schema@.role_grant (
  role       text not null,
  part       text collate "C" not null,
  payload    boolean not null default false, -- of a reader: payloads too
  granted_at timestamptz not null default clock_timestamp(),
  primary key (role, part),
  constraint role_grant_part_known check (part in ('producer', 'worker', 'operator', 'reader', 'tenant'))
);

-- A tenant's own jobs. They cost nothing where there are no tenants.
create index job_tenant on @schema@.job (tenant, id) where tenant <> '';
create index finished_job_tenant on @schema@.finished_job (tenant, id) where tenant <> '';
create index dead_job_tenant on @schema@.dead_job (tenant, id) where tenant <> '';
