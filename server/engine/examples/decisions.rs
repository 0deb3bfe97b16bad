//! Decision rate: one durable dispatch decision a transaction, against the bare transaction of the same rows.
//!
//! Prints Markdown. The bare transaction writes what a decision writes (gate, session, objective, event, audit)
//! through rusqlite in the same file system and with the same durability, without rules or reads.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use opkit_engine::{Config, Engine};

const ROUND: Duration = Duration::from_millis(1500);
const ROUNDS: usize = 5;

fn main() -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    println!("| objectives | decisions/s | bare transactions/s | ratio |\n|---|---|---|---|");
    let mut costs = Vec::new();
    for objectives in [1_000, 100_000] {
        let dir = tempfile::Builder::new().prefix("opkit-bench-").tempdir_in("/var/tmp")?;
        open_to_all(dir.path())?;
        let engine = runtime.block_on(open(dir.path()))?;
        runtime.block_on(engine.bench_seed(objectives))?;
        let bare = Bare::new(dir.path())?;
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            ours.push(runtime.block_on(decisions(&engine))?);
            theirs.push(bare.round()?);
        }
        let (ours, theirs) = (median(ours), median(theirs));
        println!("| {objectives} | {ours:.0} | {theirs:.0} | {:.2} |", ours / theirs);
        costs.push(theirs / ours);
    }
    println!(
        "\nCost at 100,000 against 1,000, each in units of the bare transaction of its round: {:.2}",
        costs[1] / costs[0]
    );
    Ok(())
}

fn open_to_all(dir: &Path) -> anyhow::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    Ok(std::fs::set_permissions(dir, std::fs::Permissions::from_mode(0o711))?)
}

async fn open(dir: &Path) -> anyhow::Result<Engine> {
    let config = Config {
        data: dir.join("data"),
        // Nothing is launched here: any file does.
        session_binary: std::env::current_exe()?,
        build_id: "bench".into(),
        cap: Some(1),
        ..Config::default()
    };
    Ok(Engine::open(config).await?)
}

async fn decisions(engine: &Engine) -> anyhow::Result<f64> {
    let (mut spent, mut made) = (Duration::ZERO, 0usize);
    let start = Instant::now();
    while start.elapsed() < ROUND * 2 && spent < ROUND {
        let one = Instant::now();
        made += engine.bench_decide().await?;
        spent += one.elapsed();
        engine.bench_free().await?;
    }
    Ok(made as f64 / spent.as_secs_f64())
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// The floor: the same writes, prepared, on one connection.
struct Bare(rusqlite::Connection);

impl Bare {
    fn new(dir: &Path) -> anyhow::Result<Bare> {
        let path: PathBuf = dir.join("bare.db");
        let db = rusqlite::Connection::open(path)?;
        db.execute_batch(
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;
             CREATE TABLE gate (id INTEGER PRIMARY KEY, claims INTEGER);
             INSERT INTO gate VALUES (1, 0);
             CREATE TABLE objective (id INTEGER PRIMARY KEY, status TEXT, version INTEGER, brief TEXT);
             CREATE TABLE session (id TEXT PRIMARY KEY, objective_id INTEGER, role TEXT, state TEXT, account TEXT,
                detail TEXT);
             CREATE TABLE event (seq INTEGER PRIMARY KEY, objective_id INTEGER, kind TEXT, reason TEXT);
             CREATE TABLE audit (id INTEGER PRIMARY KEY, actor TEXT, detail TEXT);",
        )?;
        for id in 0..1000 {
            db.execute("INSERT INTO objective VALUES (?1, 'queue', 1, ?2)", (id, "brief ".repeat(60)))?;
        }
        Ok(Bare(db))
    }

    fn round(&self) -> anyhow::Result<f64> {
        let start = Instant::now();
        let mut made = 0i64;
        while start.elapsed() < ROUND {
            let id = uuid::Uuid::new_v4().to_string();
            self.0.execute_batch("BEGIN IMMEDIATE")?;
            self.0.prepare_cached("UPDATE gate SET claims = claims + 1 WHERE id = 1")?.execute([])?;
            self.0
                .prepare_cached(
                    "UPDATE objective SET status = 'working', version = version + 1 WHERE id = ?1",
                )?
                .execute([made % 1000])?;
            self.0
                .prepare_cached("INSERT INTO session VALUES (?1, ?2, 'work', 'starting', 'ccuser-0', '')")?
                .execute((&id, made % 1000))?;
            self.0
                .prepare_cached(
                    "INSERT INTO event (objective_id, kind, reason) VALUES (?1, 'moved', 'claimed')",
                )?
                .execute([made % 1000])?;
            self.0
                .prepare_cached("INSERT INTO audit (actor, detail) VALUES ('dispatcher', ?1)")?
                .execute([&id])?;
            self.0.execute_batch("COMMIT")?;
            made += 1;
        }
        Ok(made as f64 / start.elapsed().as_secs_f64())
    }
}
