-- What people have paused. A row is one pause; '' stands for "every", in the
-- columns that its scope does not name: for a kind or a tenant everywhere, the
-- queue is ''.

create table @schema@.pause (
  scope        text collate "C" not null,
  queue        text collate "C" not null default '',
  kind         text collate "C" not null default '',
  tenant       text collate "C" not null default '',
  ordering_key text collate "C" not null default '',
  reason       text not null default '',
  paused_by    text not null default '',
  paused_at    timestamptz not null default clock_timestamp(),

  primary key (scope, queue, kind, tenant, ordering_key),
  constraint pause_scope_known check (
    case scope
      when 'queue'  then queue <> '' and kind = '' and tenant = '' and ordering_key = ''
      when 'kind'   then kind <> '' and tenant = '' and ordering_key = ''
      when 'tenant' then tenant <> '' and kind = '' and ordering_key = ''
      when 'key'    then queue <> '' and ordering_key <> '' and kind = ''
      else false
    end)
);
