-- The first schema. Times are milliseconds since 1970, money is millionths of a dollar, every row has its client.

-- A client is a tenant; its event numbers count for themselves, so that one client cannot see another's pace.
CREATE TABLE client (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    seq INTEGER NOT NULL DEFAULT 0,
    created_at INTEGER NOT NULL
);
INSERT INTO client (id, name, created_at) VALUES (1, 'default', 0);

CREATE TABLE app_user (
    id INTEGER PRIMARY KEY,
    client_id INTEGER NOT NULL REFERENCES client (id),
    name TEXT NOT NULL UNIQUE,
    password_hash TEXT NOT NULL,
    access TEXT NOT NULL,
    created_at INTEGER NOT NULL
);

-- Browser logins. `data` is the session layer's own record.
CREATE TABLE login_session (
    id TEXT PRIMARY KEY,
    data TEXT NOT NULL,
    expires_at INTEGER NOT NULL
);

-- API tokens are kept as hashes only; the prefix lets people tell them apart.
CREATE TABLE api_token (
    hash TEXT PRIMARY KEY,
    client_id INTEGER NOT NULL REFERENCES client (id),
    prefix TEXT NOT NULL,
    actor TEXT NOT NULL,
    access TEXT NOT NULL,
    created_by TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    revoked_at INTEGER
);

CREATE TABLE setting (
    name TEXT PRIMARY KEY,
    value TEXT NOT NULL
);

-- One row that every claim updates first: a row lock where the database has them, harmless where it has not.
CREATE TABLE gate (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    claims INTEGER NOT NULL
);
INSERT INTO gate (id, claims) VALUES (1, 0);

CREATE TABLE repository (
    id INTEGER PRIMARY KEY,
    client_id INTEGER NOT NULL REFERENCES client (id),
    name TEXT NOT NULL,
    source TEXT NOT NULL,
    base TEXT NOT NULL,
    setup TEXT,
    verify TEXT,
    integrate TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    UNIQUE (client_id, name)
);

CREATE TABLE account (
    name TEXT PRIMARY KEY,
    session_limit INTEGER NOT NULL,
    state TEXT NOT NULL,
    reason TEXT NOT NULL DEFAULT '',
    until_at INTEGER
);

CREATE TABLE objective (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    client_id INTEGER NOT NULL REFERENCES client (id),
    repository_id INTEGER NOT NULL REFERENCES repository (id),
    parent_id INTEGER REFERENCES objective (id),
    title TEXT NOT NULL,
    goal TEXT NOT NULL,
    brief TEXT NOT NULL,
    kind TEXT NOT NULL,
    -- The review that applies: the type's, raised by the objective.
    gate TEXT NOT NULL,
    status TEXT NOT NULL,
    sub_state TEXT,
    attention TEXT,
    attention_note TEXT NOT NULL DEFAULT '',
    came_from TEXT,
    hold INTEGER NOT NULL DEFAULT 0,
    delegate INTEGER NOT NULL DEFAULT 0,
    priority INTEGER NOT NULL,
    -- Order among equals; `sort_key` is what lanes and claims sort by: priority and position in one number,
    -- negative for what a person wants next.
    position INTEGER NOT NULL,
    sort_key INTEGER NOT NULL,
    criteria TEXT NOT NULL,
    criteria_count INTEGER NOT NULL,
    locked INTEGER NOT NULL DEFAULT 0,
    rounds INTEGER NOT NULL DEFAULT 0,
    rounds_total INTEGER NOT NULL DEFAULT 0,
    run_failures INTEGER NOT NULL DEFAULT 0,
    start_failures INTEGER NOT NULL DEFAULT 0,
    review_errors INTEGER NOT NULL DEFAULT 0,
    plan_failures INTEGER NOT NULL DEFAULT 0,
    max_rounds INTEGER NOT NULL,
    base TEXT NOT NULL,
    base_commit TEXT,
    head_commit TEXT,
    agent TEXT NOT NULL,
    script TEXT,
    labels TEXT NOT NULL,
    creator TEXT NOT NULL,
    -- The live session, if any. A unique index on the session table is the last defence against two.
    session_id TEXT,
    worker_account TEXT,
    worktree_ready INTEGER NOT NULL DEFAULT 0,
    -- Not claimed before this time: back-off after failed starts, cool-downs.
    not_before INTEGER NOT NULL DEFAULT 0,
    waiting_since INTEGER,
    findings TEXT NOT NULL DEFAULT '[]',
    passed INTEGER NOT NULL DEFAULT 0,
    false_passes INTEGER NOT NULL DEFAULT 0,
    -- One letter a round: F failed, P passed.
    round_marks TEXT NOT NULL DEFAULT '',
    criteria_met INTEGER NOT NULL DEFAULT 0,
    criteria_failed INTEGER NOT NULL DEFAULT 0,
    ai_review_verdict TEXT,
    last_session_summary TEXT NOT NULL DEFAULT '',
    cost_usd_micros INTEGER NOT NULL DEFAULT 0,
    integrated TEXT,
    version INTEGER NOT NULL DEFAULT 1,
    since INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
);
-- Lanes and claims read in this order.
CREATE INDEX objective_lane ON objective (client_id, status, sort_key, id);
CREATE INDEX objective_recent ON objective (client_id, status, since);
CREATE INDEX objective_claim ON objective (status, sort_key, id) WHERE session_id IS NULL;
CREATE INDEX objective_parent ON objective (parent_id) WHERE parent_id IS NOT NULL;
CREATE INDEX objective_repository ON objective (repository_id);

CREATE TABLE dependency (
    objective_id INTEGER NOT NULL REFERENCES objective (id),
    needs_id INTEGER NOT NULL REFERENCES objective (id),
    PRIMARY KEY (objective_id, needs_id)
);

CREATE TABLE session (
    id TEXT PRIMARY KEY,
    client_id INTEGER NOT NULL REFERENCES client (id),
    objective_id INTEGER NOT NULL REFERENCES objective (id),
    role TEXT NOT NULL,
    state TEXT NOT NULL,
    outcome TEXT,
    detail TEXT NOT NULL DEFAULT '',
    account TEXT NOT NULL REFERENCES account (name),
    agent TEXT NOT NULL,
    actor TEXT NOT NULL,
    round INTEGER NOT NULL,
    -- What a reviewer grades, and the secret that its verdict must carry.
    commit_sha TEXT,
    nonce TEXT,
    token_hash TEXT,
    -- A session that is still starting after this never ran.
    deadline INTEGER NOT NULL,
    wall_clock_s INTEGER NOT NULL,
    pid INTEGER,
    proof TEXT,
    blocked_reason TEXT,
    turns INTEGER NOT NULL DEFAULT 0,
    cost_usd_micros INTEGER NOT NULL DEFAULT 0,
    denials INTEGER NOT NULL DEFAULT 0,
    activity TEXT NOT NULL DEFAULT '',
    artifact TEXT,
    notes TEXT,
    started_at INTEGER NOT NULL,
    ended_at INTEGER
);
CREATE UNIQUE INDEX session_one_live ON session (objective_id) WHERE state <> 'ended';
CREATE INDEX session_live ON session (state, account) WHERE state <> 'ended';
CREATE INDEX session_objective ON session (objective_id, started_at);
CREATE UNIQUE INDEX session_token ON session (token_hash) WHERE token_hash IS NOT NULL;

CREATE TABLE review (
    session_id TEXT PRIMARY KEY REFERENCES session (id),
    client_id INTEGER NOT NULL,
    objective_id INTEGER NOT NULL REFERENCES objective (id),
    round INTEGER NOT NULL,
    commit_sha TEXT NOT NULL,
    verdict TEXT,
    floor TEXT,
    error TEXT,
    visible TEXT NOT NULL DEFAULT '[]',
    at INTEGER NOT NULL
);
CREATE INDEX review_objective ON review (objective_id, at);

CREATE TABLE event (
    client_id INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    at INTEGER NOT NULL,
    objective_id INTEGER NOT NULL,
    kind TEXT NOT NULL,
    from_status TEXT,
    to_status TEXT,
    trigger_name TEXT NOT NULL,
    actor TEXT NOT NULL,
    reason TEXT NOT NULL,
    session_id TEXT,
    PRIMARY KEY (client_id, seq)
);
CREATE INDEX event_objective ON event (objective_id, seq);

-- What must follow a transition; a task works it off and marks it, so that a crash loses nothing.
CREATE TABLE outbox (
    id INTEGER PRIMARY KEY,
    client_id INTEGER NOT NULL,
    kind TEXT NOT NULL,
    objective_id INTEGER NOT NULL,
    payload TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    done_at INTEGER
);
CREATE INDEX outbox_open ON outbox (id) WHERE done_at IS NULL;

CREATE TABLE audit (
    id INTEGER PRIMARY KEY,
    client_id INTEGER NOT NULL,
    at INTEGER NOT NULL,
    actor TEXT NOT NULL,
    action TEXT NOT NULL,
    target TEXT NOT NULL,
    detail TEXT NOT NULL
);

CREATE TABLE idempotency (
    client_id INTEGER NOT NULL,
    actor TEXT NOT NULL,
    key TEXT NOT NULL,
    objective_id INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (client_id, actor, key)
);

-- A person's message is never lost: it carries its own delivery mark.
CREATE TABLE message (
    id INTEGER PRIMARY KEY,
    client_id INTEGER NOT NULL,
    objective_id INTEGER NOT NULL REFERENCES objective (id),
    at INTEGER NOT NULL,
    actor TEXT NOT NULL,
    text TEXT NOT NULL,
    delivered_session TEXT
);
CREATE INDEX message_objective ON message (objective_id, id);

-- Which session made which commit, filled when results are fetched; trailers can be forged, this cannot.
CREATE TABLE session_commit (
    session_id TEXT NOT NULL REFERENCES session (id),
    sha TEXT NOT NULL,
    objective_id INTEGER NOT NULL,
    PRIMARY KEY (session_id, sha)
);
