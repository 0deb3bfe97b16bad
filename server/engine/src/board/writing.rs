//! Writing and changing an objective, before its criteria are locked.

use opkit_domain::access::Actor;
use opkit_domain::ids::ObjectiveId;
use opkit_domain::objective::{self, Criterion, DEFAULT_MAX_ROUNDS, Gate, Kind, Status, long_text};
use opkit_domain::view::{CardView, EditObjective, NewObjective};

use crate::clock::now_ms;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::store::Tx;
use crate::store::events::{NewEvent, append};
use crate::store::objectives::{Objective, get};
use crate::store::people::audit_in;

impl Engine {
    /// Writes an objective. With an idempotency key, the same call twice gives the same objective.
    pub async fn create(
        &self,
        actor: &Actor,
        new: NewObjective,
        idempotency: Option<&str>,
    ) -> Result<CardView> {
        self.operator(actor)?;
        if let Some(key) = idempotency
            && let Some(id) = self.store().idempotent(actor, key).await?
        {
            return self.card(actor.scope, id).await;
        }
        let checked = self.check_new(actor, &new).await?;
        let mut tx = self.store().begin().await?;
        let id = insert(&mut tx, actor, &new, &checked).await?;
        for needs in &new.blocked_by {
            get(&mut tx, actor.scope, *needs).await?;
            dependency(&mut tx, id, *needs).await?;
        }
        append(
            &mut tx,
            actor.scope,
            NewEvent {
                objective: id,
                kind: "created",
                from: None,
                to: Some(checked.status),
                trigger: "created",
                actor: &actor.name,
                reason: "",
                session: None,
            },
        )
        .await?;
        if let Some(key) = idempotency {
            let remembered = crate::store::objectives::remember_key(&mut tx, actor, key, id).await;
            if let Err(Error::Conflict(why)) = remembered {
                drop(tx);
                let first = self.store().idempotent(actor, key).await?.ok_or(Error::Conflict(why))?;
                return self.card(actor.scope, first).await;
            }
            remembered?;
        }
        let detail = serde_json::json!({ "title": checked.title, "repo": new.repo });
        audit_in(&mut tx, actor.scope, &actor.name, "objective_created", &format!("#{id}"), &detail).await?;
        tx.commit().await?;
        self.changed();
        self.card(actor.scope, id).await
    }

    async fn check_new(&self, actor: &Actor, new: &NewObjective) -> Result<Checked> {
        let title = objective::title(&new.title)?;
        let brief = long_text("brief", &new.brief)?;
        let goal = long_text("goal", new.goal.trim())?;
        if goal.contains('\n') || goal.len() > 500 {
            return Err(Error::BadInput("The goal is one line of at most 500 bytes.".into()));
        }
        let mut criteria = objective::criteria(&new.criteria)?;
        if new.kind == Kind::Bug && criteria.is_empty() {
            // A bug without criteria is judged by its brief.
            let text = if brief.trim().is_empty() { title.clone() } else { brief.trim().to_owned() };
            let text: String = text.chars().take(objective::MAX_CRITERION / 4).collect();
            criteria.push(Criterion { text, check: None });
        }
        let repo = self.store().repo_by_name(actor.scope, &new.repo).await?.ok_or_else(|| {
            Error::BadInput(format!(
                "There is no repository “{}”. Add it first, or choose one that is registered.",
                crate::git::short(&new.repo)
            ))
        })?;
        let agent = new.agent.clone().unwrap_or_else(|| "demo".into());
        self.agents().check(&agent, new.script.as_deref())?;
        if new.priority > 4 {
            return Err(Error::BadInput("The priority is 0 to 4.".into()));
        }
        labels(&new.labels)?;
        max_rounds(new.max_review_rounds)?;
        if let Some(parent) = new.parent {
            self.store().objective(actor.scope, parent).await?;
        }
        let base = new.base.clone().unwrap_or_else(|| repo.base.clone());
        let base_commit = self.resolve_base(&repo, &base).await?;
        let status =
            if new.kind == Kind::Project && criteria.is_empty() { Status::Planning } else { Status::Queue };
        Ok(Checked { title, brief, goal, criteria, repo: repo.id, agent, base, base_commit, status })
    }

    /// Edits fields; never the status.
    pub async fn edit(&self, actor: &Actor, id: ObjectiveId, edit: EditObjective) -> Result<CardView> {
        self.operator(actor)?;
        let mut tx = self.store().begin().await?;
        let before = get(&mut tx, actor.scope, id).await?;
        if edit.version.is_some_and(|version| version != before.version) {
            return Err(Error::Conflict(format!(
                "#{id} was changed by somebody else since you opened it. Your text is still here: look at the \
                 new version, then save again."
            )));
        }
        let after = self.edited(&before, &edit)?;
        let mut what = changed_fields(&before, &after);
        if let Some(needs) = &edit.blocked_by {
            replace_dependencies(&mut tx, actor, id, needs).await?;
            what = if what.is_empty() { "blocked_by".into() } else { format!("{what}, blocked_by") };
        }
        if what.is_empty() {
            return self.card(actor.scope, id).await;
        }
        crate::store::objectives::store_edit(&mut tx, &before, &after).await?;
        append(
            &mut tx,
            actor.scope,
            NewEvent {
                objective: id,
                kind: "edited",
                from: None,
                to: None,
                trigger: "edit",
                actor: &actor.name,
                reason: &what,
                session: None,
            },
        )
        .await?;
        let detail = serde_json::json!({ "fields": what });
        audit_in(&mut tx, actor.scope, &actor.name, "objective_edited", &format!("#{id}"), &detail).await?;
        tx.commit().await?;
        self.changed();
        self.card(actor.scope, id).await
    }

    fn edited(&self, before: &Objective, edit: &EditObjective) -> Result<Objective> {
        let mut after = before.clone();
        if let Some(title) = &edit.title {
            after.title = objective::title(title)?;
        }
        if let Some(goal) = &edit.goal {
            after.goal = long_text("goal", goal.trim())?.replace('\n', " ");
        }
        if let Some(brief) = &edit.brief {
            after.brief = long_text("brief", brief)?;
        }
        if let Some(list) = &edit.criteria {
            let list = objective::criteria(list)?;
            if before.facts.locked && list != before.criteria {
                return Err(Error::Refused(
                    "The criteria are locked since the work began. Write a new objective for other criteria."
                        .into(),
                ));
            }
            if list.is_empty()
                && !matches!(before.facts.status, Status::Planning)
                && before.facts.kind != Kind::Task
            {
                return Err(Error::BadInput("At least one criterion is needed.".into()));
            }
            after.criteria = list;
        }
        if let Some(priority) = edit.priority {
            if priority > 4 {
                return Err(Error::BadInput("The priority is 0 to 4.".into()));
            }
            after.priority = priority;
        }
        if let Some(hold) = edit.hold {
            after.facts.hold = hold;
        }
        if let Some(kind) = edit.kind {
            if kind < before.facts.kind {
                return Err(Error::Refused(format!(
                    "The type can only be raised. A {} with less review is a new objective.",
                    before.facts.kind
                )));
            }
            after.facts.kind = kind;
            after.facts.gate = after.facts.gate.max(kind.gate());
        }
        if let Some(gate) = edit.review {
            if gate < before.facts.gate {
                return Err(Error::Refused("Less review than it has now means a new objective.".into()));
            }
            after.facts.gate = gate;
        }
        if let Some(list) = &edit.labels {
            after.labels = labels(list)?;
        }
        if edit.agent.is_some() || edit.script.is_some() {
            after.agent = edit.agent.clone().unwrap_or(before.agent.clone());
            after.script = edit.script.clone().or(before.script.clone()).filter(|_| after.agent == "demo");
            self.agents().check(&after.agent, after.script.as_deref())?;
        }
        if let Some(rounds) = max_rounds(edit.max_review_rounds)? {
            after.facts.max_rounds = rounds;
        }
        Ok(after)
    }
}

struct Checked {
    title: String,
    brief: String,
    goal: String,
    criteria: Vec<Criterion>,
    repo: i64,
    agent: String,
    base: String,
    base_commit: String,
    status: Status,
}

async fn insert(tx: &mut Tx, actor: &Actor, new: &NewObjective, checked: &Checked) -> Result<ObjectiveId> {
    let row = crate::store::objectives::NewRow {
        repository: checked.repo,
        parent: new.parent,
        title: &checked.title,
        goal: &checked.goal,
        brief: &checked.brief,
        kind: new.kind,
        gate: new.review.unwrap_or(Gate::None).max(new.kind.gate()),
        status: checked.status,
        hold: new.hold,
        priority: new.priority,
        criteria: &checked.criteria,
        max_rounds: new.max_review_rounds.unwrap_or(DEFAULT_MAX_ROUNDS),
        base: &checked.base,
        base_commit: &checked.base_commit,
        agent: &checked.agent,
        script: new.script.as_deref(),
        labels: &new.labels,
        creator: &actor.name,
        now: now_ms(),
    };
    crate::store::objectives::insert(tx, actor.scope, &row).await
}

async fn dependency(tx: &mut Tx, id: ObjectiveId, needs: ObjectiveId) -> Result<()> {
    if id == needs {
        return Err(Error::BadInput("An objective cannot wait for itself.".into()));
    }
    crate::store::objectives::add_dependency(tx, id, needs).await
}

/// An edit gives the whole list anew, also to let go of one that will never be done.
async fn replace_dependencies(
    tx: &mut Tx,
    actor: &Actor,
    id: ObjectiveId,
    list: &[ObjectiveId],
) -> Result<()> {
    crate::store::objectives::clear_dependencies(tx, id).await?;
    for needs in list {
        get(tx, actor.scope, *needs).await?;
        if crate::store::objectives::waits_on(tx, *needs, id).await? {
            return Err(Error::BadInput(format!("#{needs} waits for #{id} itself. That would be a circle.")));
        }
        dependency(tx, id, *needs).await?;
    }
    Ok(())
}

fn labels(list: &[String]) -> Result<Vec<String>> {
    if list.len() > 20
        || list.iter().any(|l| l.trim().is_empty() || l.len() > 40 || l.chars().any(char::is_control))
    {
        return Err(Error::BadInput("Up to 20 labels of at most 40 characters each.".into()));
    }
    Ok(list.iter().map(|label| label.trim().to_owned()).collect())
}

fn max_rounds(rounds: Option<u32>) -> Result<Option<u32>> {
    match rounds {
        Some(rounds) if !(1..=20).contains(&rounds) => {
            Err(Error::BadInput("The number of review rounds is 1 to 20.".into()))
        }
        other => Ok(other),
    }
}

fn changed_fields(before: &Objective, after: &Objective) -> String {
    let mut list = Vec::new();
    let mut add = |changed: bool, name: &'static str| {
        if changed {
            list.push(name);
        }
    };
    add(before.title != after.title, "title");
    add(before.goal != after.goal, "goal");
    add(before.brief != after.brief, "brief");
    add(before.criteria != after.criteria, "criteria");
    add(before.priority != after.priority, "priority");
    add(before.facts.hold != after.facts.hold, "hold");
    add(before.facts.kind != after.facts.kind, "type");
    add(before.facts.gate != after.facts.gate, "review");
    add(before.labels != after.labels, "labels");
    add(before.agent != after.agent || before.script != after.script, "agent");
    add(before.facts.max_rounds != after.facts.max_rounds, "rounds");
    list.join(", ")
}
