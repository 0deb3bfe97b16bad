//! What holds when something comes between: a runner that dies after its agent, an old screen, a floor that runs
//! foreign code, cards put into one gap again and again.
#![allow(clippy::unwrap_used, reason = "a test says what it expects")]

mod support;

use std::fs;
use std::path::Path;
use std::process::Command;

use opkit_domain::ids::ObjectiveId;
use opkit_domain::objective::{Criterion, Integration, Kind, Status};
use opkit_domain::session::{Outcome, files};
use opkit_domain::view::NewObjective;
use opkit_engine::{Error, NewRepo};
use support::{SCOPE, World, bug, git};

/// git in a worktree that belongs to the agents' user.
fn look(tree: &Path, args: &[&str]) -> String {
    let mut all = vec!["-c", "safe.directory=*"];
    all.extend(args);
    git(tree, &all)
}

async fn repo_with(world: &World, new: NewRepo) {
    let source = world.repository("app").display().to_string();
    world.engine.add_repo(&world.owner, NewRepo { source, ..new }).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn work_survives_a_runner_that_dies_while_the_checks_run() {
    let world = World::new(2).await;
    // The first time only: the mark stands outside of what a checkout replaces.
    let verify = "test -f \"$OPKIT_MEMORY/again\" || { touch \"$OPKIT_MEMORY/again\"; sleep 60; }";
    repo_with(&world, NewRepo { verify: Some(verify.into()), ..NewRepo::default() }).await;
    let new = NewObjective { kind: Kind::Task, ..bug("app", "Ends at its checks", "good") };
    let id = world.create(new).await;
    let data = world.dir.path().join("data");
    let tree = data.join(format!("work/{id}/cc-worktree-{id}"));
    world
        .until("the checks run", async || data.join(format!("work/{id}/memory/again")).exists().then_some(()))
        .await;
    let made = look(&tree, &["rev-parse", &format!("obj/{id}")]);
    assert_ne!(made, look(&tree, &["rev-parse", "origin/main"]), "the agent committed");
    let first = world.card(id).await.session.unwrap();
    let lock = data.join(format!("sessions/{first}")).join(files::LOCK);
    let pid = fs::read_to_string(lock).unwrap();
    assert!(Command::new("kill").args(["-9", pid.trim()]).status().unwrap().success());
    assert_eq!(world.rests(id).await.status, Status::Done);
    let sessions = world.engine.objective(SCOPE, id).await.unwrap().sessions;
    assert!(sessions.len() >= 2, "{sessions:?}");
    look(&tree, &["cat-file", "-e", &made]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_old_screen_merges_nothing() {
    let world = World::new(5).await;
    let repo = world.add_repo("app").await;
    let new = NewObjective { kind: Kind::Project, ..bug("app", "A project", "good") };
    let id = world.create(new).await;
    let old = world.rests(id).await;
    assert_eq!(old.status, Status::HumanReview);
    world.engine.edit_repo(&world.owner, "app", integrates_by_merge()).await.unwrap();
    world.engine.reject(&world.owner, id, "Once more.".into()).await.unwrap();
    world
        .until("it rests again", async || {
            let card = world.card(id).await;
            (card.status == Status::HumanReview && card.version > old.version).then_some(())
        })
        .await;
    let before = git(&repo, &["rev-parse", "HEAD"]);
    let refused = world.engine.move_to(&world.owner, id, Status::Done, Some(old.version)).await.unwrap_err();
    assert!(matches!(refused, Error::Conflict(_)), "{refused:?}");
    assert_eq!(git(&repo, &["rev-parse", "HEAD"]), before, "nothing was merged");
    let now = world.card(id).await;
    world.engine.move_to(&world.owner, id, Status::Done, Some(now.version)).await.unwrap();
    assert_ne!(git(&repo, &["rev-parse", "HEAD"]), before);
}

fn integrates_by_merge() -> opkit_engine::EditRepo {
    opkit_engine::EditRepo { integrate: Some(Integration::Merge), ..opkit_engine::EditRepo::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn checks_of_a_review_touch_nothing_of_the_reviewer_s() {
    let world = World::new(2).await;
    world.add_repo("app").await;
    let check = "test -n \"$OPKIT_REVIEW\" || exit 0
        for place in out tree home; do
            if touch \"$OPKIT_REVIEW/$place/planted\" 2>/dev/null; then echo \"$place is open\"; exit 1; fi
        done
        touch built \"$HOME/cache\" && test -f hello.txt";
    let criteria = vec![Criterion { text: "It keeps to itself".into(), check: Some(check.into()) }];
    let id = world.create(NewObjective { criteria, ..bug("app", "Keeps to itself", "good") }).await;
    let card = world.rests(id).await;
    assert_eq!(card.status, Status::Done, "{}", card.attention_note);
}

#[tokio::test(flavor = "multi_thread")]
async fn checks_of_a_task_run_in_a_home_of_their_own() {
    let world = World::new(2).await;
    let verify = "echo said > /dev/stderr && test -z \"$(ls -A \"$HOME\")\" && test \"$PWD\" = \"$OPKIT_WORKTREE\" && test -f hello.txt";
    repo_with(&world, NewRepo { verify: Some(verify.into()), ..NewRepo::default() }).await;
    let id = world.create(NewObjective { kind: Kind::Task, ..bug("app", "Checked", "good") }).await;
    assert_eq!(world.rests(id).await.status, Status::Done);
    let scratch = world.dir.path().join(format!("data/work/{id}/scratch"));
    let left: Vec<String> = fs::read_dir(scratch)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .filter(|name| name.starts_with("floor"))
        .collect();
    assert_eq!(left, Vec::<String>::new(), "the export is cleared away");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_gap_takes_cards_without_end() {
    let world = World::new(1).await;
    world.add_repo("app").await;
    let mut ids = Vec::new();
    for name in ["last", "one", "two"] {
        ids.push(world.create(NewObjective { hold: true, ..bug("app", name, "good") }).await);
    }
    let [last, one, two] = ids[..] else { unreachable!() };
    world.engine.reorder(&world.owner, two, Some(last)).await.unwrap();
    // Always right before the same card: after some turns no number is left in between.
    for turn in 0..60 {
        let moved = if turn % 2 == 0 { one } else { two };
        world.engine.reorder(&world.owner, moved, Some(last)).await.unwrap();
        let order = queue(&world).await;
        let expected = if turn % 2 == 0 { [two, one, last] } else { [one, two, last] };
        assert_eq!(order, expected, "after turn {turn}");
    }
}

async fn queue(world: &World) -> Vec<ObjectiveId> {
    let query = opkit_engine::ListQuery { limit: 100, ..Default::default() };
    let mut cards = world.engine.list(SCOPE, &query).await.unwrap();
    cards.retain(|card| card.status == Status::Queue);
    cards.sort_by_key(|card| (card.position, card.id));
    cards.into_iter().map(|card| card.id).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_huge_brief_leaves_the_criteria_whole() {
    let world = World::new(2).await;
    world.add_repo("app").await;
    let brief = format!("{}\n", "Much is said here. ".repeat(10_000));
    let criteria: Vec<Criterion> = (0..50)
        .map(|n| Criterion { text: format!("hello.txt exists, {n}: {}", "x".repeat(3_000)), check: None })
        .collect();
    let id = world.create(NewObjective { brief, criteria, ..bug("app", "Much to read", "good") }).await;
    let card = world.rests(id).await;
    assert_eq!(card.status, Status::Done, "{:?} {}", card.attention, card.attention_note);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_did_not_fit_is_not_taken_for_read() {
    let world = World::new(2).await;
    world.add_repo("app").await;
    let new = NewObjective { kind: Kind::Project, hold: true, ..bug("app", "Many words", "good") };
    let id = world.create(new).await;
    for n in 0..3 {
        let text = format!("message {n} {}", "m".repeat(20_000));
        world.engine.message(&world.owner, id, text).await.unwrap();
    }
    let edit = opkit_domain::view::EditObjective { hold: Some(false), ..Default::default() };
    world.engine.edit(&world.owner, id, edit).await.unwrap();
    world.rests(id).await;
    let told = |view: &opkit_domain::view::ObjectiveView| {
        view.messages.iter().map(|message| message.delivered_to.is_some()).collect::<Vec<_>>()
    };
    let view = world.engine.objective(SCOPE, id).await.unwrap();
    // The newest stands first.
    assert_eq!(told(&view), [false, false, true]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_restore_left_half_done_is_no_installation() {
    let dir = support::open_dir();
    fs::write(dir.path().join("RESTORING"), "").unwrap();
    let config = opkit_engine::Config {
        data: dir.path().to_owned(),
        session_binary: support::session_binary(),
        ..opkit_engine::Config::default()
    };
    let error = opkit_engine::Engine::open(config).await.err().unwrap().to_string();
    assert!(error.contains("Delete the directory"), "{error}");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "nothing was made");
}

/// The window opens while the launch record is written: a record that cannot be must leave nothing in it.
#[tokio::test(flavor = "multi_thread")]
async fn a_launch_without_a_record_says_why_and_leaves_no_runner() {
    let world = World::new(2).await;
    world.add_repo("app").await;
    let data = world.dir.path().join("data");
    let hooks = data.join("agents/demo/hooks.json");
    fs::create_dir_all(hooks.parent().unwrap()).unwrap();
    fs::write(&hooks, "{ not json").unwrap();
    let id = world.create(bug("app", "Begins later", "good")).await;
    let first = world
        .until("the first launch is over", async || {
            let sessions = world.engine.objective(SCOPE, id).await.unwrap().sessions;
            sessions.into_iter().find(|session| session.outcome.is_some())
        })
        .await;
    assert_eq!(first.outcome, Some(Outcome::NeverRan));
    assert!(first.detail.contains("hooks.json are not understood"), "{}", first.detail);
    let dir = data.join(format!("sessions/{}", first.id));
    assert!(dir.join(files::CALLED_OFF).exists() && !dir.join(files::SPEC).exists());
    world
        .until("its runner has left", async || {
            let line = format!("run\0{}", dir.display());
            let lives = fs::read_dir("/proc").unwrap().flatten().any(|entry| {
                fs::read(entry.path().join("cmdline"))
                    .is_ok_and(|text| String::from_utf8_lossy(&text).contains(&line))
            });
            (!lives).then_some(())
        })
        .await;
    assert_eq!(fs::read(dir.join(files::LOCK)).unwrap_or_default(), b"");
    assert!(!dir.join(files::RECORD).exists() && !dir.join(files::EXIT).exists());
    fs::remove_file(hooks).unwrap();
    assert_eq!(world.rests(id).await.status, Status::Done);
}
