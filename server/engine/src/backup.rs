//! Backup while running, and restore.
