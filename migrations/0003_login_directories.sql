-- Accounts that work from a login directory.

-- The account's only credential is a login in its home: one session at a time uses it, and it never reviews its own
-- work. Written by the service when it looks at the account's files, so that a claim needs no look at the disk.
ALTER TABLE account ADD COLUMN login_only INTEGER NOT NULL DEFAULT 0;
