//! Rows that no door shows, read beside the running server.
#![allow(dead_code, reason = "each test file uses a part of it")]

use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};

/// A session as the database has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SessionRow {
    pub(crate) id: String,
    pub(crate) objective: i64,
    pub(crate) state: String,
    pub(crate) slot: Option<i64>,
    pub(crate) account: String,
    pub(crate) started_at: i64,
}

fn open(data: &Path) -> Connection {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection =
        Connection::open_with_flags(data.join("db/opkit.db"), flags).expect("the database opens");
    connection.busy_timeout(Duration::from_secs(10)).expect("a time limit");
    connection
}

/// All sessions, the oldest first.
pub(crate) fn sessions(data: &Path) -> Vec<SessionRow> {
    let connection = open(data);
    let mut all = connection
        .prepare(
            "SELECT id, objective_id, state, slot, account, started_at FROM session ORDER BY started_at, id",
        )
        .expect("a statement");
    let rows = all.query_map([], |row| {
        Ok(SessionRow {
            id: row.get(0)?,
            objective: row.get(1)?,
            state: row.get(2)?,
            slot: row.get(3)?,
            account: row.get(4)?,
            started_at: row.get(5)?,
        })
    });
    rows.expect("rows").map(|row| row.expect("a row")).collect()
}

/// Sessions that have not ended.
pub(crate) fn live(data: &Path) -> Vec<SessionRow> {
    sessions(data).into_iter().filter(|row| row.state != "ended").collect()
}

/// Numbers of all events in order.
pub(crate) fn event_numbers(data: &Path) -> Vec<i64> {
    let connection = open(data);
    let mut all = connection.prepare("SELECT seq FROM event ORDER BY seq").expect("a statement");
    let rows = all.query_map([], |row| row.get(0));
    rows.expect("rows").map(|row| row.expect("a number")).collect()
}

/// Failed runs, starts, reviews and plans of an objective: what the bounds count.
pub(crate) fn failures(data: &Path, objective: i64) -> [i64; 4] {
    open(data)
        .query_row(
            "SELECT run_failures, start_failures, review_errors, plan_failures FROM objective WHERE id = $1",
            [objective],
            |row| Ok([row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?]),
        )
        .expect("an objective")
}

/// The next number that the client's events would get, less one.
pub(crate) fn last_event(data: &Path) -> i64 {
    open(data).query_row("SELECT MAX(seq) FROM client", [], |row| row.get(0)).expect("a number")
}

/// What SQLite itself says of the file.
pub(crate) fn integrity(data: &Path) -> String {
    open(data).query_row("PRAGMA integrity_check", [], |row| row.get(0)).expect("an answer")
}
