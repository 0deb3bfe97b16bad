//! Lays the ground out: who owns it, what is in it, and that file modes stop nothing.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, lchown};
use std::path::Path;
use std::process::Command;

use anyhow::{Context, bail};
use opkit_domain::session::Identity;

use super::ground::{ACCOUNT, AGENTS, CANARY, OTHER, REVIEWER, STRANGER, Stage, WORKER, slot};

/// For root: the agents' user, or nobody.
pub(crate) fn identity() -> Option<Identity> {
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
pub(super) fn lay_out(root: &Path, program: &Path, stage: Stage) -> anyhow::Result<()> {
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
        "home/own",
        "work/40/memory",
        "work/40/cc-worktree-40",
        "work/41/memory",
        "work/41/scratch",
        "work/41/state/work",
    ];
    let own = [Stage::Homes, Stage::Review].into_iter().flat_map(Stage::own).map(|dir| root.join(dir));
    let others = [("sessions", OTHER), ("sessions", WORKER), ("review", OTHER)];
    let others = others.map(|(dir, id)| at(dir).join(id));
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
        "home/own/credentials",
        "work/40/memory/NOTES.md",
        "work/40/cc-worktree-40/secret",
        "work/41/memory/NOTES.md",
        "work/41/scratch/x",
        "work/41/scratch/there",
        "work/41/state/work/token",
        "DISABLED",
        "open/meta",
    ];
    secrets.iter().try_for_each(|name| fs::write(at(name), format!("{CANARY}\n")))?;
    for session in [OTHER, WORKER].map(|id| at("sessions").join(id)) {
        for name in ["spec.json", "transcript.jsonl", "stop.json", "exit.json"] {
            fs::write(session.join(name), format!("{CANARY}\n"))?;
        }
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
    if stage == Stage::Review {
        lay_out_review(root)?;
    }
    fs::write(other.join("secret"), format!("{CANARY}\n"))?;
    git(&other, &["add", "-A"])?;
    git(&other, &["commit", "-q", "-m", CANARY])?;
    fs::remove_dir_all(at("seed"))?;
    Ok(())
}

/// What a worker left, and what its reviewer gets of it.
fn lay_out_review(root: &Path) -> anyhow::Result<()> {
    let worker = root.join("work/42");
    let tree = worker.join("cc-worktree-42");
    git(root, &["clone", "-q", "seed", &tree.display().to_string()])?;
    fs::write(tree.join("secret"), format!("{CANARY}\n"))?;
    git(&tree, &["add", "-A"])?;
    git(&tree, &["commit", "-q", "-m", CANARY])?;
    for name in ["memory/NOTES.md", "scratch/x", "state/work/token", "state/work/conversation.jsonl"] {
        fs::write(worker.join(name), format!("{CANARY}\n"))?;
    }
    let review = root.join("review").join(REVIEWER);
    fs::write(review.join("tree/README.md"), "# Seed\n")?;
    fs::write(review.join("tree/check.sh"), "test -f README.md\n")?;
    for name in ["brief.md", "floor.json", "diff.patch"] {
        fs::write(review.join(name), "for the reviewer\n")?;
    }
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

/// Owners and modes as the service makes them: parents belong to the slot's group, leaves to the account.
pub(super) fn as_installed(root: &Path) -> anyhow::Result<()> {
    own(root, 0, 0, 0o700, 0o600)?;
    set(root, 0, 0, 0o711)?;
    for public in ["bin", "door", "policy", "mirrors"] {
        own(&root.join(public), 0, 0, 0o755, 0o755)?;
    }
    for passage in ["work", "review", "home"] {
        set(&root.join(passage), 0, 0, 0o711)?;
    }
    for (objective, account) in [(40, STRANGER), (41, ACCOUNT), (42, ACCOUNT)] {
        let work = root.join(format!("work/{objective}"));
        own(&work, account, AGENTS, 0o700, 0o600)?;
        set(&work, 0, slot(objective), 0o710)?;
        let state = work.join("state");
        if state.exists() {
            set(&state, 0, slot(objective), 0o710)?;
        }
    }
    for (review, account) in [(OTHER, ACCOUNT), (REVIEWER, STRANGER)] {
        let review = root.join("review").join(review);
        own(&review, account, AGENTS, 0o700, 0o600)?;
        set(&review, 0, slot(41), 0o710)?;
    }
    for (home, account) in [("own", ACCOUNT), ("other", STRANGER)] {
        own(&root.join("home").join(home), account, AGENTS, 0o700, 0o600)?;
    }
    // A place like the directory for temporary files: everybody may write, what is in it is the service's.
    own(&root.join("open"), 0, 0, 0o777, 0o666)?;
    fs::write(root.join("open/service"), CANARY)?;
    for file in ["open/meta", "open/service"] {
        set(&root.join(file), 0, 0, 0o644)?;
    }
    set(&root.join("bin/build/setuid-copy"), 0, 0, 0o4755)
}

fn own(path: &Path, uid: u32, gid: u32, dirs: u32, files: u32) -> anyhow::Result<()> {
    let meta = fs::symlink_metadata(path)?;
    if meta.is_dir() {
        for entry in fs::read_dir(path)? {
            own(&entry?.path(), uid, gid, dirs, files)?;
        }
    }
    if meta.is_symlink() {
        return Ok(lchown(path, Some(uid), Some(gid))?);
    }
    set(path, uid, gid, if meta.is_dir() { dirs } else { files })
}

fn set(path: &Path, uid: u32, gid: u32, mode: u32) -> anyhow::Result<()> {
    lchown(path, Some(uid), Some(gid))?;
    Ok(fs::set_permissions(path, Permissions::from_mode(mode))?)
}
