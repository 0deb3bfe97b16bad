//! What is tried where: a worker in mode homes, a reviewer, a worker in mode os-users.

use std::path::{Path, PathBuf};

use opkit_domain::session::{GuardPolicy, Identity, SYSTEM_READS, WallMode, WallSpec};

use super::super::layout::identity;
use super::{Ground, path_variable};

/// The attacker's session.
pub(in crate::attack) const OTHER: &str = "5c1e7a2e-0000-4000-8000-000000000041";
/// The worker's session of the objective that is reviewed.
pub(in crate::attack) const WORKER: &str = "5c1e7a2e-0000-4000-8000-000000000042";
/// The reviewer's own session.
pub(in crate::attack) const REVIEWER: &str = "5c1e7a2e-0000-4000-8000-000000000043";

/// The agents' group and two accounts' users in mode os-users: numbers, looked up nowhere.
pub(in crate::attack) const AGENTS: u32 = 64_000;
pub(in crate::attack) const ACCOUNT: u32 = 64_001;
pub(in crate::attack) const STRANGER: u32 = 64_002;

/// The group of the slot that works on an objective.
pub(in crate::attack) fn slot(objective: u32) -> u32 {
    64_100 + objective
}

/// Who attacks, and on which ground.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::attack) enum Stage {
    /// A worker; every session has the same user, and every file is open, so that only the wall refuses.
    Homes,
    /// A reviewer on the same open ground.
    Review,
    /// A worker where accounts have users and slots have groups, with owners and modes as installed.
    Accounts,
    /// The same without the wall and with every slot's group: the control.
    AccountsOpen,
}

impl Stage {
    /// Owners and modes are as installed.
    pub(in crate::attack) fn has_owners(self) -> bool {
        matches!(self, Stage::Accounts | Stage::AccountsOpen)
    }

    /// Whom the attacker runs as.
    pub(super) fn identity(self) -> Option<Identity> {
        let groups = match self {
            Stage::Homes | Stage::Review => return identity(),
            Stage::Accounts => vec![slot(42)],
            Stage::AccountsOpen => vec![slot(40), slot(41), slot(42)],
        };
        Some(Identity { uid: ACCOUNT, gid: AGENTS, groups })
    }

    /// The attacker's own places below the data directory; the first is where it works.
    pub(in crate::attack) fn own(self) -> Vec<PathBuf> {
        let (base, names): (_, &[&str]) = match self {
            Stage::Review => (Path::new("review").join(REVIEWER), &["tree", "out", "home"]),
            Stage::Homes | Stage::Accounts | Stage::AccountsOpen => {
                (PathBuf::from("work/42"), &["cc-worktree-42", "memory", "scratch", "state/work"])
            }
        };
        names.iter().map(|name| base.join(name)).collect()
    }
}

impl Ground {
    pub(in crate::attack) fn has_owners(&self) -> bool {
        self.stage.has_owners()
    }

    pub(in crate::attack) fn policy(&self) -> GuardPolicy {
        GuardPolicy {
            worktree: self.own(0),
            write: self.writable(),
            tools: vec!["Bash".into(), "Write".into()],
            mode: WallMode::Enforced,
            operator_hooks: Vec::new(),
        }
    }

    pub(super) fn own(&self, which: usize) -> PathBuf {
        self.stage.own().get(which).map_or_else(|| self.own(2), |path| self.root.join(path))
    }

    pub(super) fn writable(&self) -> Vec<PathBuf> {
        self.stage.own().iter().map(|path| self.root.join(path)).collect()
    }

    pub(super) fn wall(&self) -> WallSpec {
        let write = self.writable();
        if !self.walled {
            return WallSpec {
                mode: WallMode::HookOnly,
                write,
                read: None,
                block_unix_sockets: false,
                prove_no_write: Vec::new(),
                prove_no_read: Vec::new(),
                prove_no_connect: Vec::new(),
            };
        }
        let at = |path: &str| self.root.join(path);
        let mut read: Vec<PathBuf> = SYSTEM_READS.iter().map(PathBuf::from).collect();
        read.extend(write.iter().cloned());
        read.extend(["policy/own", "bin"].map(at));
        let hidden = match self.stage {
            // Its whole review directory, and nothing of the mirror: no history, no notes.
            Stage::Review => {
                read.push(at("review").join(REVIEWER));
                at("work/42/memory")
            }
            Stage::Homes | Stage::Accounts | Stage::AccountsOpen => {
                read.extend(["mirrors/1.git", "door"].map(at));
                at("review")
            }
        };
        WallSpec {
            mode: WallMode::Enforced,
            write,
            read: Some(read),
            block_unix_sockets: !self.stage.has_owners(),
            prove_no_write: vec![at("proof"), at("mirrors/1.git/proof"), "/tmp/opkit-proof-x".into()],
            prove_no_read: vec![at("db/opkit.db"), hidden],
            prove_no_connect: vec![at("run/control.sock"), at("run/tmux")],
        }
    }

    pub(super) fn environment(&self) -> Vec<(String, String)> {
        let text = |path: PathBuf| path.display().to_string();
        let home = if self.stage == Stage::Review { self.own(2) } else { self.own(3) };
        let mut env = vec![
            ("PATH", format!("{}:{}", text(self.root.join("bin/build")), path_variable())),
            ("HOME", text(home)),
            ("TMPDIR", text(self.own(2))),
            ("LANG", "C.UTF-8".to_owned()),
            ("GIT_TERMINAL_PROMPT", "0".to_owned()),
            ("GIT_CONFIG_NOSYSTEM", "1".to_owned()),
            ("GIT_CONFIG_GLOBAL", text(self.root.join("policy/own/gitconfig"))),
            ("GIT_AUTHOR_NAME", "A".to_owned()),
            ("GIT_AUTHOR_EMAIL", "a@example.org".to_owned()),
            ("GIT_COMMITTER_NAME", "A".to_owned()),
            ("GIT_COMMITTER_EMAIL", "a@example.org".to_owned()),
            ("OPKIT_SCRATCH", text(self.own(2))),
        ];
        env.push(match self.stage {
            Stage::Review => ("OPKIT_REVIEW", text(self.root.join("review").join(REVIEWER))),
            Stage::Homes | Stage::Accounts | Stage::AccountsOpen => ("OPKIT_MEMORY", text(self.own(1))),
        });
        env.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }
}
