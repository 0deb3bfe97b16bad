//! Housekeeping: directories compared with rows, at start and on a timer. Whatever is ours and dead goes; whatever
//! nobody knows is said, never touched.

mod branches;
mod disk;
mod locks;
mod mirrors;
mod pack;
mod remove;
mod retain;

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use opkit_domain::access::{Access, Actor};
use opkit_domain::ids::ObjectiveId;
use opkit_domain::session::files;
use opkit_domain::view::{EditUpkeep, Upkeep};

use crate::clock::now_ms;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::rescue::DAY_MS;
use crate::store::events::{NewEvent, append};
use crate::store::upkeep::worktree_gone;

pub(crate) use disk::blocks;
#[cfg(test)]
pub(crate) use pack::pack_session;
pub(crate) use remove::remove_tree;

/// How often directories are compared with rows.
const PERIOD: Duration = Duration::from_secs(600);
/// How often that includes every session that ever was, and what costs more.
const THOROUGH: Duration = Duration::from_secs(6 * 3600);
/// What a process that died may have left half made is dead after this.
const HALF_MADE: Duration = Duration::from_secs(3600);
/// The policy of a session that ended is of use for as long.
const POLICY_MS: i64 = 14 * DAY_MS;

/// Sets the task going.
pub(crate) fn spawn(engine: Engine) {
    tokio::spawn(async move {
        let mut thorough: Option<Instant> = None;
        let mut asked = false;
        let mut first = true;
        while !engine.draining() {
            let is_thorough = asked || thorough.is_none_or(|at| at.elapsed() >= THOROUGH);
            if is_thorough {
                thorough = Some(Instant::now());
            }
            engine.keep_house(is_thorough).await;
            // Packing has time until the server has run for a while.
            if is_thorough && !first {
                match engine.tend_mirrors().await {
                    Ok(()) => engine.tasks().ok("mirrors"),
                    Err(error) => engine.tasks().failed("mirrors", &error),
                }
            }
            first = false;
            // A person changed how long things are kept, or it is time.
            asked = tokio::time::timeout(PERIOD, engine.house_wake().notified()).await.is_ok();
        }
    });
}

/// What one pass found.
#[derive(Debug, Default)]
struct Found {
    /// Done already; the log has it.
    mended: Vec<String>,
    /// For a person to look at.
    unknown: Vec<String>,
}

impl Found {
    fn mended(&mut self, sentence: String) {
        tracing::warn!(sentence, "housekeeping mended something");
        self.mended.push(sentence);
    }

    /// For a person; nothing here can mend it.
    fn lost(&mut self, sentence: String) {
        self.unknown.push(sentence);
    }

    fn unknown(&mut self, dir: &str, name: &str, whose: &str) {
        let name = crate::git::short(name);
        let at = if dir.ends_with("branch") { ' ' } else { '/' };
        self.unknown
            .push(format!("{dir}{at}{name} belongs to no {whose}. Look at it, and delete it by hand."));
    }
}

impl Engine {
    async fn keep_house(&self, thorough: bool) {
        match self.look_around(thorough).await {
            Ok(found) => self.say("directories", &found.unknown),
            Err(error) => self.tasks().failed("directories", &error),
        }
        match self.retain(thorough).await {
            Ok(kept) => self.say("retention", &kept),
            Err(error) => self.tasks().failed("retention", &error),
        }
        match self.disk_use().await {
            Ok(disk) if disk.is_over() => {
                let text = format!(
                    "{} MB are in use of a budget of {} MB: no checkouts are made ahead. Raise the budget with \
                     `opkit upkeep --disk-budget MB`, or keep worktrees for fewer days.",
                    disk.counted() >> 20,
                    disk.budget >> 20
                );
                self.say("disk budget", &[text]);
                // What is made ahead is the first to make room.
                self.pool().look();
            }
            Ok(_) => self.tasks().ok("disk budget"),
            Err(error) => self.tasks().failed("disk budget", &error),
        }
    }

    /// What a task wants people to look at, on the health page.
    fn say(&self, task: &'static str, lines: &[String]) {
        match sentence(lines) {
            Some(text) => self.tasks().failed(task, &Error::Refused(text)),
            None => self.tasks().ok(task),
        }
    }

    /// Compares directories with rows and mends what is provably ours and dead; gives what it found, in sentences.
    pub async fn reconcile(&self) -> Result<Vec<String>> {
        let found = self.look_around(true).await?;
        Ok([found.mended, found.unknown].concat())
    }

    async fn look_around(&self, thorough: bool) -> Result<Found> {
        let mut found = Found::default();
        self.look_at_worktrees(&mut found).await?;
        self.look_at_mirrors(&mut found).await?;
        self.clear_locks(&mut found).await?;
        self.look_at_sessions("review", &mut found).await?;
        if thorough {
            self.look_at_work(&mut found).await?;
            self.look_at_sessions("sessions", &mut found).await?;
            self.look_at_sessions("policy", &mut found).await?;
            self.look_at_branches(&mut found).await?;
        }
        Ok(found)
    }

    /// Whether an objective's worktree is where it should be.
    pub(crate) fn worktree_stands(&self, id: ObjectiveId) -> bool {
        // A place that cannot be looked at is no proof that it is empty.
        match fs::read_dir(self.dirs().worktree(id)) {
            Ok(mut entries) => entries.next().is_some(),
            Err(error) => error.kind() != std::io::ErrorKind::NotFound,
        }
    }

    async fn look_at_work(&self, found: &mut Found) -> Result<()> {
        for name in names(&self.dirs().root.join("work"))? {
            let known = match name.parse() {
                Ok(id) => self.store().kept(id).await?.is_some(),
                Err(_) => false,
            };
            if !known {
                found.unknown("work", &name, "objective");
            }
        }
        Ok(())
    }

    /// Worktrees that should be there and are not.
    async fn look_at_worktrees(&self, found: &mut Found) -> Result<()> {
        for kept in self.store().with_worktree().await? {
            if self.worktree_stands(kept.id) {
                continue;
            }
            let mut tx = self.store().begin().await?;
            if !worktree_gone(&mut tx, kept.id).await? {
                continue;
            }
            let reason = format!(
                "The worktree was removed by hand. The next session makes it anew from obj/{}.",
                kept.id
            );
            append(&mut tx, kept.scope, note(kept.id, "worktree_gone", &reason)).await?;
            tx.commit().await?;
            self.feed_wake().notify_one();
            found.mended(format!("#{}: {reason}", kept.id));
        }
        Ok(())
    }

    /// Directories named after sessions.
    async fn look_at_sessions(&self, place: &'static str, found: &mut Found) -> Result<()> {
        let root = self.dirs().root.join(place);
        for name in names(&root)? {
            let Some(ended) = self.store().session_end(&name).await? else {
                found.unknown(place, &name, "session");
                continue;
            };
            let Some(ended) = ended else { continue };
            let dir = root.join(&name);
            match place {
                // The export was the reviewer's to write in and is thrown away; what it saw is stored.
                "review" if now_ms() - ended > 60_000 => {
                    remove(dir).await?;
                    found.mended(format!("The export of review session {name} is cleared."));
                }
                "policy" if now_ms() - ended > POLICY_MS => remove(dir).await?,
                "sessions" if now_ms() - ended > 60_000 => {
                    for left in ["tree.tar", files::RESULT_BUNDLE] {
                        let _ = fs::remove_file(dir.join(left));
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// How long things are kept, and how much room they may take.
    pub async fn upkeep(&self) -> Result<Upkeep> {
        let store = self.store();
        let small = async |name, usual: u32| {
            Ok::<u32, Error>(store.number(name).await?.and_then(|n| u32::try_from(n).ok()).unwrap_or(usual))
        };
        Ok(Upkeep {
            warm_pool: small("warm_pool", crate::pool::DEFAULT_SIZE).await?,
            disk_budget_mb: store.number("disk_budget_mb").await?.and_then(|n| u64::try_from(n).ok()),
            worktree_days: small("worktree_days", 14).await?,
            rescue_days: small("rescue_days", 30).await?,
            record_days: small("record_days", 90).await?,
        })
    }

    /// Changes what [`Engine::upkeep`] says.
    pub async fn set_upkeep(&self, actor: &Actor, edit: EditUpkeep) -> Result<Upkeep> {
        if actor.access < Access::Admin {
            return Err(Error::Forbidden("Changing how long things are kept needs the admin role.".into()));
        }
        let days = [
            ("worktree_days", edit.worktree_days),
            ("rescue_days", edit.rescue_days),
            ("record_days", edit.record_days),
        ];
        if days.iter().any(|(_, days)| days.is_some_and(|days| days > 3650)) {
            return Err(Error::BadInput("Things are kept for at most 3650 days.".into()));
        }
        if edit.warm_pool.is_some_and(|size| size > crate::pool::LARGEST) {
            return Err(Error::BadInput(format!(
                "At most {} checkouts are made ahead for a repository.",
                crate::pool::LARGEST
            )));
        }
        let mut set: Vec<(&str, u64)> =
            days.into_iter().filter_map(|(name, days)| Some((name, u64::from(days?)))).collect();
        set.extend(edit.warm_pool.map(|size| ("warm_pool", u64::from(size))));
        set.extend(edit.disk_budget_mb.map(|mb| ("disk_budget_mb", mb)));
        for (name, value) in set {
            // A budget of 0 is no budget: a fifth of the disk.
            let text = if name == "disk_budget_mb" && value == 0 { String::new() } else { value.to_string() };
            self.store().set_setting(actor, name, &text).await?;
        }
        // The budget in force is the one that was just set.
        self.disk().await?;
        self.pool().look();
        self.house_wake().notify_one();
        self.upkeep().await
    }
}

/// An event of housekeeping.
fn note<'a>(id: ObjectiveId, trigger: &'a str, reason: &'a str) -> NewEvent<'a> {
    NewEvent {
        objective: id,
        kind: "worktree",
        from: None,
        to: None,
        trigger,
        actor: "housekeeping",
        reason,
        session: None,
    }
}

/// The first few of many, for one line.
fn sentence(lines: &[String]) -> Option<String> {
    let first = lines.iter().take(3).map(String::as_str).collect::<Vec<_>>().join(" ");
    match lines.len() {
        0 => None,
        1..=3 => Some(first),
        more => Some(format!("{first} And {} more.", more - 3)),
    }
}

/// What a directory holds, by name.
fn names(dir: &Path) -> Result<Vec<String>> {
    let mut list: Vec<String> =
        fs::read_dir(dir)?.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    list.sort_unstable();
    Ok(list)
}

/// How long ago something was last written; a time in the future counts as now.
fn age(path: &Path) -> Duration {
    let written = fs::symlink_metadata(path).map_or(i64::MAX, |meta| meta.mtime());
    Duration::from_secs(u64::try_from((now_ms() / 1000).saturating_sub(written)).unwrap_or(0))
}

/// Does work that nobody waits for in a thread that everybody else goes before.
pub(crate) async fn at_leisure<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T> {
    let (done, result) = tokio::sync::oneshot::channel();
    std::thread::Builder::new().name("at leisure".into()).spawn(move || {
        // Of this thread alone; where it is refused the work is done all the same.
        let _ = rustix::process::setpriority_process(None, 19);
        let _ = done.send(work());
    })?;
    result.await.map_err(|error| Error::Internal(error.into()))
}

async fn remove(dir: PathBuf) -> Result<()> {
    Ok(at_leisure(move || remove_tree(&dir)).await??)
}
