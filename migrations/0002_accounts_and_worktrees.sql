-- Real OS users, slots, the policy of each session, and what was kept of worktrees.

-- The OS user that sessions of this account run as; none = the installation's one user (mode homes).
ALTER TABLE account ADD COLUMN os_user TEXT;
-- Author and committer of the account's commits; none = the account's name and an address that leads nowhere.
ALTER TABLE account ADD COLUMN git_name TEXT;
ALTER TABLE account ADD COLUMN git_email TEXT;

-- The slot's number, held from the claim until nothing of the session is alive.
ALTER TABLE session ADD COLUMN slot INTEGER;
CREATE UNIQUE INDEX session_one_slot ON session (slot) WHERE state <> 'ended' AND slot IS NOT NULL;
-- SHA-256 over the effective policy before the first step and after the last.
ALTER TABLE session ADD COLUMN policy_start TEXT;
ALTER TABLE session ADD COLUMN policy_end TEXT;
-- Settings of the agent's program that the worktree brings along and that were not loaded (JSON array of paths).
ALTER TABLE session ADD COLUMN planted TEXT NOT NULL DEFAULT '[]';

-- How many checkouts are made ahead; none = the installation's default.
ALTER TABLE repository ADD COLUMN pool INTEGER;

-- What was kept when a session ended or a worktree was cleared; `name` is a ref of the rescue repository.
CREATE TABLE rescue (
    id INTEGER PRIMARY KEY,
    client_id INTEGER NOT NULL REFERENCES client (id),
    repository_id INTEGER NOT NULL REFERENCES repository (id),
    objective_id INTEGER NOT NULL REFERENCES objective (id),
    session_id TEXT REFERENCES session (id),
    name TEXT NOT NULL,
    commit_sha TEXT NOT NULL,
    -- What did not fit into the snapshot (JSON array of sentences).
    left_out TEXT NOT NULL DEFAULT '[]',
    created_at INTEGER NOT NULL,
    -- Dropped from the rescue repository after its time.
    dropped_at INTEGER
);
CREATE INDEX rescue_objective ON rescue (objective_id, id);
