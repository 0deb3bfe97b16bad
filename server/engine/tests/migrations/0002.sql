UPDATE account SET os_user = 'ccuser-0', git_name = 'One', git_email = 'one@example.invalid' WHERE name = 'ccuser-0';
UPDATE session SET slot = 0, policy_start = 'aa' WHERE id = 'a';
UPDATE repository SET pool = 2 WHERE id = 1;
INSERT INTO rescue (client_id, repository_id, objective_id, session_id, name, commit_sha, created_at)
VALUES (1, 1, 1, 'a', 'refs/rescue/1/a', 'abc', 1);
