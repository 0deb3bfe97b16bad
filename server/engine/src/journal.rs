//! launches.jsonl: the audit's copy beside the database.
