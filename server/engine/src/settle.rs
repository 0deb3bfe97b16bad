//! What follows when a session is over: collect its results, then one transaction for session, objective and event.

use std::fs;
use std::path::Path;

use opkit_domain::access::Scope;
use opkit_domain::ids::{ClientId, ObjectiveId, SessionId};
use opkit_domain::objective::{Integration, Status};
use opkit_domain::session::{ExitFile, FloorResult, Outcome, Role, RunStatus, WallProof, files};
use opkit_domain::state_machine::{Product, Transition, Trigger, step};
use opkit_domain::verdict::{CriterionStatus, Decision, Verdict};

use crate::board::{attention_note, wake_parent};
use crate::clock::now_ms;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::session_manager::{Runner, TAKE_BRANCH, runner};
use crate::state_poller::read_json;
use crate::store::Tx;
use crate::store::accounts::set_state;
use crate::store::events::{NewEvent, append};
use crate::store::objectives::{Beside, Objective, get, store_transition};
use crate::store::people::audit_in;
use crate::store::rescue::{NewRescue, insert_rescue};
use crate::store::sessions::{End, NewReview, SessionRow, end, insert_review, overloads_in_a_row};

/// A usage limit without a stated end lasts this long.
const DEFAULT_COOL_DOWN_MS: i64 = 5 * 3_600_000;
/// Pause after an overload.
const OVERLOAD_PAUSE_MS: i64 = 30_000;
/// First pause after a failed start or run; doubled each time.
const RETRY_PAUSE_MS: i64 = 1_000;

/// What was found when a session had ended.
struct Found {
    outcome: Outcome,
    product: Product,
    detail: String,
    findings: Option<Vec<String>>,
    artifact: Option<String>,
    notes: Option<String>,
    head: Option<String>,
    verdict: Option<Verdict>,
    review_error: Option<String>,
    exit: Option<ExitFile>,
    visible: Vec<String>,
    /// Name and commit of the rescue ref that keeps what was not committed.
    kept: Option<(String, String)>,
    /// The worktree was made before the agent started: the next session goes on in it.
    prepared: bool,
}

impl Found {
    fn plain(outcome: Outcome, detail: String) -> Found {
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

    fn floor(&self) -> Option<&FloorResult> {
        self.exit.as_ref().and_then(|exit| exit.floor.as_ref())
    }
}

impl Engine {
    /// A session with an exit file.
    pub(crate) async fn settle(&self, row: &SessionRow, exit: ExitFile) -> Result<()> {
        if !self.nothing_lives(row)? {
            return Ok(());
        }
        let objective = self.store().objective(row.scope, row.objective).await?;
        let mut outcome = exit.outcome;
        let mut detail = exit.detail.clone();
        if outcome == Outcome::Finished
            && let Some(reason) = &row.blocked_reason
        {
            outcome = Outcome::Blocked;
            detail.clone_from(reason);
        }
        if exit.guard_broken {
            self.note_broken_guard(row).await?;
        }
        if outcome == Outcome::NeverRan {
            self.doubt_probe(&row.agent);
        }
        let mut found = Found::plain(outcome, detail);
        found.prepared = outcome != Outcome::NeverRan;
        found.exit = Some(exit);
        if row.role == Role::Review {
            self.find_review(row, &objective, &mut found);
        } else {
            self.find_work(row, &objective, &mut found).await?;
        }
        let kept = found.kept.is_some();
        self.finish(row, found).await?;
        if row.role == Role::Review {
            // The export was the reviewer's to write in and is thrown away; what it saw is stored.
            let _ = fs::remove_dir_all(self.dirs().review(&row.id));
            let _ = fs::remove_file(self.dirs().session(&row.id).join("tree.tar"));
        } else {
            // Only now: a server that dies before the transaction has to find them again.
            let session = self.dirs().session(&row.id);
            let _ = fs::remove_file(session.join(files::RESULT_BUNDLE));
            // One that was refused is the only copy: with it there, the worktree is never cleared.
            if kept {
                let _ = fs::remove_file(session.join(files::RESCUE_BUNDLE));
            }
        }
        Ok(())
    }

    /// A runner that vanished without a word.
    pub(crate) async fn settle_lost(&self, row: &SessionRow) -> Result<()> {
        if !self.nothing_lives(row)? {
            return Ok(());
        }
        let stopped = self.dirs().session(&row.id).join(files::STOP).exists();
        let mut found = if stopped {
            Found::plain(Outcome::Stopped, "It was asked to stop, and its runner vanished.".into())
        } else {
            Found::plain(
                Outcome::Lost,
                "The runner vanished: it was killed, or the machine went down.".into(),
            )
        };
        let status = read_json::<RunStatus>(&self.dirs().session(&row.id).join(files::STATUS));
        found.prepared = status.is_some_and(|status| status.agent_pid != 0);
        self.finish(row, found).await
    }

    /// Kills what is left of a session. The slot is free only when nothing is: otherwise the poller looks again.
    fn nothing_lives(&self, row: &SessionRow) -> Result<bool> {
        if self.kill_leftovers(row) > 0 {
            self.poll_wake().notify_one();
            return Ok(false);
        }
        self.close_place(row)?;
        self.take_login_back(row)?;
        Ok(true)
    }

    /// Takes the launch record away from a runner that may still come: a window can open long after we gave up.
    fn call_off(&self, row: &SessionRow) -> Result<bool> {
        let dir = self.dirs().session(&row.id);
        match fs::rename(dir.join(files::SPEC), dir.join("spec.called-off.json")) {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(error.into()),
        }
        Ok(runner(&dir) == Runner::Free && self.nothing_lives(row)?)
    }

    /// Nothing of it ever ran.
    pub(crate) async fn settle_never_ran(&self, id: &SessionId, why: &str) -> Result<()> {
        match self.store().session_row(id).await? {
            Some(row) if !self.call_off(&row)? => Ok(()),
            Some(row) => self.finish(&row, Found::plain(Outcome::NeverRan, why.to_owned())).await,
            None => Ok(()),
        }
    }

    /// A stop that came before the runner.
    pub(crate) async fn settle_stopped_before_start(&self, row: &SessionRow) -> Result<()> {
        if !self.call_off(row)? {
            return Ok(());
        }
        self.finish(row, Found::plain(Outcome::Stopped, "It was stopped before it started.".into())).await
    }

    async fn find_work(&self, row: &SessionRow, objective: &Objective, found: &mut Found) -> Result<()> {
        let memory = self.dirs().memory(objective.id);
        found.notes = crate::memory::read_text(&memory, "NOTES.md").ok();
        let artifact = crate::memory::artifact(&memory);
        // A bundle step that failed has said why: usually that there is nothing beyond the base.
        let no_branch = found
            .exit
            .as_ref()
            .is_some_and(|exit| exit.collect_failed.iter().any(|line| line.starts_with(TAKE_BRANCH)));
        found.head = if no_branch { None } else { self.fetch_result(row, objective).await? };
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
                    let mut lines = vec![format!(
                        "Nothing was delivered: there is no commit on {} beyond the base.",
                        objective.branch()
                    )];
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

    fn find_review(&self, row: &SessionRow, objective: &Objective, found: &mut Found) {
        found.visible = crate::memory::listing(&self.dirs().review(&row.id));
        if found.outcome != Outcome::Finished {
            found.review_error = Some(found.detail.clone());
            return;
        }
        if let Some(floor) = found.floor().filter(|floor| !floor.green()) {
            found.findings = Some(floor_findings(floor));
            found.product = Product::RedFloor;
            found.detail = "The floor is red.".into();
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

    /// Brings `obj/<id>` from the session's bundle into the mirror; gives its commit.
    async fn fetch_result(&self, row: &SessionRow, objective: &Objective) -> Result<Option<String>> {
        let bundle = self.dirs().session(&row.id).join(files::RESULT_BUNDLE);
        if fs::metadata(&bundle).map_or(0, |meta| meta.len()) == 0 {
            return Ok(None);
        }
        let mirror = self.dirs().mirror(objective.repo);
        let _turn = self.repo_turn(objective.repo).await;
        let branch = format!("refs/heads/{}", objective.branch());
        let output = fetch_bundle(self, &mirror, &bundle, &format!("+{branch}:{branch}")).await?;
        if !output {
            return Ok(None);
        }
        let head = self.commit_of(&mirror, &branch).await?;
        if let Some(head) = &head {
            let base = objective.base_commit.as_deref().unwrap_or_default();
            let args = ["rev-list", "--max-count=1000", head, &format!("^{base}")];
            let list = self.git().run(&mirror, &args, 1 << 20).await?;
            let text = list.text();
            self.store().note_commits(&row.id, objective.id, text.lines()).await?;
        }
        Ok(head)
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
        if !fetch_bundle(self, &rescue, &bundle, &format!("+refs/opkit/rescue:{name}")).await? {
            return Ok(None);
        }
        Ok(self.commit_of(&rescue, &name).await?.map(|commit| (name, commit)))
    }

    /// The one transaction at the end of every session.
    async fn finish(&self, row: &SessionRow, found: Found) -> Result<()> {
        let merged = self.merge_before_done(row, &found).await?;
        let proof = fs::read_to_string(self.dirs().session(&row.id).join(files::PROOF)).ok();
        let proof = proof.filter(|text| serde_json::from_str::<WallProof>(text).is_ok());
        let mut tx = self.store().begin().await?;
        let exit = found.exit.as_ref();
        let ended = end(
            &mut tx,
            &row.id,
            &End {
                outcome: found.outcome,
                detail: &found.detail.chars().take(2000).collect::<String>(),
                turns: exit.map_or(0, |exit| exit.turns),
                cost_usd_micros: exit.map_or(0, |exit| exit.cost_usd_micros),
                denials: exit.map_or(0, |exit| exit.denials),
                artifact: found.artifact.as_deref(),
                notes: found.notes.as_deref(),
                proof: proof.as_deref(),
                policy: exit
                    .map_or((None, None), |exit| (exit.policy_start.as_deref(), exit.policy_end.as_deref())),
                planted: exit.map_or(&[], |exit| &exit.planted),
            },
        )
        .await?;
        if !ended {
            return Ok(());
        }
        let detail = serde_json::json!({
            "session": row.id, "role": row.role, "account": row.account, "phase": "ended",
            "outcome": found.outcome, "denials": exit.map_or(0, |exit| exit.denials),
            "cost_usd_micros": exit.map_or(0, |exit| exit.cost_usd_micros),
        });
        let target = format!("#{}", row.objective);
        audit_in(&mut tx, row.scope, "state poller", "launch", &target, &detail).await?;
        let before = get(&mut tx, row.scope, row.objective).await?;
        if row.role == Role::Review {
            let review = NewReview {
                session: row,
                verdict: found.verdict.as_ref().map(serde_json::to_string).transpose()?,
                floor: found.floor().map(serde_json::to_string).transpose()?,
                error: found.review_error.clone(),
                visible: &found.visible,
            };
            insert_review(&mut tx, &review).await?;
        }
        if let Some((name, commit)) = &found.kept {
            let kept = NewRescue {
                scope: row.scope,
                repo: before.repo,
                objective: row.objective,
                session: Some(&row.id),
                name,
                commit,
                left_out: &[],
            };
            insert_rescue(&mut tx, &kept).await?;
        }
        self.charge_account(&mut tx, row, &found).await?;
        self.move_on(&mut tx, row, &before, &found, merged).await?;
        tx.commit().await?;
        tracing::info!(session.id = %row.id, objective.id = %row.objective, outcome = %found.outcome, "session ended");
        self.changed();
        Ok(())
    }

    /// Done means integrated: a merge happens before the transition, and may turn it into a conflict.
    async fn merge_before_done(&self, row: &SessionRow, found: &Found) -> Result<Option<Result<String>>> {
        if found.exit.as_ref().is_some_and(|exit| exit.tampered) {
            return Ok(None);
        }
        let mut objective = self.store().objective(row.scope, row.objective).await?;
        let trigger = Trigger::SessionEnded(row.role, found.outcome, found.product);
        let Ok(transition) = step(&objective.facts, trigger) else { return Ok(None) };
        if transition.to != Status::Done {
            return Ok(None);
        }
        if found.head.is_some() {
            objective.head_commit.clone_from(&found.head);
        }
        let how = self.repo_row(row.scope, objective.repo).await?.integrate();
        match self.integrate_branch(&objective, how).await {
            Ok(sentence) => Ok(Some(Ok(sentence))),
            Err(Error::Conflict(why)) => Ok(Some(Err(Error::Conflict(why)))),
            Err(Error::Refused(why)) => Ok(Some(Err(Error::Conflict(why)))),
            Err(error) => Err(error),
        }
    }

    /// What the account's own limits mean for the pool.
    async fn charge_account(&self, tx: &mut Tx, row: &SessionRow, found: &Found) -> Result<()> {
        match found.outcome {
            Outcome::UsageLimited => {
                let until = found.exit.as_ref().and_then(|exit| exit.reset_at);
                let (until, why) = match until {
                    Some(until) => (until, "usage limit"),
                    None => {
                        (now_ms() + DEFAULT_COOL_DOWN_MS, "usage limit without a stated end: 5 hours assumed")
                    }
                };
                let until = until + jitter(until - now_ms());
                set_state(tx, &row.account, "cooling_down", why, Some(until)).await
            }
            Outcome::AuthFailed => set_state(tx, &row.account, "needs_login", &found.detail, None).await,
            Outcome::Finished
            | Outcome::Blocked
            | Outcome::Failed
            | Outcome::TurnLimit
            | Outcome::TimedOut
            | Outcome::Overloaded
            | Outcome::Budget
            | Outcome::Stopped
            | Outcome::Killed
            | Outcome::Lost
            | Outcome::NeverRan => Ok(()),
        }
    }

    async fn move_on(
        &self,
        tx: &mut Tx,
        row: &SessionRow,
        before: &Objective,
        found: &Found,
        merged: Option<Result<String>>,
    ) -> Result<()> {
        let overloads =
            if found.outcome == Outcome::Overloaded { overloads_in_a_row(tx, row).await? } else { 0 };
        let mut beside = beside(row, before, found, overloads);
        let mut reason = found.detail.clone();
        let mut trigger = Trigger::SessionEnded(row.role, found.outcome, found.product);
        let mut facts = before.facts.clone();
        facts.live = false;
        facts.delivered |= found.head.is_some();
        if found.exit.as_ref().is_some_and(|exit| exit.tampered) {
            trigger = Trigger::Tampered;
            "The policy of the session changed while it ran.".clone_into(&mut reason);
        }
        match merged {
            Some(Ok(sentence)) => beside.integrated = Some(sentence),
            Some(Err(why)) => {
                trigger = Trigger::MergeConflict;
                reason = why.to_string();
            }
            None => {}
        }
        let transition = match step(&facts, trigger) {
            Ok(transition) => transition,
            // It was cancelled or moved meanwhile: the session ends, the objective stays.
            Err(_) => stay(before),
        };
        if let Some(attention) = transition.attention {
            beside.attention_note = attention_note(attention, &transition, &reason);
        } else if transition.to == before.facts.status && transition.to == Status::HumanReview {
            beside.attention_note = reason.chars().take(160).collect();
        }
        let failed_round = transition.counters.rounds_total > before.facts.counters.rounds_total;
        if failed_round {
            beside.round_mark = Some('F');
            beside.passed = Some(false);
        }
        store_transition(tx, before, &transition, &beside).await?;
        let moved = transition.to != before.facts.status;
        let event = NewEvent {
            objective: row.objective,
            kind: if moved { "moved" } else { "session" },
            from: moved.then_some(before.facts.status),
            to: moved.then_some(transition.to),
            trigger: trigger.name(),
            actor: &format!("session {}", row.id.short()),
            reason: &format!("{} session {}: {reason}", row.role, found.outcome)
                .chars()
                .take(1000)
                .collect::<String>(),
            session: Some(&row.id),
        };
        append(tx, row.scope, event).await?;
        wake_parent(tx, before, &transition).await
    }

    /// A delegator that waits wakes, once for all children that ended meanwhile.
    pub(crate) async fn wake_delegator(&self, tx: &mut Tx, client: i64, parent: i64) -> Result<()> {
        let scope = Scope { client: ClientId(client) };
        let before = get(tx, scope, ObjectiveId(parent)).await?;
        let Ok(transition) = step(&before.facts, Trigger::ChildEnded) else { return Ok(()) };
        store_transition(tx, &before, &transition, &Beside::default()).await?;
        let event = NewEvent {
            objective: before.id,
            kind: "waits",
            from: None,
            to: None,
            trigger: "child_ended",
            actor: "state poller",
            reason: "A child ended.",
            session: None,
        };
        append(tx, scope, event).await
    }

    /// The integration that a repository or a person asks for; a sentence on success, a conflict otherwise.
    pub(crate) async fn integrate_branch(&self, objective: &Objective, how: Integration) -> Result<String> {
        if objective.head_commit.is_none() {
            return Err(Error::Refused("Nothing was delivered that could be integrated.".into()));
        }
        match how {
            Integration::Keep => Ok(match &objective.integrated {
                Some(sentence) if sentence.starts_with("Merged") => sentence.clone(),
                Some(_) | None => format!("{} is kept in the mirror.", objective.branch()),
            }),
            Integration::Merge => self.merge(objective).await,
        }
    }
}

/// Accounts whose limits end together shall not all begin at that instant: up to half a minute more, and never
/// more than a twentieth of the wait.
fn jitter(wait_ms: i64) -> i64 {
    let most = (wait_ms / 20).clamp(0, 30_000);
    if most == 0 { 0 } else { rand::random_range(0..=most) }
}

/// The pause after overloads: half a minute, doubled each time in a row, at most a quarter of an hour.
fn overload_pause(in_a_row: u32) -> i64 {
    (OVERLOAD_PAUSE_MS << in_a_row.min(10)).min(15 * 60_000)
}

/// A transition that changes nothing but the session.
fn stay(before: &Objective) -> Transition {
    Transition {
        to: before.facts.status,
        sub_state: before.facts.sub_state,
        attention: before.facts.attention,
        came_from: before.facts.came_from,
        counters: before.facts.counters,
        lock: before.facts.locked,
        first: false,
        stop_session: false,
        false_pass: false,
        wakes_parent: false,
    }
}

/// Everything that is stored beside the transition. `overloads` sessions before this one ended overloaded.
fn beside(row: &SessionRow, before: &Objective, found: &Found, overloads: u32) -> Beside {
    let exit = found.exit.as_ref();
    let c = before.facts.counters;
    let failures = c.run_failures + c.start_failures + c.review_errors;
    let pause = match found.outcome {
        Outcome::Overloaded => overload_pause(overloads),
        Outcome::NeverRan | Outcome::Failed | Outcome::Killed | Outcome::Lost => {
            RETRY_PAUSE_MS << failures.min(6)
        }
        Outcome::Finished
        | Outcome::Blocked
        | Outcome::TurnLimit
        | Outcome::TimedOut
        | Outcome::UsageLimited
        | Outcome::AuthFailed
        | Outcome::Budget
        | Outcome::Stopped => 0,
    };
    let met = found.verdict.as_ref().map(|verdict| {
        let met = verdict.criteria.iter().filter(|c| c.status == CriterionStatus::Met).count() as u32;
        (met, verdict.criteria.len() as u32 - met)
    });
    let by_floor = found.floor().map(|floor| {
        let of = |green: bool| {
            floor.commands.iter().filter(|c| c.criterion.is_some() && c.green() == green).count() as u32
        };
        (of(true), of(false))
    });
    let passed = match found.product {
        Product::Verdict(Decision::Pass) => Some(true),
        Product::Verdict(_) | Product::RedFloor => Some(false),
        Product::Deliverable if before.facts.gate == opkit_domain::objective::Gate::None => Some(true),
        Product::Nothing | Product::Deliverable | Product::Plan | Product::Waits => None,
    };
    let work = row.role != Role::Review;
    let done = found.outcome == Outcome::Finished;
    Beside {
        findings: found.findings.clone().or_else(|| (work && done).then(Vec::new)),
        round_mark: matches!(found.product, Product::Verdict(Decision::Pass)).then_some('P'),
        passed,
        head_commit: found.head.clone(),
        summary: work
            .then(|| exit.map(|exit| exit.summary.clone()))
            .flatten()
            .filter(|text| !text.is_empty()),
        verdict: found.verdict.as_ref().map(|verdict| verdict.verdict.to_string()),
        criteria: met.or(by_floor),
        cost_usd_micros: exit.map_or(0, |exit| exit.cost_usd_micros),
        clear_session: true,
        worktree_ready: work && found.prepared,
        not_before: if pause == 0 { 0 } else { now_ms() + pause },
        ..Beside::default()
    }
}

/// Fetches one ref from a bundle; false when the bundle does not have it or is refused.
async fn fetch_bundle(engine: &Engine, repository: &Path, bundle: &Path, refspec: &str) -> Result<bool> {
    let bundle = bundle.to_string_lossy();
    let args = ["fetch", "-q", "--no-tags", "--no-write-fetch-head", "--", bundle.as_ref(), refspec];
    let output = engine.git().run(repository, &args, 1 << 20).await?;
    if !output.ok {
        tracing::warn!(reason = output.stderr, "a session's bundle was refused");
    }
    Ok(output.ok)
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
