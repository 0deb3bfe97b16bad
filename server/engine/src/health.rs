//! Health: what each background task did last, the disk, and what `doctor` finds.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use opkit_domain::access::{Access, Actor, Scope};
use opkit_domain::session::Outcome;
use opkit_domain::view::{HealthView, TaskView};

use crate::clock::now_ms;
use crate::engine::Engine;
use crate::error::{Error, Result};

/// Below this much free disk nothing new starts.
const DISK_FLOOR: u64 = 512 << 20;

/// Last results of background tasks.
#[derive(Default)]
pub(crate) struct Tasks(Mutex<BTreeMap<&'static str, (i64, Option<String>)>>);

impl Tasks {
    fn note(&self, name: &'static str, result: Option<String>) {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner).insert(name, (now_ms(), result));
    }

    pub(crate) fn ok(&self, name: &'static str) {
        self.note(name, None);
    }

    /// Notes a failure; the log has it once, the health page the sentence.
    pub(crate) fn failed(&self, name: &'static str, error: &Error) {
        let text = match error {
            Error::Internal(inner) => format!("{inner:#}"),
            Error::NotFound(_)
            | Error::Refused(_)
            | Error::Conflict(_)
            | Error::BadInput(_)
            | Error::Forbidden(_) => error.to_string(),
        };
        tracing::error!(task = name, error = text, "a background task failed");
        self.note(name, Some(text));
    }

    fn views(&self) -> Vec<TaskView> {
        let tasks = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        tasks
            .iter()
            .map(|(name, (at, error))| TaskView {
                name: (*name).to_owned(),
                last_run: Some(*at),
                result: error.clone().unwrap_or_else(|| "ok".into()),
                ok: error.is_none(),
            })
            .collect()
    }
}

/// Housekeeping: windows of ended sessions.
pub(crate) fn spawn(engine: Engine) {
    tokio::spawn(async move {
        loop {
            tokio::time::sleep(Duration::from_secs(30)).await;
            match engine.sweep_windows().await {
                Ok(()) => engine.tasks().ok("windows"),
                Err(error) => engine.tasks().failed("windows", &error),
            }
        }
    });
}

impl Engine {
    async fn sweep_windows(&self) -> Result<()> {
        for account in self.accounts().await? {
            self.tmux().sweep(&self.dirs().tmux_socket(&account.name), now_ms() / 1000).await?;
        }
        Ok(())
    }

    /// Free bytes where the data is.
    pub(crate) fn disk_free(&self) -> u64 {
        rustix::fs::statvfs(&self.dirs().root).map_or(u64::MAX, |stat| stat.f_bavail * stat.f_frsize)
    }

    pub(crate) fn disk_is_low(&self) -> bool {
        self.disk_free() < DISK_FLOOR
    }

    /// The health page.
    pub async fn health(&self, scope: Scope) -> Result<HealthView> {
        Ok(HealthView {
            version: format!("{} ({})", env!("CARGO_PKG_VERSION"), self.build_id()),
            mode: self.mode(),
            wall: "enforced: no session starts without it".into(),
            accounts: self.accounts().await?,
            tasks: self.tasks().views(),
            disk_free: self.disk_free(),
            wip: self.wip(scope).await?,
            checks: self.doctor().await,
            now: now_ms(),
        })
    }

    fn mode(&self) -> String {
        match self.identity() {
            Some(identity) => format!("homes: every session runs as opkit-agent ({})", identity.uid),
            None => {
                "homes: every session runs as the service's own user, and only the wall separates them".into()
            }
        }
    }

    /// What a person would check first: (fine, sentence).
    pub async fn doctor(&self) -> Vec<(bool, String)> {
        let mut lines = vec![
            (true, format!("Data directory {}", self.dirs().root.display())),
            (true, format!("Mode: {}", self.mode())),
            (true, format!("git: {}", self.git().program().display())),
        ];
        let abi = fs_abi();
        lines.push((abi >= 3, format!("Landlock ABI {abi}; 3 or more is needed for an enforced wall")));
        let free = self.disk_free() >> 20;
        lines.push((
            !self.disk_is_low(),
            format!("{free} MB free; below {} MB nothing starts", DISK_FLOOR >> 20),
        ));
        match crate::kill_switch::reason(&self.dirs().kill_switch()) {
            Some(why) => {
                lines.push((false, format!("Kill switch: {why} Run `opkit enable` to start again.")))
            }
            None => lines.push((true, "Kill switch is off".into())),
        }
        if let Some(claude) = self.agents().claude() {
            match crate::agents::readable(claude, self.identity()) {
                Ok(()) => lines.push((true, format!("Claude Code: {}", claude.display()))),
                Err(error) => lines.push((false, error.to_string())),
            }
        } else {
            lines.push((true, "Claude Code is not set up; the demo agent needs nothing".into()));
        }
        match self.accounts().await {
            Ok(accounts) => {
                for account in accounts {
                    let fine = account.state == "available";
                    lines.push((
                        fine,
                        format!("Account {}: {} {}", account.name, account.state, account.reason),
                    ));
                }
            }
            Err(error) => lines.push((false, format!("The database does not answer: {error}"))),
        }
        lines
    }

    /// Sets the kill switch and asks every live session to end. Gives how many were asked.
    pub async fn stop_all(&self, actor: &Actor) -> Result<u32> {
        self.operator(actor)?;
        let text = format!("Stopped by {}.", actor.name);
        crate::kill_switch::set(&self.dirs().kill_switch(), &text)?;
        // Every claim before this point is committed once the gate was ours; none comes after.
        let mut tx = self.store().begin().await?;
        crate::store::claim::take_gate(&mut tx).await?;
        tx.commit().await?;
        let live = self.store().live_sessions().await?;
        for row in &live {
            self.ask_to_stop(&row.id, Outcome::Stopped, &format!("stop-all by {}", actor.name)).await?;
        }
        self.audit(actor, "stop_all", "", serde_json::json!({ "sessions": live.len() })).await?;
        self.changed();
        Ok(live.len() as u32)
    }

    /// Lifts the kill switch. Only the machine itself may.
    pub async fn enable(&self, actor: &Actor) -> Result<()> {
        if actor.access < Access::Owner {
            return Err(Error::Forbidden(
                "Only the command line on the machine enables again: opkit enable".into(),
            ));
        }
        crate::kill_switch::lift(&self.dirs().kill_switch())?;
        self.audit(actor, "enable", "", serde_json::json!({})).await?;
        self.changed();
        Ok(())
    }
}

/// The kernel's Landlock ABI as its own list of security modules suggests; the runner proves it at each start.
fn fs_abi() -> u32 {
    let list = std::fs::read_to_string("/sys/kernel/security/lsm").unwrap_or_default();
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let mut numbers = release.split(['.', '-']).map_while(|part| part.parse::<u32>().ok());
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    if !list.is_empty() && !list.contains("landlock") {
        return 0;
    }
    match version {
        (major, minor) if (major, minor) >= (6, 15) => 7,
        (major, minor) if (major, minor) >= (6, 12) => 6,
        (major, minor) if (major, minor) >= (6, 10) => 5,
        (major, minor) if (major, minor) >= (6, 7) => 4,
        (major, minor) if (major, minor) >= (6, 2) => 3,
        (major, minor) if (major, minor) >= (5, 19) => 2,
        (major, minor) if (major, minor) >= (5, 13) => 1,
        _ => 0,
    }
}
