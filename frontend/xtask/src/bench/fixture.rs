//! Places and repositories that the bench makes up.

use anyhow::{Context, Result, ensure};
use std::fmt::Write as _;
use std::fs::{self, Permissions};
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A directory that goes with its value.
pub(super) struct Folder(PathBuf);

impl Folder {
    pub(super) fn new(name: &str) -> Result<Folder> {
        data_dir(name).map(Folder)
    }
}

impl std::ops::Deref for Folder {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.0) {
            eprintln!("    {} stays: {error}", self.0.display());
        }
    }
}

/// A directory of the bench's own that other users can pass.
pub(super) fn data_dir(name: &str) -> Result<PathBuf> {
    let base = Path::new("/var/tmp");
    let base = if base.is_dir() { base.to_path_buf() } else { std::env::temp_dir() };
    let data = base.join(format!("opkit-bench-{}-{name}", std::process::id()));
    fs::create_dir_all(&data)?;
    fs::set_permissions(&data, Permissions::from_mode(0o711))?;
    Ok(data)
}

/// A repository with a handful of files.
pub(super) fn small_repository(folder: &Path) -> Result<PathBuf> {
    repository(&folder.join("repo"), 5, 1)
}

/// Text without meaning, the same each time.
struct Words(u64);

impl Words {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % limit
    }

    fn file(&mut self) -> String {
        let mut text = String::new();
        for _ in 0..5 + self.below(75) {
            for _ in 0..8 {
                // Writing to a string cannot fail.
                let _ = write!(text, "w{:x} ", self.below(4000) * 7919);
            }
            text.push('\n');
        }
        text
    }
}

/// Makes a repository by fast-import: all files in the first commit, twenty changed in each one after it.
pub(super) fn repository(dir: &Path, files: usize, commits: usize) -> Result<PathBuf> {
    fs::create_dir_all(dir)?;
    let git = |args: &[&str]| {
        let status = Command::new("git").current_dir(dir).args(args).stdin(Stdio::null()).status()?;
        ensure!(status.success(), "git {args:?} ended with {status}");
        Ok(())
    };
    git(&["init", "-q", "-b", "main"])?;
    let mut import = Command::new("git")
        .current_dir(dir)
        .args(["fast-import", "--quiet"])
        .stdin(Stdio::piped())
        .spawn()?;
    let mut out = std::io::BufWriter::new(import.stdin.take().context("no stdin")?);
    let mut words = Words(1);
    let path = |at: usize| format!("src/m{:02}/p{:02}/f{at:05}.rs", at % 40, at / 40 % 25);
    for commit in 0..commits {
        let message = format!("Commit {commit}");
        write!(
            out,
            "commit refs/heads/main\nmark :{}\ncommitter a <a@example.org> {} +0000\ndata {}\n{message}\n",
            commit + 1,
            1_700_000_000 + commit * 60,
            message.len()
        )?;
        if commit > 0 {
            writeln!(out, "from :{commit}")?;
        }
        let count = if commit == 0 { files } else { 20 };
        for at in 0..count {
            let name = path(if commit == 0 { at } else { words.below(files) });
            let text = words.file();
            write!(out, "M 100644 inline {name}\ndata {}\n{text}\n", text.len())?;
        }
    }
    drop(out);
    let status = import.wait()?;
    ensure!(status.success(), "git fast-import ended with {status}");
    git(&["reset", "-q", "--hard"])?;
    Ok(dir.to_owned())
}
