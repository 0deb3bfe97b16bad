//! Each migration is applied over the previous ones with data in them: rows of an older version survive.
#![allow(clippy::unwrap_used, reason = "a test says what it expects")]

use sqlx::sqlite::{SqliteConnectOptions, SqlitePoolOptions};
use sqlx::{AssertSqlSafe, Executor};

static ALL: sqlx::migrate::Migrator = sqlx::migrate!("../../migrations");

/// `tests/migrations/NNNN.sql` fills the tables as version NNNN knows them.
fn data_of(version: i64) -> String {
    let path = format!("{}/tests/migrations/{version:04}.sql", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(&path)
        .unwrap_or_else(|_| panic!("{path} is missing: every migration has a data file"))
}

#[tokio::test]
async fn every_migration_keeps_the_data_of_the_one_before() {
    let dir = tempfile::tempdir().unwrap();
    let options = SqliteConnectOptions::new()
        .filename(dir.path().join("opkit.db"))
        .create_if_missing(true)
        .foreign_keys(true);
    let pool = SqlitePoolOptions::new().max_connections(1).connect_with(options).await.unwrap();
    for migration in ALL.iter() {
        pool.execute(AssertSqlSafe(migration.sql.as_str().to_owned())).await.unwrap();
        pool.execute(AssertSqlSafe(data_of(migration.version))).await.unwrap();
        let broken: Vec<(String,)> =
            sqlx::query_as("SELECT \"table\" FROM pragma_foreign_key_check").fetch_all(&pool).await.unwrap();
        assert!(broken.is_empty(), "after {}: {broken:?}", migration.version);
    }
    let (objectives, events, sessions): (i64, i64, i64) = sqlx::query_as(
        "SELECT (SELECT COUNT(*) FROM objective), (SELECT COUNT(*) FROM event), (SELECT COUNT(*) FROM session)",
    )
    .fetch_one(&pool)
    .await
    .unwrap();
    assert_eq!((objectives, events, sessions), (2, 2, 1));
    // Two live sessions of one objective are impossible, whatever the code does.
    let second = pool
        .execute(
            "INSERT INTO session (id, client_id, objective_id, role, state, account, agent, actor, round, deadline,
                wall_clock_s, started_at) VALUES ('b', 1, 1, 'work', 'running', 'ccuser-0', 'demo', 't', 1, 0, 0, 0)",
        )
        .await;
    assert!(second.is_err());
}
