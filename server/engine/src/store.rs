//! All SQL: one writer connection with immediate transactions, a pool of readers, one file per table.

pub(crate) mod accounts;
pub(crate) mod backup;
#[cfg(feature = "bench")]
mod bench;
pub(crate) mod cards;
pub(crate) mod claim;
mod clock;
pub(crate) mod events;
pub(crate) mod objectives;
pub(crate) mod order;
pub(crate) mod people;
pub(crate) mod repositories;
pub(crate) mod rescue;
pub(crate) mod sessions;
pub(crate) mod upkeep;

use std::path::Path;
use std::time::Duration;

use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{Connection, Sqlite, SqlitePool, Transaction};

use crate::error::Result;

/// A write transaction; it holds the only writer connection until it is committed or dropped.
pub(crate) type Tx = Transaction<'static, Sqlite>;

/// Readers.
const READERS: u32 = 4;

/// The database.
#[derive(Clone)]
pub(crate) struct Store {
    /// One connection, so that writers queue instead of failing; `synchronous=FULL`.
    writer: SqlitePool,
    /// Readers; a read never spans an await on the network.
    pub(crate) read: SqlitePool,
}

impl Store {
    /// Opens or makes the database and brings its schema up to date.
    pub(crate) async fn open(path: &Path) -> Result<Store> {
        let options = SqliteConnectOptions::new()
            .filename(path)
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Full)
            .foreign_keys(true)
            .busy_timeout(Duration::from_secs(10))
            .pragma("journal_size_limit", "16777216");
        let writer = SqlitePoolOptions::new()
            .max_connections(1)
            // A file does not hang up: asking whether it is still there would double each query's way.
            .test_before_acquire(false)
            // On a full disk SQLite ends a transaction by itself, and the connection goes on believing in it: such a
            // one is replaced, or nothing could be written any more when there is room again.
            .before_acquire(|connection, _| {
                let usable = !connection.is_in_transaction();
                Box::pin(std::future::ready(Ok(usable)))
            })
            .connect_with(options.clone())
            .await?;
        sqlx::migrate!("../../migrations").run(&writer).await.map_err(|error| {
            anyhow::Error::new(error).context("the database could not be brought up to date")
        })?;
        let read = SqlitePoolOptions::new()
            .max_connections(READERS)
            // One that is open stays open: it has its statements prepared.
            .idle_timeout(None)
            .max_lifetime(None)
            .test_before_acquire(false)
            .connect_with(options.read_only(true).create_if_missing(false))
            .await?;
        Ok(Store { writer, read })
    }

    /// Begins an immediate transaction.
    pub(crate) async fn begin(&self) -> Result<Tx> {
        Ok(self.writer.begin_with("BEGIN IMMEDIATE").await?)
    }

    /// Opens every reader, so that nobody waits for one later.
    pub(crate) async fn open_readers(&self) -> Result<()> {
        let mut open = Vec::new();
        for _ in 0..READERS {
            open.push(self.read.acquire().await?);
        }
        Ok(())
    }

    /// Closes both pools; used at the end of a process.
    pub(crate) async fn close(&self) {
        self.read.close().await;
        self.writer.close().await;
    }
}
