//! The dispatcher: fills free slots in the order of claims, then launches what it claimed.

use std::time::Duration;

use opkit_domain::account_pool::{Load, Wish, choose};
use opkit_domain::dispatch::{self, Class, Live, Slots};
use opkit_domain::ids::SessionId;
use opkit_domain::objective::SubState;
use opkit_domain::session::Role;
use opkit_domain::state_machine::{self, Trigger, step};

use crate::clock::now_ms;
use crate::engine::Engine;
use crate::error::Result;
use crate::session_manager::LaunchPermit;
use crate::store::Tx;
use crate::store::claim::{self, NewSession};
use crate::store::events::{NewEvent, append};
use crate::store::objectives::{Beside, Objective, get, store_transition};

/// A session that has not started after this long never ran.
const START_DEADLINE_MS: i64 = 120_000;
/// Wall clock of a session.
pub(crate) const WALL_CLOCK_S: u64 = 4 * 3600;
/// After this long without an account a person is asked.
const ACCOUNT_PATIENCE_MS: i64 = 24 * 3_600_000;

/// Sets the task going: a timer makes it right, a wake-up makes it fast.
pub(crate) fn spawn(engine: Engine) {
    tokio::spawn(async move {
        loop {
            let _ = tokio::time::timeout(Duration::from_secs(1), engine.dispatch_wake().notified()).await;
            if !engine.is_ready() || engine.draining() {
                continue;
            }
            let result = engine.fill_slots().await;
            match result {
                Ok(permits) => {
                    engine.tasks().ok("dispatcher");
                    for permit in permits {
                        let engine = engine.clone();
                        tokio::spawn(async move { engine.launch(permit).await });
                    }
                }
                Err(error) => engine.tasks().failed("dispatcher", &error),
            }
        }
    });
}

impl Engine {
    /// Claims as many sessions as fit, all in one transaction.
    pub(crate) async fn fill_slots(&self) -> Result<Vec<LaunchPermit>> {
        if !self.store().anything_to_claim(now_ms()).await? {
            return Ok(vec![]);
        }
        let setting = self.cap_setting();
        // Read before the writer is taken: nobody waits for a file.
        let users = crate::os_users::uids()?;
        let mut tx = self.store().begin().await?;
        let (accounts, mut live) = claim::open(&mut tx).await?;
        // Checked inside the claim: whoever set the switch before this point is obeyed.
        if crate::kill_switch::reason(&self.dirs().kill_switch()).is_some() {
            return Ok(vec![]);
        }
        if self.disk_is_low() {
            return Ok(vec![]);
        }
        // An account whose tmux hangs, or whose user is not there, is none now; it comes back when that is mended.
        let mut accounts: Vec<Load> = accounts
            .into_iter()
            .map(|(mut load, user)| {
                load.available &= !self.tmux().is_silent(&self.dirs().tmux_socket(&load.name));
                load.available &= user.is_none_or(|user| !self.has_slots() || users.contains_key(&user));
                load
            })
            .collect();
        let room: u32 = accounts.iter().filter(|a| a.available).map(|a| a.limit).sum();
        let slots = Slots::new(setting, room, accounts.iter().map(|account| account.limit).sum());
        let mut found = claim::candidates(&mut tx, slots.total.max(20) + 5, &self.held_agents()).await?;
        found.sort_by(|a, b| {
            let mut pair = [a.1.clone(), b.1.clone()];
            dispatch::order(&mut pair);
            if pair[0] == a.1 { std::cmp::Ordering::Less } else { std::cmp::Ordering::Greater }
        });
        let mut permits = Vec::new();
        let mut marked = false;
        for (scope, candidate) in found {
            let objective = get(&mut tx, scope, candidate.id).await?;
            let Some(role) = state_machine::wanted(&objective.facts) else { continue };
            if candidate.class == Class::Queue && !slots.fit(live, role) {
                // Nothing of the queue fits any more, and whatever follows is of the queue too.
                break;
            }
            if !slots.fit(live, role) && room > 0 {
                marked |= wait(&mut tx, &objective, Trigger::NoSlot, SubState::WaitingSlot).await?;
                continue;
            }
            let wish = match (objective.worker_account.as_deref(), role) {
                (Some(worker), Role::Review) => Wish::Avoid(worker),
                (Some(worker), Role::Work | Role::Plan | Role::Delegate) => Wish::Stay(worker),
                (None, _) => Wish::None,
            };
            let account = choose(self.account_policy(), &accounts, wish);
            let Some(account) = account.map(|account| account.name.clone()) else {
                marked |= self.no_account(&mut tx, &objective).await?;
                continue;
            };
            permits.push(claim_one(&mut tx, self, &objective, role, &account).await?);
            if let Some(load) = accounts.iter_mut().find(|load| load.name == account) {
                load.live += 1;
            }
            count(&mut live, role);
        }
        if permits.is_empty() && !marked {
            return Ok(vec![]);
        }
        tx.commit().await?;
        if permits.is_empty() {
            self.feed_wake().notify_one();
        }
        // Otherwise each launch tells the boards as soon as its window is open: a few milliseconds later, and it does
        // not compete with them for the processor.
        Ok(permits)
    }

    /// Agents of which nothing starts now: a guard that failed, a CLI that is not probed.
    fn held_agents(&self) -> Vec<String> {
        let names = crate::agents::NAMES.into_iter();
        let held = names.filter(|name| self.guard_is_broken(name) || self.agent_hold(name).is_some());
        held.map(str::to_owned).collect()
    }

    async fn no_account(&self, tx: &mut Tx, objective: &Objective) -> Result<bool> {
        let patient = objective.waiting_since.is_none_or(|since| now_ms() - since < ACCOUNT_PATIENCE_MS);
        if patient {
            return wait(tx, objective, Trigger::NoAccountFree, SubState::WaitingAccount).await;
        }
        let transition = step(&objective.facts, Trigger::NoAccountForADay)?;
        let beside = Beside { attention_note: "no account was free for a day".into(), ..Beside::default() };
        store_transition(tx, objective, &transition, &beside).await?;
        let event = NewEvent {
            objective: objective.id,
            kind: "moved",
            from: Some(objective.facts.status),
            to: Some(transition.to),
            trigger: Trigger::NoAccountForADay.name(),
            actor: "dispatcher",
            reason: "No account was free for a day.",
            session: None,
        };
        append(tx, objective.scope, event).await?;
        Ok(true)
    }
}

fn count(live: &mut Live, role: Role) {
    match role {
        Role::Review => live.review += 1,
        Role::Plan | Role::Work | Role::Delegate => live.other += 1,
    }
}

/// Notes what an objective waits for, once.
async fn wait(tx: &mut Tx, objective: &Objective, trigger: Trigger, why: SubState) -> Result<bool> {
    if objective.facts.sub_state == Some(why) {
        return Ok(false);
    }
    let Ok(transition) = step(&objective.facts, trigger) else { return Ok(false) };
    store_transition(tx, objective, &transition, &Beside::default()).await?;
    let reason = match why {
        SubState::WaitingSlot => "Every slot is taken.",
        SubState::WaitingAccount => "No account is free.",
        SubState::WaitingChildren | SubState::BetweenRuns => "",
    };
    let event = NewEvent {
        objective: objective.id,
        kind: "waits",
        from: None,
        to: None,
        trigger: trigger.name(),
        actor: "dispatcher",
        reason,
        session: None,
    };
    append(tx, objective.scope, event).await?;
    Ok(true)
}

async fn claim_one(
    tx: &mut Tx,
    engine: &Engine,
    objective: &Objective,
    role: Role,
    account: &str,
) -> Result<LaunchPermit> {
    let transition = step(&objective.facts, Trigger::Claimed(role))?;
    let id: SessionId = uuid::Uuid::new_v4()
        .to_string()
        .parse()
        .map_err(|_| crate::Error::Internal(anyhow::anyhow!("a UUID is not a session id")))?;
    let nonce = (role == Role::Review).then(|| uuid::Uuid::new_v4().simple().to_string());
    let token = (role != Role::Review).then(|| engine.session_token(&id)).transpose()?;
    let token_hash = token.as_deref().map(crate::session_manager::token_hash);
    let round = objective.facts.counters.rounds_total + 1;
    let detail = serde_json::json!({ "session": id, "role": role, "account": account, "phase": "intent" });
    let new = NewSession {
        id: &id,
        objective,
        transition: &transition,
        role,
        account,
        round,
        nonce: nonce.as_deref(),
        token_hash: token_hash.as_deref(),
        deadline: now_ms() + START_DEADLINE_MS,
        wall_clock_s: WALL_CLOCK_S,
        slot: engine.has_slots(),
        reason: &format!("A {role} session on {account}, round {round}."),
        audit: &detail.to_string(),
    };
    claim::store(tx, &new).await?;
    Ok(LaunchPermit::of_claim(id))
}
