//! Lays the ground out: who owns it, what is in it, and that file modes stop nothing.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, lchown};
use std::path::Path;
use std::process::Command;

use anyhow::{Context, bail};
use opkit_domain::session::Identity;

use super::ground::{CANARY, OTHER, OWN};

/// For root: the agents' user, or nobody.
pub(super) fn identity() -> Option<Identity> {
    if !rustix::process::geteuid().is_root() {
        return None;
    }
    let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let agent = users.lines().find_map(|line| {
        let mut fields = line.strip_prefix("opkit-agent:")?.split(':').skip(1);
        Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
    });
    let (uid, gid) = agent.unwrap_or((65534, 65534));
    Some(Identity { uid, gid, groups: Vec::new() })
}

/// Makes everything below `root`.
pub(super) fn lay_out(root: &Path, program: &Path) -> anyhow::Result<()> {
    let at = |path: &str| root.join(path);
    let dirs = [
        "bin/build",
        "bin/hooks",
        "db",
        "keys",
        "run",
        "audit",
        "door",
        "policy/own",
        "mirrors",
        "open/dir",
        "second",
        "home/other/.ssh",
        "work/41/memory",
        "work/41/scratch",
        "work/41/state/work",
    ];
    let own = OWN.iter().map(|name| at("work/42").join(name));
    let others = ["sessions", "review"].map(|dir| at(dir).join(OTHER));
    for dir in dirs.iter().map(|dir| at(dir)).chain(own).chain(others) {
        fs::create_dir_all(dir)?;
    }
    fs::create_dir(at("review").join(OTHER).join("out"))?;
    fs::copy(program, at("bin/build/opkit-session"))?;
    fs::copy(program, at("bin/build/setuid-copy"))?;
    let secrets = [
        "db/opkit.db",
        "keys/anthropic",
        "audit/log",
        "open/there",
        "open/leak",
        "home/other/.profile",
        "home/other/.ssh/id",
        "work/41/memory/NOTES.md",
        "work/41/scratch/x",
        "work/41/state/work/token",
        "DISABLED",
        "open/meta",
    ];
    secrets.iter().try_for_each(|name| fs::write(at(name), format!("{CANARY}\n")))?;
    let session = at("sessions").join(OTHER);
    for name in ["spec.json", "transcript.jsonl", "stop.json", "exit.json"] {
        fs::write(session.join(name), format!("{CANARY}\n"))?;
    }
    fs::write(at("review").join(OTHER).join("brief.md"), CANARY)?;
    fs::write(at("door/session-door"), "127.0.0.1:1\n")?;
    fs::write(at("bin/hooks/prepare-commit-msg"), "#!/bin/sh\n")?;
    fs::write(at("policy/own/policy.json"), "{}")?;
    fs::write(at("policy/own/settings.json"), "{}")?;
    // Both the mirror and the strangers' repositories: what is refused there is not git's own caution.
    fs::write(at("policy/own/gitconfig"), "[safe]\n\tdirectory = *\n[init]\n\tdefaultBranch = main\n")?;
    let meta = File::options().write(true).open(at("open/meta"))?;
    meta.set_modified(super::inside::long_ago())?;
    let other = at("work/41/cc-worktree-41");
    git(root, &["init", "-q", "seed"])?;
    fs::write(at("seed/README.md"), "# Seed\n")?;
    git(&at("seed"), &["add", "-A"])?;
    git(&at("seed"), &["commit", "-q", "-m", "Seed"])?;
    git(root, &["clone", "-q", "--bare", "seed", "mirrors/1.git"])?;
    git(root, &["clone", "-q", "seed", &other.display().to_string()])?;
    fs::write(other.join("secret"), format!("{CANARY}\n"))?;
    git(&other, &["add", "-A"])?;
    git(&other, &["commit", "-q", "-m", CANARY])?;
    fs::remove_dir_all(at("seed"))?;
    Ok(())
}

fn git(cwd: &Path, args: &[&str]) -> anyhow::Result<()> {
    let mut command = Command::new("git");
    command.args(["-c", "init.templateDir=", "-c", "user.name=T", "-c", "user.email=t@example.org"]);
    command.args(["-c", "init.defaultBranch=main", "-c", "commit.gpgSign=false"]);
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("GIT_") {
            command.env_remove(name);
        }
    }
    command.env("GIT_CONFIG_NOSYSTEM", "1").env("GIT_CONFIG_GLOBAL", "/dev/null");
    let output = command.args(args).current_dir(cwd).output().context("git is needed")?;
    if !output.status.success() {
        bail!("git {args:?}: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}

/// Hands everything to the agents' user and lets everyone write: only the wall shall refuse.
pub(super) fn open_to_all(root: &Path, identity: Option<&Identity>) -> anyhow::Result<()> {
    let mut left = vec![root.to_owned()];
    while let Some(path) = left.pop() {
        let meta = fs::symlink_metadata(&path)?;
        if let Some(identity) = identity {
            lchown(&path, Some(identity.uid), Some(identity.gid))?;
        }
        if meta.is_symlink() {
            continue;
        }
        fs::set_permissions(
            &path,
            Permissions::from_mode(meta.mode() | 0o666 | if meta.is_dir() { 0o111 } else { 0 }),
        )?;
        if meta.is_dir() {
            for entry in fs::read_dir(&path)? {
                left.push(entry?.path());
            }
        }
    }
    if identity.is_some() {
        // What the service owns, as in the product, and a program that would make one root.
        for (name, mode) in [("open/service", 0o644), ("bin/build/setuid-copy", 0o4755)] {
            let path = root.join(name);
            if name == "open/service" {
                fs::write(&path, CANARY)?;
            }
            lchown(&path, Some(0), Some(0))?;
            fs::set_permissions(&path, Permissions::from_mode(mode))?;
        }
    }
    Ok(())
}
