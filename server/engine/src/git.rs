//! `struct Git`: the only place that starts git, with everything off that a repository could use against us.

use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::process::Command;

use crate::error::{Error, Result};

/// A git program and the way it is started.
#[derive(Debug, Clone)]
pub(crate) struct Git {
    program: PathBuf,
}

/// What a git command printed.
#[derive(Debug)]
pub(crate) struct Output {
    pub(crate) ok: bool,
    pub(crate) status: Option<i32>,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: String,
    /// Output was cut at the limit.
    pub(crate) cut: bool,
}

impl Output {
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).trim_end().to_owned()
    }
}

/// Options that switch off whatever a hostile repository could make git run.
const HARDENED: &[&str] = &[
    "-c",
    "core.hooksPath=/dev/null",
    "-c",
    "core.fsmonitor=false",
    "-c",
    "core.pager=cat",
    "-c",
    "core.attributesFile=/dev/null",
    "-c",
    "diff.external=",
    "-c",
    "credential.helper=",
    "-c",
    "gc.auto=0",
    "-c",
    "maintenance.auto=false",
    "-c",
    "protocol.ext.allow=never",
    "-c",
    "protocol.file.allow=always",
    "-c",
    "transfer.fsckObjects=true",
    "-c",
    "fetch.fsckObjects=true",
    "-c",
    "receive.denyCurrentBranch=updateInstead",
    "-c",
    "user.name=Opkit",
    "-c",
    "user.email=opkit@localhost",
];

impl Git {
    /// Finds git on PATH; the first that runs.
    pub(crate) fn find() -> Result<Git> {
        let program = crate::programs::find("git").ok_or_else(|| {
            Error::Refused("git is missing. Install it, for example: apt-get install git".into())
        })?;
        Ok(Git { program })
    }

    pub(crate) fn program(&self) -> &Path {
        &self.program
    }

    /// Runs git in a repository that we own (`--git-dir`), at most `limit` bytes of output.
    pub(crate) async fn run<S: AsRef<OsStr>>(&self, dir: &Path, args: &[S], limit: usize) -> Result<Output> {
        let mut all: Vec<OsString> = vec!["--git-dir".into(), dir.into()];
        all.extend(args.iter().map(|arg| arg.as_ref().to_owned()));
        self.start(all, None, None, limit).await
    }

    /// Runs git and fails with its own words when it fails.
    pub(crate) async fn must<S: AsRef<OsStr>>(&self, dir: &Path, args: &[S]) -> Result<String> {
        let output = self.run(dir, args, 16 << 20).await?;
        if output.ok { Ok(output.text()) } else { Err(failure(&output)) }
    }

    /// Runs git with output into a file.
    pub(crate) async fn to_file<S: AsRef<OsStr>>(&self, dir: &Path, args: &[S], file: &Path) -> Result<()> {
        let mut all: Vec<OsString> = vec!["--git-dir".into(), dir.into()];
        all.extend(args.iter().map(|arg| arg.as_ref().to_owned()));
        let out = std::fs::File::create(file)?;
        let output = self.start(all, None, Some(out), 1 << 20).await?;
        if output.ok { Ok(()) } else { Err(failure(&output)) }
    }

    /// Runs git on a path that is not ours, as that path's owner.
    pub(crate) async fn as_owner<S: AsRef<OsStr>>(
        &self,
        owner: Option<(u32, u32)>,
        args: &[S],
    ) -> Result<Output> {
        self.start(args.iter().map(|arg| arg.as_ref().to_owned()).collect(), owner, None, 4 << 20).await
    }

    /// Runs git for work that nobody waits for: it gets the processor and the disk when nobody else wants them.
    pub(crate) async fn quietly<S: AsRef<OsStr>>(&self, args: &[S]) -> Result<Output> {
        let mut front: Vec<OsString> = Vec::new();
        if let Some(chrt) = crate::programs::find("chrt") {
            front.extend([chrt.into(), "--idle".into(), "0".into()]);
        }
        if let Some(ionice) = crate::programs::find("ionice") {
            front.extend([ionice.into(), "-c".into(), "3".into()]);
        }
        front.push(self.program.clone().into());
        let program = front.remove(0);
        front.extend(HARDENED.iter().map(Into::into));
        front.extend(args.iter().map(|arg| arg.as_ref().to_owned()));
        let mut command = std::process::Command::new(program);
        command.args(front);
        self.finish(command, None, None, 4 << 20).await
    }

    /// The same with output into a file that is already open.
    pub(crate) async fn owner_to_file<S: AsRef<OsStr>>(
        &self,
        owner: (u32, u32),
        args: &[S],
        file: std::fs::File,
    ) -> Result<Output> {
        let args = args.iter().map(|arg| arg.as_ref().to_owned()).collect();
        self.start(args, Some(owner), Some(file), 1 << 20).await
    }

    async fn start(
        &self,
        args: Vec<OsString>,
        owner: Option<(u32, u32)>,
        stdout: Option<std::fs::File>,
        limit: usize,
    ) -> Result<Output> {
        let mut command = std::process::Command::new(&self.program);
        command.args(HARDENED).args(args);
        self.finish(command, owner, stdout, limit).await
    }

    async fn finish(
        &self,
        mut command: std::process::Command,
        owner: Option<(u32, u32)>,
        stdout: Option<std::fs::File>,
        limit: usize,
    ) -> Result<Output> {
        command.env_clear();
        command.env("PATH", crate::programs::PATH).env("LANG", "C.UTF-8").env("HOME", "/nonexistent");
        command.env("GIT_TERMINAL_PROMPT", "0").env("GIT_CONFIG_NOSYSTEM", "1");
        command.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_OPTIONAL_LOCKS", "0");
        command.env("GIT_ASKPASS", "/bin/false");
        command.stdin(Stdio::null()).stderr(Stdio::piped());
        match stdout {
            Some(file) => command.stdout(file),
            None => command.stdout(Stdio::piped()),
        };
        if let Some((uid, gid)) = owner {
            command.uid(uid).gid(gid);
        }
        let mut child = Command::from(command).kill_on_drop(true).spawn()?;
        let mut out = child.stdout.take();
        let mut err = child.stderr.take();
        let read_out = async {
            let mut bytes = Vec::new();
            let mut cut = false;
            if let Some(pipe) = out.as_mut() {
                let mut taken = pipe.take(limit as u64);
                taken.read_to_end(&mut bytes).await?;
                cut = bytes.len() >= limit;
            }
            // Dropping the pipe ends a git that still writes beyond the limit.
            drop(out);
            Ok::<_, std::io::Error>((bytes, cut))
        };
        let read_err = async {
            let mut bytes = Vec::new();
            if let Some(pipe) = err.as_mut() {
                pipe.take(64 << 10).read_to_end(&mut bytes).await?;
                // Read to its end all the same: git must not wait for room in the pipe.
                tokio::io::copy(pipe, &mut tokio::io::sink()).await?;
            }
            Ok::<_, std::io::Error>(bytes)
        };
        let both = async { tokio::try_join!(read_out, read_err) };
        let ((stdout, cut), stderr) = tokio::time::timeout(Duration::from_secs(600), both)
            .await
            .map_err(|_| Error::Internal(anyhow::anyhow!("git took longer than 10 minutes")))??;
        let status = child.wait().await?;
        Ok(Output {
            ok: status.success(),
            status: status.code(),
            stdout,
            stderr: String::from_utf8_lossy(&stderr).trim().to_owned(),
            cut,
        })
    }
}

/// An error with git's own last words.
pub(crate) fn failure(output: &Output) -> Error {
    let words: String = output.stderr.chars().filter(|c| !c.is_control() || *c == '\n').take(600).collect();
    Error::Internal(anyhow::anyhow!("git ended with {:?}: {words}", output.status))
}

/// A branch name that git accepts and that cannot be read as an option.
pub(crate) fn branch_name(name: &str) -> Result<&str> {
    let bad = name.is_empty()
        || name.len() > 200
        || name.starts_with(['-', '/', '.'])
        || name.ends_with(['/', '.'])
        || name.ends_with(".lock")
        || name.contains("..")
        || name.contains("//")
        || name.contains("@{")
        || name.contains("/.")
        || name.chars().any(|c| c.is_control() || c.is_whitespace() || "~^:?*[\\".contains(c));
    if bad { Err(Error::BadInput(format!("“{}” is not a branch name.", short(name)))) } else { Ok(name) }
}

/// Cuts untrusted text for a sentence.
pub(crate) fn short(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(80).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test says what it expects")]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_git_that_complains_at_length_is_read_to_its_end() {
        let git = Git::find().unwrap();
        let dir = tempfile::tempdir().unwrap();
        let at = dir.path().to_string_lossy().into_owned();
        assert!(git.as_owner(None, &["init", "-q", &at]).await.unwrap().ok);
        let mut args = vec!["-C".to_owned(), at, "ls-files".into(), "--error-unmatch".into(), "--".into()];
        args.extend((0..4000).map(|n| format!("a-file-that-is-nowhere-to-be-found-{n:020}")));
        let output = tokio::time::timeout(Duration::from_secs(60), git.as_owner(None, &args));
        let output = output.await.expect("it ends").unwrap();
        assert!(!output.ok && output.stderr.len() >= 60_000, "{}", output.stderr.len());
    }
}
