//! Health: what each background task did last, the disk, and what `doctor` finds.

mod tasks;

use std::time::Duration;

use opkit_domain::access::{Access, Actor, Scope};
use opkit_domain::session::{OLDEST_LANDLOCK, Outcome, WallMode};
use opkit_domain::view::HealthView;

use crate::clock::now_ms;
use crate::engine::Engine;
use crate::error::{Error, Result};
pub(crate) use tasks::Tasks;

/// Below this much free disk nothing new starts, unless the operator says otherwise.
pub(crate) const DISK_FLOOR: u64 = 512 << 20;

/// Housekeeping: windows of ended sessions.
pub(crate) fn spawn(engine: Engine) {
    tokio::spawn(async move {
        loop {
            // A server that hangs is asked again soon: its account waits for that.
            for _ in 0..6 {
                tokio::time::sleep(Duration::from_secs(5)).await;
                if engine.tmux().any_silent() {
                    break;
                }
            }
            match engine.sweep_windows().await {
                Ok(()) => engine.tasks().ok("windows"),
                Err(error) => engine.tasks().failed("windows", &error),
            }
        }
    });
}

impl Engine {
    /// Every account has its turn, whatever another one's tmux does.
    async fn sweep_windows(&self) -> Result<()> {
        let mut failed = None;
        // Reading the pool this way also notes credentials that came or went.
        for account in self.accounts().await? {
            let socket = self.dirs().tmux_socket(&account.name);
            if let Err(error) = self.tmux().sweep(&socket, now_ms() / 1000).await {
                failed = Some(error);
            }
        }
        failed.map_or(Ok(()), Err)
    }

    /// Why this server should not be given work now, if so.
    pub fn not_ready(&self) -> Option<String> {
        if self.draining() {
            return Some("it leaves; sessions go on".into());
        }
        if !self.is_ready() {
            return Some("sessions are being looked at".into());
        }
        self.tasks().poller_fails()
    }

    /// What the wall is, for people.
    fn wall_text(&self) -> &'static str {
        match self.wall_mode() {
            WallMode::Enforced => "enforced: no session starts without it",
            WallMode::HookOnly => {
                "hook only: the kernel enforces nothing, and only the guard asks (OPKIT_WALL=hook_only)"
            }
        }
    }

    /// Free bytes where the data is.
    pub(crate) fn disk_free(&self) -> u64 {
        rustix::fs::statvfs(&self.dirs().root).map_or(u64::MAX, |stat| stat.f_bavail * stat.f_frsize)
    }

    pub(crate) fn disk_is_low(&self) -> bool {
        self.disk_free() < self.disk_floor()
    }

    /// The sentence for people when there is so little room that nothing new starts.
    pub(crate) fn low_disk(&self) -> Option<String> {
        let free = self.disk_free();
        (free < self.disk_floor()).then(|| {
            format!(
                "Disk is low: {} MB free, and below {} MB nothing new starts. It goes on when there is more.",
                free >> 20,
                self.disk_floor() >> 20
            )
        })
    }

    /// The health page.
    pub async fn health(&self, scope: Scope) -> Result<HealthView> {
        Ok(HealthView {
            version: format!("{} ({})", env!("CARGO_PKG_VERSION"), self.build_id()),
            mode: self.mode_text().await?,
            wall: self.wall_text().into(),
            accounts: self.accounts().await?,
            tasks: self.tasks().views(),
            disk_free: self.disk_free(),
            disk: self.disk_known(),
            wip: self.wip(scope).await?,
            checks: self.doctor().await,
            now: now_ms(),
        })
    }

    /// What a person would check first: (fine, sentence).
    pub async fn doctor(&self) -> Vec<(bool, String)> {
        let mut lines = vec![
            (true, format!("Data directory {}", self.dirs().root.display())),
            (true, format!("Mode: {}", self.mode_text().await.unwrap_or_else(|error| error.to_string()))),
            (self.wall_mode() == WallMode::Enforced, format!("Wall: {}", self.wall_text())),
            (true, format!("git: {}", self.git().program().display())),
        ];
        let abi = fs_abi();
        lines.push((
            abi >= OLDEST_LANDLOCK,
            format!(
                "Landlock ABI {abi}; {OLDEST_LANDLOCK} or more (Linux 6.12) is needed for an enforced wall"
            ),
        ));
        let free = self.disk_free() >> 20;
        lines.push((
            !self.disk_is_low(),
            format!("{free} MB free; below {} MB nothing starts", self.disk_floor() >> 20),
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
        lines.extend(self.probe_line());
        match self.reachable().await {
            Ok(sentence) => lines.push((true, sentence)),
            Err(error) => lines.push((false, format!("The machine's sockets cannot be listed: {error}"))),
        }
        for sentence in self.broken_guards().values() {
            lines.push((false, sentence.clone()));
        }
        match self.accounts().await {
            Ok(accounts) => {
                let users = crate::os_users::uids().unwrap_or_default();
                for account in accounts {
                    if let Some(user) = account.os_user.as_deref()
                        && self.has_slots()
                        && !users.contains_key(user)
                    {
                        lines.push((
                            false,
                            format!(
                                "Account {}: its OS user {user} does not exist, so nothing starts on it. Run: opkit \
                                 accounts provision, or make the user",
                                account.name
                            ),
                        ));
                        continue;
                    }
                    // Only a person can mend a login; a cool-down ends by itself, and disabled is a choice.
                    let fine = account.state != "needs_login";
                    let why = if account.reason.is_empty() {
                        String::new()
                    } else {
                        format!(", {}", account.reason)
                    };
                    let state = account.state.replace('_', " ");
                    lines.push((fine, format!("Account {}: {state}{why}", account.name)));
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
        // Every claim before this point is committed once the gate was ours; none comes after. A database that cannot
        // be written takes no claim either.
        if let Err(error) = self.take_gate().await {
            tracing::error!(%error, "stop-all goes on without the gate");
        }
        let live = self.store().live_sessions().await?;
        let by = format!("stop-all by {}", actor.name);
        let mut failed = None;
        for row in &live {
            // One that cannot be asked keeps nobody else from being asked.
            failed = self.ask_to_stop(&row.id, Outcome::Stopped, &by).await.err().or(failed);
        }
        if let Some(error) = failed {
            return Err(error);
        }
        let detail = serde_json::json!({ "sessions": live.len() });
        if let Err(error) = self.audit(actor, "stop_all", "", detail).await {
            tracing::error!(%error, by = actor.name, "stop-all could not be noted in the audit");
        }
        self.changed();
        Ok(live.len() as u32)
    }

    async fn take_gate(&self) -> Result<()> {
        let mut tx = self.store().begin().await?;
        crate::store::claim::take_gate(&mut tx).await?;
        Ok(tx.commit().await?)
    }

    /// Lifts the kill switch. Only the machine itself may.
    pub async fn enable(&self, actor: &Actor) -> Result<()> {
        if actor.access < Access::Owner {
            return Err(Error::Forbidden(
                "Only the command line on the machine enables again: opkit enable".into(),
            ));
        }
        crate::kill_switch::lift(&self.dirs().kill_switch())?;
        self.mend_guards().await?;
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
