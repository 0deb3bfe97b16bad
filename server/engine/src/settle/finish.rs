//! The one transaction at a session's end: session, review, account, objective and event.

use std::fs;

use opkit_domain::access::Scope;
use opkit_domain::ids::{ClientId, ObjectiveId};
use opkit_domain::objective::{Integration, Status};
use opkit_domain::session::{Outcome, Role, WallProof, files};
use opkit_domain::state_machine::{Product, Transition, Trigger, step};
use opkit_domain::verdict::{CriterionStatus, Decision};

use super::found::Found;
use crate::board::{attention_note, wake_parent};
use crate::clock::now_ms;
use crate::engine::Engine;
use crate::error::{Error, Result};
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

impl Engine {
    /// The one transaction at the end of every session.
    pub(super) async fn finish(&self, row: &SessionRow, found: Found) -> Result<()> {
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
