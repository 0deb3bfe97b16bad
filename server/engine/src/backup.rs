//! Backup while running, and restore: one tar archive with everything that cannot be made again.

mod archive;
mod restore;

use std::fs;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use opkit_domain::access::{Access, Actor};
use opkit_domain::ids::RepositoryId;
use opkit_domain::session::files;
use serde::{Deserialize, Serialize};

use crate::clock::now_ms;
use crate::engine::Engine;
use crate::error::{Error, Result};
use archive::Archive;
pub(crate) use restore::refuse_unfinished;
pub use restore::{Restored, restore};

/// What is copied as it stands, where it is there.
const COPIED: [&str; 8] =
    ["keys", "context", "templates", "skills", "agents", "claude-base-url", "confinement.read", "DISABLED"];
/// The archive's own version. A change that an older program would misread gets a new one.
const FORMAT: u32 = 1;
/// First and last entry of an archive.
const MANIFEST: &str = "MANIFEST.json";
const END: &str = "END";

/// One at a time: a second would only halve the speed of both.
static TURN: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// A backup to be made.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewBackup {
    /// Where, absolute: `….tar`, or `….tar.gz` for a packed one. Nothing may be there yet.
    pub file: PathBuf,
    /// Mirrors and what was kept of worktrees, too.
    #[serde(default)]
    pub repositories: bool,
    /// Records and transcripts of sessions, too.
    #[serde(default)]
    pub records: bool,
}

/// A backup that was made.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct BackedUp {
    /// Size of the archive.
    pub bytes: u64,
    /// Files in it.
    pub files: u64,
}

/// What an archive says of itself.
#[derive(Debug, Serialize, Deserialize)]
struct Manifest {
    format: u32,
    /// Version of the program that made it.
    opkit: String,
    schema: i64,
    /// The data directory it was made of.
    root: String,
    made_at: i64,
    repositories: bool,
    records: bool,
}

impl Engine {
    /// Writes a backup. Sessions, pages and results go on meanwhile; the database is of one instant.
    pub async fn backup(&self, actor: &Actor, new: &NewBackup) -> Result<BackedUp> {
        if actor.access < Access::Owner {
            return Err(Error::Forbidden(
                "A backup holds keys, so only the command line on the machine makes one.".into(),
            ));
        }
        let place = Place::of(&new.file, self.data())?;
        let Ok(_turn) = TURN.try_lock() else {
            return Err(Error::Refused("A backup is being made already. Wait until it is done.".into()));
        };
        let done = self.write_backup(new, &place).await;
        if done.is_err() {
            place.clear();
        }
        let done = done?;
        let detail = serde_json::json!({
            "file": new.file, "bytes": done.bytes, "repositories": new.repositories, "records": new.records,
        });
        self.audit(actor, "backup", "", detail).await?;
        Ok(done)
    }

    async fn write_backup(&self, new: &NewBackup, place: &Place) -> Result<BackedUp> {
        crate::store::backup::copy(&self.dirs().database(), &place.database).await?;
        let manifest = Manifest {
            format: FORMAT,
            opkit: env!("CARGO_PKG_VERSION").into(),
            schema: crate::store::backup::own_schema(),
            root: self.data().to_string_lossy().into_owned(),
            made_at: now_ms(),
            repositories: new.repositories,
            records: new.records,
        };
        let (root, part, database) = (self.data().to_owned(), place.part.clone(), place.database.clone());
        let packed = new.file.extension().is_some_and(|ending| ending == "gz");
        let records = new.records;
        let mut archive = blocking(move || {
            let mut archive = Archive::create(&part, packed)?;
            archive.text(MANIFEST, &serde_json::to_vec_pretty(&manifest)?)?;
            archive.file(Path::new("db/opkit.db"), &database)?;
            fs::remove_file(&database)?;
            for name in COPIED {
                archive.tree(&root, Path::new(name), &|_| true)?;
            }
            if records {
                archive.tree(&root, Path::new("sessions"), &is_record)?;
            }
            Ok(archive)
        })
        .await?;
        if new.repositories {
            archive = self.add_repositories(archive).await?;
        }
        let place = place.clone();
        blocking(move || {
            archive.text(END, b"{}\n")?;
            let done = archive.finish()?;
            place.publish()?;
            Ok(done)
        })
        .await
    }

    /// Each repository in its turn: nothing is fetched into it while it is copied.
    async fn add_repositories(&self, mut archive: Archive) -> Result<Archive> {
        for repo in self.store().all_repos().await? {
            let id = RepositoryId(repo.id);
            let _turn = self.repo_turn(id).await;
            let root = self.data().to_owned();
            archive = blocking(move || {
                for kind in ["mirrors", "rescue"] {
                    archive.tree(&root, &Path::new(kind).join(format!("{id}.git")), &is_lasting)?;
                }
                Ok(archive)
            })
            .await?;
        }
        let root = self.data().to_owned();
        blocking(move || archive.tree(&root, Path::new("sample"), &is_lasting).map(|()| archive)).await
    }

    /// Makes a restored installation fit its machine: owners of mirrors, mirrors that are not in the backup, and
    /// deliveries that nobody has any more. Gives sentences about what is missing.
    pub async fn settle_in(&self) -> Result<Vec<String>> {
        let mut missing = Vec::new();
        for repo in self.store().all_repos().await? {
            let mirror = self.dirs().mirror(repo.id());
            if mirror.exists() {
                self.close_mirror(&mirror, &repo.source)?;
            } else if let Err(error) = self.prepare_mirror(&mirror, &repo.source, Some(&repo.base)).await {
                // Half a mirror is worse than none.
                let _ = fs::remove_dir_all(&mirror);
                missing.push(format!("{} could not be mirrored from {}: {error}", repo.name, repo.source));
                continue;
            }
            for (id, head) in self.store().open_deliveries(repo.id()).await? {
                if self.commit_of(&mirror, &head).await?.is_none() {
                    self.store().forget_delivery(id).await?;
                    missing.push(format!("What #{id} had delivered is not in this backup."));
                }
            }
        }
        Ok(missing)
    }
}

/// Files of a session that tell what it did; nothing that opens a door.
fn is_record(path: &Path) -> bool {
    const KEPT: [&str; 7] = [
        files::EXIT,
        files::PROOF,
        files::FLOOR,
        files::CONTEXT,
        files::TRANSCRIPT,
        "transcript.jsonl.gz",
        files::STATUS,
    ];
    let parts: Vec<_> = path.iter().collect();
    match parts.as_slice() {
        [_, _] => true,
        [_, _, name] => *name == files::RECORD || KEPT.iter().any(|kept| *name == *kept),
        [_, _, record, _] => *record == files::RECORD,
        _ => false,
    }
}

/// What git makes for a moment only.
fn is_lasting(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    !name.ends_with(".lock") && !name.starts_with("tmp_")
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(|error| Error::Internal(error.into()))?
}

/// Where a backup goes: written beside its place under another name, and renamed when it is whole.
#[derive(Debug, Clone)]
struct Place {
    file: PathBuf,
    part: PathBuf,
    /// The copy of the database, until it is in the archive.
    database: PathBuf,
}

impl Place {
    fn of(file: &Path, data: &Path) -> Result<Place> {
        let wrong = |text: String| Err(Error::BadInput(text));
        let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if !file.is_absolute() || !(name.ends_with(".tar") || name.ends_with(".tar.gz")) {
            return wrong("Name the backup with its whole path, ending in .tar or .tar.gz.".into());
        }
        let dir = file.parent().unwrap_or(Path::new("/"));
        let Ok(dir) = dir.canonicalize() else {
            return wrong(format!("{} is not there. Make the directory first.", dir.display()));
        };
        if dir.starts_with(data) {
            return wrong(format!("{} is inside the data directory. Choose another place.", dir.display()));
        }
        let file = dir.join(name);
        if file.symlink_metadata().is_ok() {
            return wrong(format!(
                "{} is there already. Choose another name, or remove it first.",
                file.display()
            ));
        }
        let unique = uuid::Uuid::new_v4().simple().to_string();
        // Only one backup is made at a time: whatever else is there was left by one that was cut off.
        for left in fs::read_dir(data.join("db"))?.flatten() {
            if left.file_name().to_string_lossy().starts_with("backup-") {
                fs::remove_file(left.path())?;
            }
        }
        let part = dir.join(format!(".{name}.{}.part", &unique[..8]));
        Ok(Place { file, part, database: data.join("db").join(format!("backup-{unique}.db")) })
    }

    /// Takes away what a backup that failed has left.
    fn clear(&self) {
        for path in [&self.part, &self.database] {
            // It may not have come that far.
            let _ = fs::remove_file(path);
        }
    }

    fn publish(&self) -> Result<()> {
        // Not over a file that came meanwhile.
        match fs::hard_link(&self.part, &self.file) {
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => return Err(error.into()),
            // A file system without links: the rename is the next best.
            Err(_) => fs::rename(&self.part, &self.file)?,
            Ok(()) => {}
        }
        let _ = fs::remove_file(&self.part);
        fs::File::open(self.file.parent().unwrap_or(Path::new("/")))?.sync_all()?;
        Ok(())
    }
}

/// A new file that only we may read.
fn private_file(path: &Path) -> Result<fs::File> {
    Ok(fs::OpenOptions::new().create_new(true).write(true).mode(0o600).open(path)?)
}

/// Writes and makes durable.
fn write_through(mut file: fs::File, bytes: &[u8]) -> Result<()> {
    file.write_all(bytes)?;
    Ok(file.sync_all()?)
}
