//! Retention: worktrees of finished objectives, what was kept of them, records. Nothing is forced: what is not safe
//! somewhere else stays, and housekeeping says so.

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use opkit_domain::ids::{ObjectiveId, RepositoryId};
use opkit_domain::session::{ExitFile, files};
use opkit_domain::view::Upkeep;

use super::{note, remove};
use crate::clock::now_ms;
use crate::engine::Engine;
use crate::error::Result;
use crate::git::failure;
use crate::rescue::DAY_MS;
use crate::store::events::append;
use crate::store::upkeep::{Kept, worktree_over};

/// Start of what the exit file says when the snapshot failed; the step's title.
const SNAPSHOT: &str = "Keeping what is not committed";

impl Engine {
    /// Clears what is over; gives what had to stay, in sentences.
    pub(super) async fn retain(&self, thorough: bool) -> Result<Vec<String>> {
        let mut said = Vec::new();
        if self.clock_jumped().await? {
            return Ok(said);
        }
        let upkeep = self.upkeep().await?;
        for name in super::names(&self.dirs().root.join("work"))? {
            let Ok(id) = name.parse::<i64>() else { continue };
            if !self.dirs().worktree(ObjectiveId(id)).exists() {
                continue;
            }
            let Some(kept) = self.store().kept(id).await? else { continue };
            let over = now_ms() - kept.since >= i64::from(upkeep.worktree_days) * DAY_MS;
            if !kept.status.is_final() || !over {
                continue;
            }
            match self.unsafe_to_clear(&kept).await? {
                Some(why) => {
                    let dir = self.dirs().worktree(kept.id);
                    said.push(format!(
                        "The worktree of #{} stays: {why} If nobody needs it, delete {}.",
                        kept.id,
                        dir.display()
                    ));
                }
                None => self.clear_worktree(&kept, &upkeep).await?,
            }
        }
        self.drop_rescues(&upkeep).await?;
        if thorough {
            self.drop_records(&upkeep).await?;
            self.pack_records().await?;
        }
        Ok(said)
    }

    /// Whether the clock moved on by more than a day between two looks, and that is less than a day ago. Ages are
    /// those of the wall clock: set forward by mistake, it would clear everything at once. A day is time to see it.
    async fn clock_jumped(&self) -> Result<bool> {
        let (now, store) = (now_ms(), self.store());
        let (seen, hold) = (store.number("retention_seen").await?, store.number("retention_hold").await?);
        let until = hold_until(seen, hold, now);
        if let Some(until) = until.filter(|until| Some(*until) != hold) {
            store.note_number("retention_hold", until).await?;
            tracing::warn!(until, "the clock jumped: nothing is cleared by its age for a day");
        }
        store.note_number("retention_seen", now).await?;
        Ok(until.is_some_and(|until| now < until))
    }

    /// Why a worktree holds, or may hold, what is nowhere else.
    async fn unsafe_to_clear(&self, kept: &Kept) -> Result<Option<String>> {
        if kept.live {
            return Ok(Some("a session is in it.".into()));
        }
        if !kept.worktree_ready {
            // No agent ever worked there.
            return Ok(None);
        }
        let Some(run) = self.store().last_run(kept.id).await? else { return Ok(None) };
        let Some(ended) = run.ended_at else { return Ok(Some("its session has not ended.".into())) };
        let session = self.dirs().session(&run.id);
        let exit = fs::read(session.join(files::EXIT)).ok();
        let exit: Option<ExitFile> = exit.and_then(|bytes| serde_json::from_slice(&bytes).ok());
        let Some(exit) = exit else {
            let how = run.outcome.map_or("ended", |outcome| outcome.as_str());
            return Ok(Some(format!("its last session ({how}) left no word on what was not committed.")));
        };
        if let Some(line) = exit.collect_failed.iter().find(|line| line.starts_with(SNAPSHOT)) {
            return Ok(Some(format!(
                "what was not committed could not be kept ({}).",
                crate::git::short(line)
            )));
        }
        let bundle = fs::metadata(session.join(files::RESCUE_BUNDLE)).is_ok_and(|meta| meta.len() > 0);
        let rescues = self.store().rescues(kept.scope, kept.id).await?;
        if bundle && !rescues.iter().any(|row| row.session.as_ref() == Some(&run.id)) {
            return Ok(Some("what was not committed did not reach the rescue repository.".into()));
        }
        let worktree = self.dirs().worktree(kept.id);
        let newest = super::at_leisure(move || newest(&worktree)).await?;
        Ok((newest > ended / 1000 + 1).then(|| "something in it changed after its last session.".into()))
    }

    /// Moves the worktree out of the way in the transaction that says so: a claim needs the same writer, so nobody
    /// starts in between.
    async fn clear_worktree(&self, kept: &Kept, upkeep: &Upkeep) -> Result<()> {
        let mut tx = self.store().begin().await?;
        if !worktree_over(&mut tx, kept.id).await? {
            return Ok(());
        }
        let work = self.dirs().work(kept.id);
        for dir in [self.dirs().worktree(kept.id), self.dirs().scratch(kept.id), work.join("state")] {
            if fs::symlink_metadata(&dir).is_ok() {
                self.pool().discard(&dir)?;
            }
        }
        let reason = format!(
            "The worktree was cleared {} days after the end. The branch obj/{} is in the mirror, and what was not \
             committed is kept for {} days from the session's end.",
            upkeep.worktree_days, kept.id, upkeep.rescue_days
        );
        append(&mut tx, kept.scope, note(kept.id, "worktree_cleared", &reason)).await?;
        tx.commit().await?;
        tracing::info!(objective.id = %kept.id, "a worktree was cleared");
        self.feed_wake().notify_one();
        Ok(())
    }

    async fn drop_rescues(&self, upkeep: &Upkeep) -> Result<()> {
        let before = now_ms() - i64::from(upkeep.rescue_days) * DAY_MS;
        let mut touched: Vec<RepositoryId> = Vec::new();
        for row in self.store().rescues_before(before).await? {
            let rescue = self.dirs().rescue(row.repo);
            if rescue.exists() {
                let _turn = self.repo_turn(row.repo).await;
                self.git().must(&rescue, &["update-ref", "-d", &row.name]).await?;
            }
            let _ = fs::remove_file(self.bundle(&row));
            self.store().rescue_dropped(row.id).await?;
            if !touched.contains(&row.repo) {
                touched.push(row.repo);
            }
        }
        for repo in touched {
            let rescue = self.dirs().rescue(repo);
            let text = rescue.to_string_lossy();
            // What just arrived and has no ref yet is younger than a day; refs are left alone, so nobody waits for us.
            let gc = ["-c", "gc.packRefs=false", "--git-dir", &text, "gc", "-q", "--prune=1.day.ago"];
            let packed = self.git().quietly(&gc).await?;
            if !packed.ok {
                return Err(failure(&packed));
            }
        }
        Ok(())
    }

    /// The last session of every worktree that stands: what it said decides whether the worktree may go.
    async fn last_runs(&self) -> Result<HashSet<String>> {
        let mut runs = HashSet::new();
        for name in super::names(&self.dirs().root.join("work"))? {
            let Ok(id) = name.parse::<i64>().map(ObjectiveId) else { continue };
            if self.dirs().worktree(id).exists()
                && let Some(run) = self.store().last_run(id).await?
            {
                runs.insert(run.id.to_string());
            }
        }
        Ok(runs)
    }

    async fn drop_records(&self, upkeep: &Upkeep) -> Result<()> {
        let before = now_ms() - i64::from(upkeep.record_days) * DAY_MS;
        let root = self.dirs().root.join("sessions");
        let needed = self.last_runs().await?;
        for name in super::names(&root)? {
            if needed.contains(&name) {
                continue;
            }
            if let Some(Some(ended)) = self.store().session_end(&name).await?
                && ended <= before
            {
                remove(root.join(&name)).await?;
            }
        }
        Ok(())
    }
}

/// Until when nothing is cleared, from the last look, the hold noted then, and the time now.
fn hold_until(seen: Option<i64>, hold: Option<i64>, now: i64) -> Option<i64> {
    if seen.is_some_and(|seen| now - seen > DAY_MS) {
        return Some(now + DAY_MS);
    }
    // One that lies further ahead was noted by another clock.
    hold.map(|hold| hold.min(now + DAY_MS))
}

/// Seconds since 1970 of the newest change to any file below a directory, the directory itself left out: its owner
/// and mode change when sessions come and go.
fn newest(dir: &Path) -> i64 {
    let entries = |dir: &Path| fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut left: Vec<PathBuf> = entries(dir).collect();
    let mut newest = 0;
    while let Some(path) = left.pop() {
        let Ok(meta) = fs::symlink_metadata(&path) else { continue };
        newest = newest.max(meta.mtime());
        if meta.is_dir() {
            left.extend(entries(&path));
        }
    }
    newest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_jumps_forward_clears_nothing_for_a_day() {
        let now = 1_700_000_000_000;
        let hour = DAY_MS / 24;
        assert_eq!(hold_until(None, None, now), None, "the first look ever");
        assert_eq!(hold_until(Some(now - hour), None, now), None);
        let jump = now + 30 * DAY_MS;
        assert_eq!(hold_until(Some(now), None, jump), Some(jump + DAY_MS));
        assert_eq!(
            hold_until(Some(jump), Some(jump + DAY_MS), jump + hour),
            Some(jump + DAY_MS),
            "it stays where it is while time passes"
        );
        assert_eq!(hold_until(Some(jump), Some(jump + DAY_MS), now), Some(now + DAY_MS), "set back again");
    }
}
