//! `launches.jsonl`: the audit's copy beside the database, one JSON line a row, for whoever has only files.
//!
//! A task follows the table by number. Where it stands is the last line of the file itself, so a crash at any instant
//! loses nothing and writes nothing twice; a line that was cut off is taken away before the next one is written.

use std::fs;
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::store::backup::AuditRow;

/// How often new rows are looked for.
const PERIOD: Duration = Duration::from_secs(1);
/// Rows at a time.
const BATCH: u32 = 500;
/// A file that is larger gets another name, and a new one begins.
const LARGEST: u64 = 64 << 20;
/// Names of values that a file for people never holds.
const SECRETS: [&str; 8] =
    ["password", "secret", "token", "authorization", "credential", "cookie", "api_key", "private_key"];

/// Sets the task going.
pub(crate) fn spawn(engine: Engine) {
    let dir = engine.dirs().root.join("audit");
    tokio::spawn(async move {
        let mut journal = None;
        loop {
            match engine.copy_audit(&dir, &mut journal).await {
                Ok(()) => engine.tasks().ok("audit copy"),
                Err(error) => {
                    // Whatever state the file is in now is found out again from the file.
                    journal = None;
                    engine.tasks().failed("audit copy", &error);
                }
            }
            tokio::time::sleep(PERIOD).await;
        }
    });
}

impl Engine {
    /// Appends what is new.
    async fn copy_audit(&self, dir: &Path, journal: &mut Option<Journal>) -> Result<()> {
        loop {
            let mut open = match journal.take() {
                Some(open) => open,
                None => {
                    let (dir, newest) = (dir.to_owned(), self.store().newest_audit().await?);
                    blocking(move || Journal::open(&dir, newest)).await?
                }
            };
            let rows = self.store().audit_after(open.last, BATCH).await?;
            let full = rows.len() == BATCH as usize;
            if !rows.is_empty() {
                open = blocking(move || open.append(&rows).map(|()| open)).await?;
            }
            *journal = Some(open);
            if !full {
                return Ok(());
            }
        }
    }
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(|error| Error::Internal(error.into()))?
}

/// The open file. Between two calls it ends with a whole line.
struct Journal {
    path: PathBuf,
    file: fs::File,
    len: u64,
    /// Number of the last row that is in it.
    last: i64,
}

impl Journal {
    /// Opens the file and mends its end. `newest` is the last row of the table.
    fn open(dir: &Path, newest: i64) -> Result<Journal> {
        let path = dir.join("launches.jsonl");
        let mut file = fs::OpenOptions::new()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .mode(0o600)
            .open(&path)?;
        let (len, line) = last_whole_line(&mut file)?;
        if file.metadata()?.len() > len {
            file.set_len(len)?;
            file.sync_all()?;
        }
        let last = match line {
            Some(line) => serde_json::from_slice::<Value>(&line).ok().and_then(|value| value["id"].as_i64()),
            None => Some(last_of_older(dir)?),
        };
        let journal = Journal { path, file, len, last: last.unwrap_or(0) };
        // A line that is not ours, or rows of another database: that file is closed and everything is written anew.
        if last.is_none() || journal.last > newest {
            return journal.begin_again(".other", 0);
        }
        Ok(journal)
    }

    fn append(&mut self, rows: &[AuditRow]) -> Result<()> {
        let mut text = Vec::new();
        for row in rows {
            serde_json::to_writer(&mut text, &line(row))?;
            text.push(b'\n');
        }
        self.file.seek(SeekFrom::Start(self.len))?;
        self.file.write_all(&text)?;
        self.file.sync_data()?;
        self.len += text.len() as u64;
        self.last = rows.last().map_or(self.last, |row| row.id);
        if self.len > LARGEST {
            let last = self.last;
            let path = self.path.clone();
            let old = std::mem::replace(self, Journal { file: self.file.try_clone()?, path, len: 0, last });
            *self = old.begin_again("", last)?;
        }
        Ok(())
    }

    /// Gives the file a name of its own, which says how far it goes, and begins a new one.
    fn begin_again(self, ending: &str, last: i64) -> Result<Journal> {
        let dir = self.path.parent().unwrap_or(Path::new("."));
        let mut name = dir.join(format!("{}{ending}", older_name(self.last)));
        let mut number = 1;
        while name.exists() {
            number += 1;
            name = dir.join(format!("{}{ending}.{number}", older_name(self.last)));
        }
        fs::rename(&self.path, &name)?;
        let file =
            fs::OpenOptions::new().create_new(true).read(true).write(true).mode(0o600).open(&self.path)?;
        fs::File::open(dir)?.sync_all()?;
        Ok(Journal { path: self.path, file, len: 0, last })
    }
}

fn older_name(last: i64) -> String {
    format!("launches-{last:012}.jsonl")
}

/// How far the newest closed file of this database goes.
fn last_of_older(dir: &Path) -> Result<i64> {
    let mut last = 0;
    for entry in fs::read_dir(dir)? {
        let name = entry?.file_name();
        let number = name.to_str().and_then(|name| name.strip_prefix("launches-")?.strip_suffix(".jsonl"));
        last = last.max(number.and_then(|number| number.parse().ok()).unwrap_or(0));
    }
    Ok(last)
}

/// Where the last whole line ends, and that line.
fn last_whole_line(file: &mut fs::File) -> Result<(u64, Option<Vec<u8>>)> {
    let size = file.metadata()?.len();
    // A line is far shorter; a torn one at the end and the whole one before it fit.
    let from = size.saturating_sub(8 << 20);
    file.seek(SeekFrom::Start(from))?;
    let mut tail = Vec::new();
    file.take(size - from).read_to_end(&mut tail)?;
    let Some(end) = tail.iter().rposition(|byte| *byte == b'\n') else { return Ok((0, None)) };
    let begin = tail[..end].iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    Ok((from + end as u64 + 1, Some(tail[begin..end].to_vec())))
}

fn line(row: &AuditRow) -> Value {
    let parameters = serde_json::from_str(&row.detail).map_or_else(|_| json!(row.detail), redacted);
    let run = parameters["session"].as_str().or_else(|| session_target(&row.target)).map(str::to_owned);
    let time = OffsetDateTime::from_unix_timestamp_nanos(i128::from(row.at) * 1_000_000)
        .ok()
        .and_then(|time| time.format(&Rfc3339).ok());
    json!({
        "id": row.id, "time": time, "at": row.at, "client": row.client, "actor": row.actor, "action": row.action,
        "target": row.target, "run": run, "parameters": parameters,
    })
}

/// The target of what is done to one session is its id.
fn session_target(target: &str) -> Option<&str> {
    uuid::Uuid::try_parse(target).is_ok().then_some(target)
}

/// The same without anything that opens a door.
fn redacted(value: Value) -> Value {
    let secret = |name: &str| {
        let name = name.to_ascii_lowercase();
        SECRETS.iter().any(|secret| name == *secret || name.ends_with(&format!("_{secret}")))
    };
    match value {
        Value::Object(fields) => fields
            .into_iter()
            .map(|(name, value)| match secret(&name) {
                true => (name, json!("[redacted]")),
                false => (name, redacted(value)),
            })
            .collect(),
        Value::Array(items) => items.into_iter().map(redacted).collect(),
        Value::String(text) if ["opk_", "sk-ant-", "sk-"].iter().any(|begin| text.starts_with(begin)) => {
            json!("[redacted]")
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(id: i64) -> AuditRow {
        let detail = json!({"session": "s", "password": "p", "list": [{"api_token": "x"}], "key": "opk_1"});
        AuditRow {
            id,
            client: 1,
            at: 1_796_083_200_123,
            actor: "anna".into(),
            action: "launch".into(),
            target: "#7".into(),
            detail: detail.to_string(),
        }
    }

    fn ids(path: &Path) -> Vec<i64> {
        let text = fs::read_to_string(path).unwrap();
        text.lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap()["id"].as_i64().unwrap())
            .collect()
    }

    #[test]
    fn a_line_says_who_did_what_and_no_secret() {
        let line = line(&row(3));
        assert_eq!(line["time"], "2026-12-01T00:00:00.123Z");
        assert_eq!((&line["run"], &line["actor"]), (&json!("s"), &json!("anna")));
        let parameters = &line["parameters"];
        assert_eq!(parameters["password"], "[redacted]");
        assert_eq!(parameters["list"][0]["api_token"], "[redacted]");
        assert_eq!(parameters["key"], "[redacted]");
    }

    #[test]
    fn goes_on_behind_the_last_whole_line_wherever_it_was_cut() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("launches.jsonl");
        let mut journal = Journal::open(dir.path(), 0).unwrap();
        journal.append(&[row(1), row(2)]).unwrap();
        let whole = fs::read(&path).unwrap();
        for cut in 0..=whole.len() {
            fs::write(&path, &whole[..cut]).unwrap();
            let mut journal = Journal::open(dir.path(), 9).unwrap();
            let missing: Vec<AuditRow> = (journal.last + 1..=3).map(row).collect();
            journal.append(&missing).unwrap();
            assert_eq!(ids(&path), [1, 2, 3], "cut at {cut}");
        }
    }

    #[test]
    fn a_file_of_another_database_is_put_aside() {
        let dir = tempfile::tempdir().unwrap();
        Journal::open(dir.path(), 0).unwrap().append(&[row(50)]).unwrap();
        let mut journal = Journal::open(dir.path(), 2).unwrap();
        assert_eq!(journal.last, 0);
        journal.append(&[row(1)]).unwrap();
        assert_eq!(ids(&dir.path().join("launches.jsonl")), [1]);
        assert_eq!(ids(&dir.path().join(format!("{}.other", older_name(50)))), [50]);
    }

    #[test]
    fn a_large_file_is_closed_and_the_numbers_go_on() {
        let dir = tempfile::tempdir().unwrap();
        let mut journal = Journal::open(dir.path(), 0).unwrap();
        let mut large = row(1);
        large.detail = json!("x".repeat(65 << 20)).to_string();
        journal.append(&[large]).unwrap();
        // Killed here, it finds its place by the closed file's name.
        drop(journal);
        let mut journal = Journal::open(dir.path(), 2).unwrap();
        assert_eq!(journal.last, 1);
        journal.append(&[row(2)]).unwrap();
        assert_eq!(ids(&dir.path().join("launches.jsonl")), [2]);
        assert!(dir.path().join(older_name(1)).exists());
    }
}
