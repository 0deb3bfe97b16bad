//! What an ended session left: its branch, what it did not commit, its verdict, its artifact.

use std::fs;
use std::path::Path;

use opkit_domain::session::{ExitFile, FloorResult, Outcome, files};
use opkit_domain::state_machine::Product;
use opkit_domain::verdict::{Decision, Verdict};

use crate::engine::Engine;
use crate::error::Result;
use crate::session_manager::TAKE_BRANCH;
use crate::store::objectives::Objective;
use crate::store::sessions::SessionRow;

/// What git says when there is nothing beyond the base.
const NOTHING_NEW: &str = "empty bundle";

/// What was found when a session had ended.
pub(super) struct Found {
    pub(super) outcome: Outcome,
    pub(super) product: Product,
    pub(super) detail: String,
    pub(super) findings: Option<Vec<String>>,
    pub(super) artifact: Option<String>,
    pub(super) notes: Option<String>,
    pub(super) head: Option<String>,
    pub(super) verdict: Option<Verdict>,
    pub(super) review_error: Option<String>,
    pub(super) exit: Option<ExitFile>,
    pub(super) visible: Vec<String>,
    /// Name and commit of the rescue ref that keeps what was not committed.
    pub(super) kept: Option<(String, String)>,
    /// The worktree was made before the agent started: the next session goes on in it.
    pub(super) prepared: bool,
}

impl Found {
    pub(super) fn plain(outcome: Outcome, detail: String) -> Found {
        Found {
            outcome,
            product: Product::Nothing,
            detail,
            findings: None,
            artifact: None,
            notes: None,
            head: None,
            verdict: None,
            review_error: None,
            exit: None,
            visible: vec![],
            kept: None,
            prepared: false,
        }
    }

    pub(super) fn floor(&self) -> Option<&FloorResult> {
        self.exit.as_ref().and_then(|exit| exit.floor.as_ref())
    }
}

impl Engine {
    pub(super) async fn find_work(
        &self,
        row: &SessionRow,
        objective: &Objective,
        found: &mut Found,
    ) -> Result<()> {
        let memory = self.dirs().memory(objective.id);
        found.notes = crate::memory::read_text(&memory, "NOTES.md").ok();
        let artifact = crate::memory::artifact(&memory);
        let failed = found.exit.iter().flat_map(|exit| &exit.collect_failed);
        let failed = failed.into_iter().find(|line| line.starts_with(TAKE_BRANCH));
        let mut refused = None;
        match failed {
            Some(line) => refused = why_not_taken(line),
            None => match self.fetch_result(row, objective).await? {
                Ok(head) => found.head = head,
                Err(why) => refused = Some(format!("git refused the commits. {why}")),
            },
        }
        found.kept = self.fetch_rescue(row, objective).await?;
        if found.outcome == Outcome::Finished {
            match (&found.head, &artifact) {
                (Some(_), Ok(_)) => match found.floor() {
                    Some(floor) if !floor.green() => {
                        found.findings = Some(floor_findings(floor));
                        found.product = Product::RedFloor;
                    }
                    Some(_) | None => found.product = Product::Deliverable,
                },
                (None, _) => {
                    let mut lines = vec![match refused {
                        Some(why) => format!("Nothing was delivered: {why}"),
                        None => format!(
                            "Nothing was delivered: there is no commit on {} beyond the base.",
                            objective.branch()
                        ),
                    }];
                    lines.extend(artifact.as_ref().err().cloned());
                    found.detail.clone_from(&lines[0]);
                    found.findings = Some(lines);
                }
                (Some(_), Err(why)) => {
                    found.detail = format!("Nothing was delivered: {why}");
                    found.findings = Some(vec![found.detail.clone()]);
                }
            }
            if let (Some(lines), Some((name, _))) = (&mut found.findings, &found.kept) {
                lines.push(format!("Only committed work counts. What was not committed is kept as {name}."));
            }
        }
        found.artifact = artifact.ok();
        Ok(())
    }

    pub(super) fn find_review(&self, row: &SessionRow, objective: &Objective, found: &mut Found) {
        found.visible = crate::memory::listing(&self.dirs().review(&row.id));
        if found.outcome != Outcome::Finished {
            found.review_error = Some(found.detail.clone());
            return;
        }
        if let Some(floor) = found.floor().filter(|floor| !floor.green()) {
            found.findings = Some(floor_findings(floor));
            found.product = Product::RedFloor;
            found.detail = "A check failed.".into();
            return;
        }
        match self.read_verdict(row, objective) {
            Ok(verdict) => {
                found.product = Product::Verdict(verdict.verdict);
                if verdict.verdict != Decision::Pass {
                    found.findings = Some(verdict.finding_lines());
                }
                found.detail = format!("Verdict {}. {}", verdict.verdict, verdict.summary.trim());
                found.verdict = Some(verdict);
            }
            Err(why) => {
                found.detail = format!("No verdict: {why}");
                found.review_error = Some(why);
            }
        }
    }

    /// Brings `obj/<id>` from the session's bundle into the mirror; gives its commit, or why git refused it.
    async fn fetch_result(
        &self,
        row: &SessionRow,
        objective: &Objective,
    ) -> Result<std::result::Result<Option<String>, String>> {
        let bundle = self.dirs().session(&row.id).join(files::RESULT_BUNDLE);
        if fs::metadata(&bundle).map_or(0, |meta| meta.len()) == 0 {
            return Ok(Ok(None));
        }
        let mirror = self.dirs().mirror(objective.repo);
        let _turn = self.repo_turn(objective.repo).await;
        let branch = format!("refs/heads/{}", objective.branch());
        if let Err(why) = fetch_bundle(self, &mirror, &bundle, &format!("+{branch}:{branch}")).await? {
            return Ok(Err(why));
        }
        let head = self.commit_of(&mirror, &branch).await?;
        if let Some(head) = &head {
            let base = objective.base_commit.as_deref().unwrap_or_default();
            let args = ["rev-list", "--max-count=1000", head, &format!("^{base}")];
            let list = self.git().run(&mirror, &args, 1 << 20).await?;
            let text = list.text();
            self.store().note_commits(&row.id, objective.id, text.lines()).await?;
        }
        Ok(Ok(head))
    }

    /// Keeps what was not committed in the rescue repository; gives ref and commit when there was something.
    async fn fetch_rescue(
        &self,
        row: &SessionRow,
        objective: &Objective,
    ) -> Result<Option<(String, String)>> {
        let bundle = self.dirs().session(&row.id).join(files::RESCUE_BUNDLE);
        if fs::metadata(&bundle).map_or(0, |meta| meta.len()) == 0 {
            return Ok(None);
        }
        let _turn = self.repo_turn(objective.repo).await;
        let rescue = self.dirs().rescue(objective.repo);
        let mirror = self.dirs().mirror(objective.repo);
        if !rescue.join("HEAD").exists() {
            let made =
                self.git().as_owner(None, &["init", "-q", "--bare", &rescue.to_string_lossy()]).await?;
            if !made.ok {
                return Err(crate::git::failure(&made));
            }
            let alternates = rescue.join("objects/info/alternates");
            fs::write(alternates, format!("{}\n", mirror.join("objects").display()))?;
        }
        let name = format!("refs/rescue/{}/{}", objective.id, row.id);
        if fetch_bundle(self, &rescue, &bundle, &format!("+refs/opkit/rescue:{name}")).await?.is_err() {
            return Ok(None);
        }
        Ok(self.commit_of(&rescue, &name).await?.map(|commit| (name, commit)))
    }
}

/// Fetches one ref from a bundle. When git refuses what is in it the sentence is for people; what is only in the way
/// (a lock that a killed git left, a full disk) is an error, and the session is settled when it is gone.
async fn fetch_bundle(
    engine: &Engine,
    repository: &Path,
    bundle: &Path,
    refspec: &str,
) -> Result<std::result::Result<(), String>> {
    let bundle = bundle.to_string_lossy();
    let args = ["fetch", "-q", "--no-tags", "--no-write-fetch-head", "--", bundle.as_ref(), refspec];
    let output = engine.git().run(repository, &args, 1 << 20).await?;
    if output.ok {
        return Ok(Ok(()));
    }
    if is_in_the_way(&output.stderr) {
        return Err(crate::git::failure(&output));
    }
    tracing::warn!(reason = output.stderr, "a session's bundle was refused");
    let why = output.stderr.lines().find(|line| line.starts_with("fatal:") || line.starts_with("error:"));
    Ok(Err(crate::git::short(why.unwrap_or("It gave no reason."))))
}

/// Why the branch could not be taken, for people; none when there was nothing to take.
fn why_not_taken(failed: &str) -> Option<String> {
    let words: Vec<&str> = failed.split_whitespace().collect();
    (!failed.contains(NOTHING_NEW)).then(|| words.join(" ").chars().take(300).collect())
}

fn is_in_the_way(stderr: &str) -> bool {
    const PASSING: [&str; 6] = [
        ".lock': File exists",
        // A git that outlived its server has just put the same there.
        "reference already exists",
        "but expected",
        "No space left on device",
        "Read-only file system",
        "Input/output error",
    ];
    PASSING.iter().any(|text| stderr.contains(text))
}

/// What the next session reads of a red floor.
fn floor_findings(floor: &FloorResult) -> Vec<String> {
    let mut lines: Vec<String> =
        floor.error.iter().map(|why| format!("The floor could not be prepared: {why}")).collect();
    for command in floor.commands.iter().filter(|command| !command.green()) {
        let how = match (command.timed_out, command.status) {
            (true, _) => "took too long".to_owned(),
            (false, Some(status)) => format!("ended with {status}"),
            (false, None) => "was killed".to_owned(),
        };
        let what = match command.criterion {
            Some(at) => format!("Criterion {} is not met: its check", at + 1),
            None => format!("The {} command", command.title),
        };
        let output: String =
            command.output.chars().rev().take(1500).collect::<Vec<_>>().into_iter().rev().collect();
        let output = if output.trim().is_empty() { "no output".to_owned() } else { output.trim().to_owned() };
        lines.push(format!("{what} `{}` {how}. Output: {output}", command.command));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_empty_branch_is_called_empty() {
        let empty = format!("{TAKE_BRANCH}: it ended with 128.\nfatal: Refusing to create empty bundle.");
        assert_eq!(why_not_taken(&empty), None);
        let broken = format!("{TAKE_BRANCH}: it ended with 128.\nfatal: bad revision 'refs/heads/obj/7'");
        let why = why_not_taken(&broken);
        assert_eq!(
            why.as_deref(),
            Some("Taking the branch: it ended with 128. fatal: bad revision 'refs/heads/obj/7'")
        );
    }

    #[test]
    fn what_passes_is_no_refusal() {
        let raced = "error: cannot lock ref 'refs/heads/obj/7': reference already exists";
        assert!(is_in_the_way(raced) && is_in_the_way("fatal: write error: No space left on device"));
        assert!(!is_in_the_way("fatal: missing blob object"));
    }
}
