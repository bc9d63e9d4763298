-- home: which database of which cluster this schema works in. No row until the
-- first worker comes; a copy of the database brings the row along, and shows by
-- it that it is one.
create table @schema@.home (
  here              boolean primary key default true,
  system_identifier bigint, -- null: the server does not tell it
  database_oid      oid not null,
  database_name     text collate "C" not null,
  recorded_at       timestamptz not null default clock_timestamp(),
  constraint home_one_row check (here)
);
