//! `snapshot GIT`: everything of the worktree that would be lost with it, as a bundle on standard output.
//!
//! Runs behind the wall as the account's user, after every process of the agent is gone. It uses an index of its
//! own, so that the worktree's is not touched, and leaves `refs/opkit/rescue` in the checkout: one commit whose tree
//! is the worktree as it stands, whose first parent is HEAD, and whose other parents are commits that neither HEAD
//! nor the objective's branch nor the mirror has: stashes, other branches, what was reset away. With nothing of all
//! that it prints nothing.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result, bail};

/// Untracked files beyond these bounds are left out and named on standard error.
const MAX_FILES: usize = 20_000;
const MAX_BYTES: u64 = 200 << 20;
/// Commits beside HEAD that are kept.
const MAX_STRAYS: usize = 60;
/// How far back HEAD's own log is read.
const REFLOG: &str = "500";

/// Makes the bundle; the reason of a failure goes to standard error.
pub(crate) fn main(git: &str) -> ExitCode {
    match snapshot(git) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("opkit-session snapshot: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn snapshot(git: &str) -> Result<()> {
    let scratch = std::env::var_os("OPKIT_SCRATCH").map(PathBuf::from).context("OPKIT_SCRATCH is not set")?;
    let session = std::env::var("OPKIT_SESSION").unwrap_or_default();
    let index = scratch.join(format!("rescue-index-{session}"));
    let git = Git { program: git.to_owned(), index: index.clone() };
    let made = make(&git, &session);
    let _ = std::fs::remove_file(index);
    made
}

fn make(git: &Git, session: &str) -> Result<()> {
    start_index(git)?;
    // Tracked changes and deletions first, then files that the index does not have, within bounds: those that HEAD
    // has, ignored or not, and others that are not ignored.
    git.text(&["add", "--update", "--", "."])?;
    let mut missing =
        git.bytes(&["diff-index", "--cached", "--name-only", "--diff-filter=D", "-z", "HEAD"])?;
    missing.extend(git.bytes(&["ls-files", "--others", "--exclude-standard", "-z"])?);
    let here = std::fs::canonicalize(".")?;
    let (mut files, mut bytes, mut left_out, mut nested) = (0usize, 0u64, 0usize, 0usize);
    let mut list = Vec::new();
    let mut seen = HashSet::new();
    for name in missing.split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
        if name.ends_with(b"/") {
            nested += 1;
            continue;
        }
        if !seen.insert(name) || !stands(&here, path(name)) {
            continue;
        }
        let size = std::fs::symlink_metadata(path(name)).map_or(0, |meta| meta.len());
        if files + 1 > MAX_FILES || bytes + size > MAX_BYTES {
            left_out += 1;
            continue;
        }
        files += 1;
        bytes += size;
        list.extend_from_slice(name);
        list.push(0);
    }
    if !list.is_empty() {
        git.fed(&["update-index", "--add", "-z", "--stdin"], &list)?;
    }
    let mut message = format!("Uncommitted work at the end of session {session}\n");
    if left_out > 0 {
        let line = format!("{left_out} untracked files were too many or too large and are left out.");
        eprintln!("{line}");
        message += &format!("\n{line}\n");
    }
    if nested > 0 {
        let line = format!("{nested} git repositories inside the worktree are left out.");
        eprintln!("{line}");
        message += &format!("\n{line}\n");
    }
    let tree = git.text(&["write-tree"])?;
    let base = git.text(&["rev-parse", "HEAD^{tree}"])?;
    let (strays, more) = strays(git, &base)?;
    if tree == base && strays.is_empty() {
        return Ok(());
    }
    if !strays.is_empty() {
        message += &format!("\nCommits that no delivered branch has are kept beside it: {}.\n", strays.len());
    }
    if more > 0 {
        message += &format!("\n{more} more such commits are left out.\n");
    }
    let mut args = vec!["commit-tree", &tree, "-m", &message, "-p", "HEAD"];
    args.extend(strays.iter().flat_map(|commit| ["-p", commit.as_str()]));
    let commit = git.text(&args)?;
    git.text(&["update-ref", "refs/opkit/rescue", &commit])?;
    let status = git
        .command(&["bundle", "create", "-q", "-", "refs/opkit/rescue", "--not", "--remotes"])
        .stdout(Stdio::inherit())
        .status()?;
    if status.success() { Ok(()) } else { bail!("git bundle ended with {status}") }
}

/// Begins with a copy of the worktree's own index: it knows which files have not changed, so that not every file is
/// read, and which ignored ones were added by force. Marks that hide changes from git are taken off. Without an index
/// that git can read it begins with HEAD.
fn start_index(git: &Git) -> Result<()> {
    let own = PathBuf::from(git.text(&["rev-parse", "--absolute-git-dir"])?).join("index");
    // A pipe in its place would never end.
    let is_file = std::fs::symlink_metadata(&own).is_ok_and(|meta| meta.is_file());
    if is_file && std::fs::copy(&own, &git.index).is_ok() {
        match git.hide_nothing() {
            Ok(()) => return Ok(()),
            Err(error) => eprintln!("The worktree's index cannot be used: {error:#}"),
        }
    }
    let _ = std::fs::remove_file(&git.index);
    git.text(&["read-tree", "HEAD"]).map(drop)
}

/// A file or a link stands there, and no part of its path is a link.
fn stands(here: &Path, name: &Path) -> bool {
    let parent = name.parent().unwrap_or(Path::new(""));
    std::fs::symlink_metadata(name).is_ok_and(|meta| !meta.is_dir())
        && std::fs::canonicalize(here.join(parent)).is_ok_and(|real| real == here.join(parent))
}

/// Commits that would be lost, newest first, each the end of its own line; and how many did not fit.
fn strays(git: &Git, base: &str) -> Result<(Vec<String>, usize)> {
    // What was brought back has been kept already.
    let kept = ["--exclude=refs/opkit/*", "--exclude=refs/heads/rescue/*", "--all"];
    let mut args = vec!["rev-list", "--parents", "--max-count=5000", "--ignore-missing"];
    args.extend(kept);
    // Without a log there is nothing to read.
    let log = git.text(&["log", "--walk-reflogs", "--format=%H", "-n", REFLOG, "HEAD"]).unwrap_or_default();
    args.extend(log.lines());
    args.extend(["--not", "HEAD", "--remotes", "--branches=obj/*"]);
    let list = git.text(&args)?;
    let commits: Vec<Vec<&str>> = list.lines().map(|line| line.split(' ').collect()).collect();
    let parents: HashSet<&str> = commits.iter().flat_map(|line| line.iter().skip(1)).copied().collect();
    let mut found = Vec::new();
    for commit in commits.iter().filter_map(|line| line.first()).filter(|commit| !parents.contains(*commit)) {
        // The same content under another message is no loss.
        if git.text(&["rev-parse", &format!("{commit}^{{tree}}")])? != base {
            found.push((*commit).to_owned());
        }
    }
    let more = found.len().saturating_sub(MAX_STRAYS);
    found.truncate(MAX_STRAYS);
    Ok((found, more))
}

/// git in the current directory with an index of its own.
struct Git {
    program: String,
    index: PathBuf,
}

impl Git {
    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(["-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "-c", "gc.auto=0"]);
        command.args(args).env("GIT_INDEX_FILE", &self.index).stdin(Stdio::null());
        command
    }

    fn bytes(&self, args: &[&str]) -> Result<Vec<u8>> {
        let output = self.command(args).stderr(Stdio::inherit()).output()?;
        if output.status.success() {
            Ok(output.stdout)
        } else {
            bail!("git {} ended with {}", args[0], output.status)
        }
    }

    fn text(&self, args: &[&str]) -> Result<String> {
        Ok(String::from_utf8_lossy(&self.bytes(args)?).trim().to_owned())
    }

    /// Takes *assume unchanged* and *skip worktree* off every file.
    fn hide_nothing(&self) -> Result<()> {
        let all = self.bytes(&["ls-files", "-v", "-z"])?;
        let mut hidden = Vec::new();
        for line in all.split(|byte| *byte == 0) {
            if let [tag, b' ', name @ ..] = line
                && (tag.is_ascii_lowercase() || *tag == b'S')
            {
                hidden.extend_from_slice(name);
                hidden.push(0);
            }
        }
        if !hidden.is_empty() {
            self.fed(&["update-index", "--no-assume-unchanged", "-z", "--stdin"], &hidden)?;
            self.fed(&["update-index", "--no-skip-worktree", "-z", "--stdin"], &hidden)?;
        }
        Ok(())
    }

    fn fed(&self, args: &[&str], input: &[u8]) -> Result<()> {
        use std::io::Write;
        let mut child = self.command(args).stdin(Stdio::piped()).spawn()?;
        child.stdin.take().context("git has no standard input")?.write_all(input)?;
        let status = child.wait()?;
        if status.success() { Ok(()) } else { bail!("git {} ended with {status}", args[0]) }
    }
}

fn path(name: &[u8]) -> &Path {
    use std::os::unix::ffi::OsStrExt;
    Path::new(std::ffi::OsStr::from_bytes(name))
}
