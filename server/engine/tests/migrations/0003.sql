UPDATE account SET login_only = 1 WHERE name = 'ccuser-0';
