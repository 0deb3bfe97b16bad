//! The pool of accounts: provisioning, adding, disabling, testing.
