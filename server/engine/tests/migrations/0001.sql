INSERT INTO repository (id, client_id, name, source, base, integrate, created_at)
VALUES (1, 1, 'app', '/srv/app', 'main', 'keep', 1);
INSERT INTO account (name, session_limit, state) VALUES ('ccuser-0', 5, 'available');
INSERT INTO objective (id, client_id, repository_id, title, goal, brief, kind, gate, status, priority, position,
    sort_key, criteria, criteria_count, max_rounds, base, agent, labels, creator, since, created_at, updated_at)
VALUES (1, 1, 1, 'One', '', 'Brief', 'bug', 'ai', 'working', 2, 65536, 65536, '[]', 0, 3, 'main', 'demo', '[]',
    'anna', 1, 1, 1),
    (2, 1, 1, 'Two', '', '', 'task', 'none', 'done', 0, 131072, 131072, '[]', 0, 3, 'main', 'demo', '[]', 'anna', 1,
    1, 1);
INSERT INTO dependency (objective_id, needs_id) VALUES (1, 2);
INSERT INTO session (id, client_id, objective_id, role, state, account, agent, actor, round, deadline,
    wall_clock_s, started_at)
VALUES ('a', 1, 1, 'work', 'running', 'ccuser-0', 'demo', 'dispatcher', 1, 1, 14400, 1);
UPDATE client SET seq = 2 WHERE id = 1;
INSERT INTO event (client_id, seq, at, objective_id, kind, trigger_name, actor, reason)
VALUES (1, 1, 1, 1, 'created', 'created', 'anna', ''), (1, 2, 1, 2, 'created', 'created', 'anna', '');
INSERT INTO message (client_id, objective_id, at, actor, text) VALUES (1, 1, 1, 'anna', 'Hello');
