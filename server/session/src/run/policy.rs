//! What the agent runs under: the policy's fingerprint, and settings of the repository that are not loaded.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, ResolveFlags, openat2};
use rustix::io::Errno;
use sha2::{Digest, Sha256};

/// Files and bytes of a policy: it holds three small ones.
const FILES: usize = 64;
const FILE_BYTES: u64 = 1 << 20;

/// Places in a worktree that an agent's CLI would read settings, hooks, servers or commands from. Instructions
/// that every contributor reads (`CLAUDE.md`, `AGENTS.md`) are not among them.
const SETTINGS: &[&str] = &[
    ".claude/settings.json",
    ".claude/settings.local.json",
    ".claude/hooks",
    ".claude/agents",
    ".claude/commands",
    ".claude/skills",
    ".claude/plugins",
    ".claude/output-styles",
    ".claude/workflows",
    ".claude.json",
    ".claude-plugin",
    ".mcp.json",
    "CLAUDE.local.md",
    ".codex/config.toml",
    ".codex/hooks.json",
    ".codex/agents",
    ".codex/prompts",
    "opencode.json",
    "opencode.jsonc",
    ".opencode",
];

/// SHA-256 over the names and contents of the files in `dir`, hexadecimal.
pub(super) fn fingerprint(dir: &Path) -> io::Result<String> {
    let mut names: Vec<PathBuf> = Vec::new();
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            names.push(entry.path());
        }
        if names.len() > FILES {
            return Err(io::Error::other("too many files"));
        }
    }
    names.sort();
    let mut all = Sha256::new();
    for path in names {
        let mut content = Vec::new();
        let file =
            File::options().read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(&path)?;
        if file.take(FILE_BYTES + 1).read_to_end(&mut content)? as u64 > FILE_BYTES {
            return Err(io::Error::other("a file is too large"));
        }
        let name = path.file_name().unwrap_or_default().as_encoded_bytes();
        // With their lengths, so that no two sets of files read the same.
        for part in [name, &content] {
            all.update((part.len() as u64).to_be_bytes());
            all.update(part);
        }
    }
    Ok(all.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Settings that lie in the worktree. A link counts: the CLI would follow it.
pub(super) fn planted(worktree: &Path) -> Vec<String> {
    let Ok(tree) = File::open(worktree) else { return Vec::new() };
    // The tree is the agents': nothing in it may lead us elsewhere.
    let way = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    let is_there = |name: &&&str| {
        let found = openat2(&tree, **name, OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), way);
        matches!(found, Ok(_) | Err(Errno::LOOP))
    };
    SETTINGS.iter().filter(is_there).map(|name| (*name).to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn the_fingerprint_changes_with_names_and_contents() {
        let dir = tempfile::tempdir().expect("a directory");
        let at = |name: &str| dir.path().join(name);
        let print = || fingerprint(dir.path()).expect("a fingerprint");
        fs::write(at("policy.json"), "{}").expect("a file");
        fs::write(at("gitconfig"), "").expect("a file");
        let first = print();
        assert_eq!((first.len(), first.clone()), (64, print()));
        fs::write(at("gitconfig"), "x").expect("a file");
        let second = print();
        fs::rename(at("gitconfig"), at("gitconfig2")).expect("renamed");
        let third = print();
        fs::write(at("more"), "").expect("a file");
        assert!(first != second && second != third && third != print());
        assert!(fingerprint(&at("missing")).is_err());
    }

    #[test]
    fn settings_of_the_repository_are_seen_and_links_not_followed() {
        let dir = tempfile::tempdir().expect("a directory");
        let (tree, other) = (dir.path().join("tree"), dir.path().join("other"));
        fs::create_dir_all(tree.join(".claude/commands")).expect("a directory");
        fs::create_dir_all(&other).expect("a directory");
        fs::write(tree.join(".claude/settings.json"), "{}").expect("a file");
        fs::write(tree.join("CLAUDE.md"), "").expect("a file");
        fs::write(tree.join(".mcp.json"), "").expect("a file");
        symlink(&other, tree.join(".codex")).expect("a link");
        symlink("nowhere", tree.join("opencode.json")).expect("a link");
        let found = planted(&tree);
        for name in
            [".claude/settings.json", ".claude/commands", ".mcp.json", ".codex/config.toml", "opencode.json"]
        {
            assert!(found.iter().any(|found| found == name), "{name} in {found:?}");
        }
        assert!(!found.iter().any(|name| name.contains("CLAUDE.md") || name.contains("hooks/")));
        assert!(planted(&dir.path().join("none")).is_empty());
    }
}
