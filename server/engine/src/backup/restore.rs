//! Restore into an empty directory: checked before it is believed, and started only by a person.

use std::fs;
use std::io::{self, BufReader, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Component, Path, PathBuf};

use flate2::read::GzDecoder;
use opkit_domain::session::files;
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::{END, FORMAT, MANIFEST, Manifest, write_through};
use crate::error::{Error, Result};
use crate::store::backup::{own_schema, settle_in};

/// The only names at the top of an archive, beside those that are copied as they stand.
const TOPS: [&str; 4] = ["db", "sessions", "mirrors", "rescue"];
/// Stands in a directory as long as it is being restored.
const UNFINISHED: &str = "RESTORING";

/// Refuses a directory that a restore left half done.
pub(crate) fn refuse_unfinished(data: &Path) -> Result<()> {
    match fs::symlink_metadata(data.join(UNFINISHED)) {
        // What else is wrong with the directory is said by whoever opens it next.
        Err(_) => Ok(()),
        Ok(_) => Err(Error::Refused(format!(
            "A backup was being restored into {} and did not come to its end. Delete the directory and restore again.",
            data.display()
        ))),
    }
}

/// The sample repository is a directory of ours too.
const SAMPLE: &str = "sample";

/// What was restored.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Restored {
    /// Objectives in it.
    pub objectives: i64,
    /// Sessions that ran when the backup was made; they are lost.
    pub lost: usize,
    /// When the backup was made, ms since 1970.
    pub made_at: i64,
    /// It holds mirrors and what was kept of worktrees.
    pub repositories: bool,
}

/// Unpacks a backup into `data`, which is empty or not there. A refusal leaves nothing behind.
pub async fn restore(file: &Path, data: &Path) -> Result<Restored> {
    let made = prepare(data)?;
    let data = data.canonicalize()?;
    // First of all: what a power cut leaves half restored must not be taken for an installation.
    new_file(&data.join(UNFINISHED), 0o600)?.sync_all()?;
    fs::File::open(&data)?.sync_all()?;
    let done = unpack_and_check(file, &data).await;
    if done.is_err() {
        clear(&data, made);
    }
    done
}

async fn unpack_and_check(file: &Path, data: &Path) -> Result<Restored> {
    let (from, to) = (file.to_owned(), data.to_owned());
    let manifest = super::blocking(move || unpack(&from, &to)).await?;
    let found = settle_in(&data.join("db/opkit.db"), &manifest.root, &data.to_string_lossy()).await?;
    if found.schema > own_schema() {
        return Err(newer(&manifest));
    }
    // Their runners are not here: a lock file with something in it that nobody holds, and no exit file, is what a
    // lost session looks like.
    for id in &found.live {
        let dir = data.join("sessions").join(id.as_str());
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&dir)?;
        new_file(&dir.join(files::LOCK), 0o600)?.write_all(b"restored")?;
    }
    point_rescues_here(data, &manifest.root)?;
    let when = OffsetDateTime::from_unix_timestamp(manifest.made_at / 1000)
        .ok()
        .and_then(|time| time.format(&Rfc3339).ok())
        .unwrap_or_default();
    let why = format!(
        "Restored from the backup of {when}. Run `opkit enable` when the old server does not run any more."
    );
    crate::kill_switch::set(&data.join("DISABLED"), &why)?;
    rustix::fs::syncfs(fs::File::open(data)?).map_err(io::Error::from)?;
    fs::remove_file(data.join(UNFINISHED))?;
    Ok(Restored {
        objectives: found.objectives,
        lost: found.live.len(),
        made_at: manifest.made_at,
        repositories: manifest.repositories,
    })
}

/// Makes the directory, or takes an empty one; true when it was made.
fn prepare(data: &Path) -> Result<bool> {
    match fs::read_dir(data) {
        Ok(mut entries) => match entries.next() {
            None => Ok(false),
            Some(_) => refuse_unfinished(data).and(Err(Error::Refused(format!(
                "{} is not empty. A backup is restored into an empty directory only; name another with --data.",
                data.display()
            )))),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            fs::DirBuilder::new().recursive(true).mode(0o711).create(data)?;
            Ok(true)
        }
        Err(error) => Err(Error::Refused(format!("{} cannot be used: {error}.", data.display()))),
    }
}

fn clear(data: &Path, made: bool) {
    // It was empty: everything in it is ours. What cannot be removed is for the person who reads the error.
    for entry in fs::read_dir(data).into_iter().flatten().flatten() {
        let _ = match entry.file_type() {
            Ok(kind) if kind.is_dir() => fs::remove_dir_all(entry.path()),
            _ => fs::remove_file(entry.path()),
        };
    }
    if made {
        let _ = fs::remove_dir(data);
    }
}

fn no_backup(file: &Path, why: &str) -> Error {
    Error::Refused(format!("{} is no whole backup: {why}. Use another one.", file.display()))
}

fn newer(manifest: &Manifest) -> Error {
    Error::Refused(format!(
        "This backup was made by opkit {}, which is newer than this one. Install that version or a later one.",
        manifest.opkit
    ))
}

fn unpack(file: &Path, data: &Path) -> Result<Manifest> {
    let mut source = BufReader::with_capacity(
        1 << 18,
        fs::File::open(file)
            .map_err(|error| Error::Refused(format!("{} cannot be read: {error}.", file.display())))?,
    );
    let packed = io::BufRead::fill_buf(&mut source)?.starts_with(&[0x1f, 0x8b]);
    let source: Box<dyn Read> = if packed { Box::new(GzDecoder::new(source)) } else { Box::new(source) };
    let mut archive = tar::Archive::new(source);
    let broken = |error: io::Error| no_backup(file, &error.to_string());
    let mut entries = archive.entries().map_err(broken)?;
    let manifest = match entries.next() {
        Some(entry) => read_manifest(file, entry.map_err(broken)?)?,
        None => return Err(no_backup(file, "it is empty")),
    };
    let mut whole = false;
    for entry in entries {
        let mut entry = entry.map_err(broken)?;
        let name = entry.path().map_err(broken)?.into_owned();
        if name == Path::new(END) {
            whole = true;
            continue;
        }
        let target = data.join(allowed(file, &name)?);
        let kind = entry.header().entry_type();
        if kind.is_dir() {
            directory(&target, &name)?;
            continue;
        }
        if !kind.is_file() {
            return Err(no_backup(file, &format!("{} is neither file nor directory", name.display())));
        }
        directory(target.parent().unwrap_or(data), name.parent().unwrap_or(Path::new("")))?;
        let run = entry.header().mode().map_err(broken)? & 0o100 != 0 && name.starts_with(SAMPLE);
        let bits = if is_open(&name) { 0o644 } else { 0o600 } | if run { 0o111 } else { 0 };
        io::copy(&mut entry, &mut new_file(&target, bits)?).map_err(broken)?;
    }
    if !whole || !data.join("db/opkit.db").exists() {
        return Err(no_backup(file, "its end is missing"));
    }
    Ok(manifest)
}

fn read_manifest(file: &Path, entry: tar::Entry<'_, impl Read>) -> Result<Manifest> {
    let mut text = Vec::new();
    let named = entry.path().is_ok_and(|path| path == Path::new(MANIFEST));
    entry.take(1 << 16).read_to_end(&mut text)?;
    let manifest: Manifest = match serde_json::from_slice(&text) {
        Ok(manifest) if named => manifest,
        Ok(_) | Err(_) => return Err(no_backup(file, "it does not begin with a manifest of opkit")),
    };
    if manifest.format > FORMAT || manifest.schema > own_schema() {
        return Err(newer(&manifest));
    }
    Ok(manifest)
}

/// Only plain names below the few places we write.
fn allowed<'a>(file: &Path, name: &'a Path) -> Result<&'a Path> {
    let plain = name.components().all(|part| matches!(part, Component::Normal(_)));
    let top = name.iter().next().and_then(|part| part.to_str()).unwrap_or_default();
    if plain && (TOPS.contains(&top) || super::COPIED.contains(&top) || top == SAMPLE) {
        Ok(name)
    } else {
        Err(no_backup(file, &format!("{} does not belong into one", name.display())))
    }
}

/// What sessions read.
fn is_open(name: &Path) -> bool {
    ["mirrors", "context", "skills", SAMPLE].iter().any(|top| name.starts_with(top))
}

fn directory(path: &Path, name: &Path) -> Result<()> {
    let bits = if is_open(name) || name.as_os_str().is_empty() { 0o755 } else { 0o700 };
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    // Whatever the umask of the person who restores.
    crate::data_dir::mode(path, bits)
}

fn new_file(path: &Path, bits: u32) -> Result<fs::File> {
    let file = fs::OpenOptions::new().create_new(true).write(true).mode(0o600).open(path)?;
    crate::data_dir::mode(path, bits)?;
    Ok(file)
}

/// A rescue repository borrows objects from its mirror by an absolute path.
fn point_rescues_here(data: &Path, old_root: &str) -> Result<()> {
    let rescues = match fs::read_dir(data.join("rescue")) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    for rescue in rescues {
        let file: PathBuf = rescue?.path().join("objects/info/alternates");
        let Ok(text) = fs::read_to_string(&file) else { continue };
        let lines = text.lines().map(|line| match line.strip_prefix(old_root) {
            Some(rest) => format!("{}{rest}\n", data.display()),
            None => format!("{line}\n"),
        });
        let text: String = lines.collect();
        fs::remove_file(&file)?;
        write_through(new_file(&file, 0o600)?, text.as_bytes())?;
    }
    Ok(())
}
