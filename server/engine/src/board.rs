//! Use cases of people: create, edit, move, decide. The only caller of `step` for a person's triggers.

mod writing;

use opkit_domain::access::Actor;
use opkit_domain::ids::{ObjectiveId, SessionId};
use opkit_domain::objective::{Attention, Integration, Status, long_text};
use opkit_domain::session::Outcome;
use opkit_domain::state_machine::{self, Transition, Trigger};
use opkit_domain::view::CardView;

use crate::engine::{Engine, Moved};
use crate::error::{Error, Result};
use crate::store::Tx;
use crate::store::events::{NewEvent, append};
use crate::store::objectives::{Beside, Objective, changed_meanwhile, get, store_transition};
use crate::store::people::audit_in;
use crate::store::sessions::mark_stopping;

/// What a person's decision carries beside the trigger.
#[derive(Default)]
struct Decision<'a> {
    reason: &'a str,
    findings: Option<Vec<String>>,
    passed: Option<bool>,
    integrated: Option<String>,
    version: Option<i64>,
    /// The commit that was merged already: it must still be the one that is decided on.
    merged: Option<Option<String>>,
    attention_note: &'a str,
}

impl Engine {
    /// A drop on a lane: what it means is decided by the rules.
    pub async fn move_to(
        &self,
        actor: &Actor,
        id: ObjectiveId,
        to: Status,
        version: Option<i64>,
    ) -> Result<Moved> {
        self.operator(actor)?;
        let before = self.store().objective(actor.scope, id).await?;
        let trigger = state_machine::drag(&before.facts, to)?;
        if trigger == Trigger::StartNext
            && let Some(needs) = self.card(actor.scope, id).await?.waits_for.first()
        {
            return Err(Error::Refused(format!("It waits for #{needs}, which is not done.")));
        }
        let card = match trigger {
            Trigger::Approve { .. } => self.approve_checked(actor, id, None, None, version).await?,
            Trigger::Cancel
            | Trigger::StartNext
            | Trigger::SkipPlanning
            | Trigger::AskPlan
            | Trigger::FreshReview
            | Trigger::Restore
            | Trigger::Reject
            | Trigger::Answer
            | Trigger::Resume
            | Trigger::Reopen
            | Trigger::Claimed(_)
            | Trigger::SessionEnded(..)
            | Trigger::NoSlot
            | Trigger::NoAccountFree
            | Trigger::NoAccountForADay
            | Trigger::ChildEnded
            | Trigger::MergeConflict
            | Trigger::Tampered
            | Trigger::BudgetUsedUp => {
                self.decide(actor, id, trigger, Decision { version, ..Decision::default() }).await?
            }
        };
        let message = if trigger == Trigger::StartNext {
            format!("#{id} starts next, as soon as a slot is free.")
        } else {
            format!("#{id} moved to {}.", card.status.label())
        };
        Ok(Moved { card, message })
    }

    /// Puts a card before another one of its lane and priority.
    pub async fn reorder(
        &self,
        actor: &Actor,
        id: ObjectiveId,
        before: Option<ObjectiveId>,
    ) -> Result<CardView> {
        self.operator(actor)?;
        let mut tx = self.store().begin().await?;
        let card = get(&mut tx, actor.scope, id).await?;
        crate::store::order::reorder(&mut tx, &card, before).await?;
        append(
            &mut tx,
            actor.scope,
            NewEvent {
                objective: id,
                kind: "ordered",
                from: None,
                to: None,
                trigger: "reorder",
                actor: &actor.name,
                reason: "",
                session: None,
            },
        )
        .await?;
        tx.commit().await?;
        self.changed();
        self.card(actor.scope, id).await
    }

    /// Accepts it, integrating first: done means that the commit is where it belongs.
    pub async fn approve(
        &self,
        actor: &Actor,
        id: ObjectiveId,
        integrate: Option<Integration>,
        reason: Option<String>,
    ) -> Result<CardView> {
        self.operator(actor)?;
        self.approve_checked(actor, id, integrate, reason, None).await
    }

    async fn approve_checked(
        &self,
        actor: &Actor,
        id: ObjectiveId,
        integrate: Option<Integration>,
        reason: Option<String>,
        version: Option<i64>,
    ) -> Result<CardView> {
        let reason =
            reason.map(|text| long_text("reason", text.trim())).transpose()?.filter(|t| !t.is_empty());
        let before = self.store().objective(actor.scope, id).await?;
        // Before anything is merged: what is on this person's screen must be what is accepted.
        if version.is_some_and(|version| version != before.version) {
            return Err(changed_meanwhile(id));
        }
        let trigger = Trigger::Approve { reason: reason.is_some() };
        state_machine::step(&before.facts, trigger)?;
        let how = match integrate {
            Some(how) => how,
            None => self.repo_row(actor.scope, before.repo).await?.integrate(),
        };
        let integrated = match self.integrate_branch(&before, how).await {
            Ok(sentence) => sentence,
            Err(Error::Conflict(files)) => {
                let note = files.clone();
                let decision = Decision { reason: &note, attention_note: &note, ..Decision::default() };
                self.decide(actor, id, Trigger::MergeConflict, decision).await?;
                return Err(Error::Conflict(files));
            }
            Err(error) => return Err(error),
        };
        let decision = Decision {
            reason: reason.as_deref().unwrap_or_default(),
            passed: Some(true),
            integrated: Some(integrated),
            merged: Some(before.head_commit),
            ..Decision::default()
        };
        self.decide(actor, id, trigger, decision).await
    }

    /// Rejects it with findings, which stand first in the next context.
    pub async fn reject(&self, actor: &Actor, id: ObjectiveId, findings: String) -> Result<CardView> {
        let text = needed("findings", &findings, "Say what is wrong: it stands first in the next session.")?;
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned).collect();
        let decision =
            Decision { reason: &text, findings: Some(lines), passed: Some(false), ..Decision::default() };
        self.decide(actor, id, Trigger::Reject, decision).await
    }

    /// Answers a blocker.
    pub async fn answer(&self, actor: &Actor, id: ObjectiveId, text: String) -> Result<CardView> {
        let text = needed("answer", &text, "Write what the session needs to know.")?;
        let findings = vec![format!("{} answers: {text}", actor.name)];
        let decision = Decision { reason: &text, findings: Some(findings), ..Decision::default() };
        self.decide(actor, id, Trigger::Answer, decision).await
    }

    /// Starts again what was stopped or lost.
    pub async fn resume(&self, actor: &Actor, id: ObjectiveId) -> Result<CardView> {
        self.decide(actor, id, Trigger::Resume, Decision::default()).await
    }

    /// Starts again everything that a person or stop-all stopped; gives how many.
    pub async fn resume_all(&self, actor: &Actor) -> Result<u32> {
        self.operator(actor)?;
        let mut resumed = 0;
        for card in self.needs_you(actor.scope).await? {
            if card.attention == Some(Attention::Stopped) {
                match self.resume(actor, card.id).await {
                    Ok(_) => resumed += 1,
                    // Somebody else decided it meanwhile.
                    Err(Error::Refused(_) | Error::Conflict(_)) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(resumed)
    }

    /// Asks for a fresh review.
    pub async fn fresh_review(&self, actor: &Actor, id: ObjectiveId) -> Result<CardView> {
        self.decide(actor, id, Trigger::FreshReview, Decision { passed: Some(false), ..Decision::default() })
            .await
    }

    /// Reopens what is done; counted as a false pass of the gate if the last verdict was a pass.
    pub async fn reopen(&self, actor: &Actor, id: ObjectiveId, reason: String) -> Result<CardView> {
        let text = needed("reason", &reason, "Say why: it stands first in the next session.")?;
        let findings = vec![format!("Reopened by {}: {text}", actor.name)];
        let decision =
            Decision { reason: &text, findings: Some(findings), passed: Some(false), ..Decision::default() };
        self.decide(actor, id, Trigger::Reopen, decision).await
    }

    /// Cancels it; a running session is stopped.
    pub async fn cancel(&self, actor: &Actor, id: ObjectiveId) -> Result<CardView> {
        self.decide(actor, id, Trigger::Cancel, Decision::default()).await
    }

    /// Brings a cancelled one back.
    pub async fn restore(&self, actor: &Actor, id: ObjectiveId) -> Result<CardView> {
        self.decide(actor, id, Trigger::Restore, Decision::default()).await
    }

    /// Leaves a message for the next session.
    pub async fn message(&self, actor: &Actor, id: ObjectiveId, text: String) -> Result<()> {
        self.operator(actor)?;
        let text = needed("message", &text, "Write what the next session needs to know.")?;
        let mut tx = self.store().begin().await?;
        get(&mut tx, actor.scope, id).await?;
        crate::store::objectives::add_message(&mut tx, actor, id, &text).await?;
        append(
            &mut tx,
            actor.scope,
            NewEvent {
                objective: id,
                kind: "message",
                from: None,
                to: None,
                trigger: "message",
                actor: &actor.name,
                reason: &text.chars().take(500).collect::<String>(),
                session: None,
            },
        )
        .await?;
        tx.commit().await?;
        self.changed();
        Ok(())
    }

    /// Integrates a delivered branch by hand, at any time after it is done.
    pub async fn integrate(&self, actor: &Actor, id: ObjectiveId, how: Integration) -> Result<String> {
        self.operator(actor)?;
        let before = self.store().objective(actor.scope, id).await?;
        if before.facts.status != Status::Done {
            return Err(Error::Refused("Only what is done can be integrated. Approve it first.".into()));
        }
        let sentence = self.integrate_branch(&before, how).await?;
        let mut tx = self.store().begin().await?;
        crate::store::objectives::set_integrated(&mut tx, id, &sentence).await?;
        append(
            &mut tx,
            actor.scope,
            NewEvent {
                objective: id,
                kind: "integrated",
                from: None,
                to: None,
                trigger: "integrate",
                actor: &actor.name,
                reason: &sentence,
                session: None,
            },
        )
        .await?;
        let detail = serde_json::json!({ "how": how, "result": sentence });
        audit_in(&mut tx, actor.scope, &actor.name, "integrated", &format!("#{id}"), &detail).await?;
        tx.commit().await?;
        self.changed();
        Ok(sentence)
    }

    /// One transaction for a person's trigger: step, store, event, audit.
    async fn decide(
        &self,
        actor: &Actor,
        id: ObjectiveId,
        trigger: Trigger,
        decision: Decision<'_>,
    ) -> Result<CardView> {
        self.operator(actor)?;
        let mut tx = self.store().begin().await?;
        let before = get(&mut tx, actor.scope, id).await?;
        if decision.version.is_some_and(|version| version != before.version) {
            return Err(changed_meanwhile(id));
        }
        if decision.merged.as_ref().is_some_and(|merged| *merged != before.head_commit) {
            return Err(Error::Conflict(format!(
                "While #{id} was merged a newer result arrived. Look at it, and decide again."
            )));
        }
        let transition = state_machine::step(&before.facts, trigger)?;
        let moved = transition.to != before.facts.status;
        let note = match transition.attention {
            Some(attention) => attention_note(attention, &transition, decision.attention_note),
            None => String::new(),
        };
        let beside = Beside {
            attention_note: note,
            findings: decision.findings,
            passed: decision.passed,
            integrated: decision.integrated,
            ..Beside::default()
        };
        store_transition(&mut tx, &before, &transition, &beside).await?;
        append(
            &mut tx,
            actor.scope,
            NewEvent {
                objective: id,
                kind: if moved { "moved" } else { "ordered" },
                from: moved.then_some(before.facts.status),
                to: moved.then_some(transition.to),
                trigger: trigger.name(),
                actor: &actor.name,
                reason: &decision.reason.chars().take(2000).collect::<String>(),
                session: before.session.as_ref(),
            },
        )
        .await?;
        wake_parent(&mut tx, &before, &transition).await?;
        // In the same transaction: a session that was claimed a moment ago is stopped as well, and a server that dies
        // here finds in the row what is still to be asked.
        let stop = before.session.as_ref().filter(|_| transition.stop_session);
        if let Some(session) = stop {
            mark_stopping(&mut tx, session).await?;
        }
        let detail = serde_json::json!({ "from": before.facts.status, "to": transition.to, "reason": decision.reason });
        audit_in(&mut tx, actor.scope, &actor.name, trigger.name(), &format!("#{id}"), &detail).await?;
        tx.commit().await?;
        if let Some(session) = stop
            && let Err(error) = self.write_stop(session, Outcome::Stopped, &actor.name)
        {
            // It is decided. The poller finds the row and writes the request as soon as it can be written.
            tracing::warn!(session.id = %session, %error, "a request to stop waits");
        }
        self.changed();
        self.card(actor.scope, id).await
    }

    /// Stops one session; its objective then needs a person.
    pub async fn stop_session(&self, actor: &Actor, id: &SessionId) -> Result<()> {
        self.operator(actor)?;
        self.session(actor.scope, id).await?;
        self.ask_to_stop(id, Outcome::Stopped, &actor.name).await?;
        self.audit(actor, "session_stopped", id.as_str(), serde_json::json!({})).await
    }
}

/// A child's end is an outbox row in the same transaction, so that its parent hears of it exactly once.
pub(crate) async fn wake_parent(tx: &mut Tx, before: &Objective, transition: &Transition) -> Result<()> {
    match before.parent {
        Some(parent) if transition.wakes_parent => {
            crate::store::objectives::outbox(tx, before.scope, "child_ended", parent, &before.id.to_string())
                .await
        }
        Some(_) | None => Ok(()),
    }
}

/// The few words behind the attention label.
pub(crate) fn attention_note(attention: Attention, transition: &Transition, text: &str) -> String {
    let rounds = transition.counters.rounds_total;
    let text: String = text.lines().next().unwrap_or_default().chars().take(160).collect();
    match attention {
        Attention::SignOff => format!("passed in round {}", rounds + 1),
        Attention::RetriesExhausted => format!("{rounds} rounds failed"),
        Attention::Blocked
        | Attention::ReviewError
        | Attention::SessionLost
        | Attention::BudgetExhausted
        | Attention::NoAccount
        | Attention::PlanMissing
        | Attention::Tampered
        | Attention::Conflict
        | Attention::StartFailed
        | Attention::Stopped => text,
        // The label says the beginning already.
        Attention::NoDeliverable => {
            text.strip_prefix("Nothing was delivered: ").map_or(text.clone(), str::to_owned)
        }
    }
}

fn needed(what: &str, text: &str, hint: &str) -> Result<String> {
    let text = long_text(what, text.trim())?;
    if text.is_empty() { Err(Error::BadInput(hint.to_owned())) } else { Ok(text) }
}
