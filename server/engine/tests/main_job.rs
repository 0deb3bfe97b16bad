//! The main job end to end: repository, objective, session, review, result.

mod support;

use opkit_domain::objective::{Attention, Integration, Kind, Status};
use support::{SCOPE, World, bug, git};

#[tokio::test(flavor = "multi_thread")]
async fn fails_then_good_goes_round_and_can_be_merged() {
    let world = World::new(5).await;
    let repo = world.add_repo("app").await;
    let before = git(&repo, &["status", "--porcelain"]);
    let id = world.create(bug("app", "Add a hello file", "fails-then-good")).await;
    let card = world.rests(id).await;
    assert_eq!(card.status, Status::Done, "{card:?}");
    use Status::{AiReview, Done, Queue, Working};
    assert_eq!(world.path(id).await, [Queue, Working, AiReview, Working, AiReview, Done]);
    let view = world.engine.objective(SCOPE, id).await.unwrap();
    let works: Vec<_> = view.sessions.iter().filter(|s| s.role.as_str() == "work").collect();
    assert_eq!(works.len(), 2);
    let second = world.engine.context(SCOPE, &works[0].id).await.unwrap();
    assert!(second.starts_with("## Findings of the last round\n\n- Criterion 1 is not met"), "{second}");
    assert_eq!(git(&repo, &["status", "--porcelain"]), before);
    assert!(!repo.join("hello.txt").exists(), "nothing touches the registered checkout before a merge");
    let sentence = world.engine.integrate(&world.owner, id, Integration::Merge).await.unwrap();
    assert!(sentence.starts_with("Merged into main"), "{sentence}");
    assert!(repo.join("hello.txt").exists());
    assert_eq!(git(&repo, &["status", "--porcelain"]), "");
    let log = git(&repo, &["log", "--format=%B"]);
    assert!(log.contains(&format!("Objective: #{id}")) && log.contains("Session-Id: "), "{log}");
    let diff = world.engine.diff(SCOPE, id).await.unwrap();
    let hello = diff.files.iter().find(|file| file.path == "hello.txt").unwrap();
    assert_eq!(hello.change, "added");
    assert!(hello.added > 0 && !hello.hunks.is_empty(), "{hello:?}");
    assert!(works.iter().all(|s| s.confinement.is_some()), "every session carries its proof");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_project_needs_a_signature() {
    let world = World::new(5).await;
    world.add_repo("app").await;
    let mut new = bug("app", "A project", "good");
    new.kind = Kind::Project;
    let id = world.create(new).await;
    let card = world.rests(id).await;
    assert_eq!((card.status, card.attention), (Status::HumanReview, Some(Attention::SignOff)), "{card:?}");
    let card = world.engine.approve(&world.owner, id, None, None).await.unwrap();
    assert_eq!(card.status, Status::Done);
}

#[tokio::test(flavor = "multi_thread")]
async fn scripts_end_where_they_must() {
    let world = World::new(8).await;
    world.add_repo("app").await;
    let fails = world.create(bug("app", "Always fails", "always-fails")).await;
    let outside = world.create(bug("app", "Writes outside", "writes-outside")).await;
    let crashes = world.create(bug("app", "Crashes", "crashes")).await;
    let nothing = world.create(bug("app", "Delivers nothing", "asks-nothing")).await;
    let nonce = world.create(bug("app", "Wrong nonce", "wrong-nonce")).await;
    for (id, attention) in [
        (fails, Attention::RetriesExhausted),
        (crashes, Attention::SessionLost),
        (nothing, Attention::NoDeliverable),
        (nonce, Attention::ReviewError),
    ] {
        let card = world.rests(id).await;
        assert_eq!((card.status, card.attention), (Status::HumanReview, Some(attention)), "{card:?}");
        assert!(!world.path(id).await.contains(&Status::Done));
    }
    let card = world.rests(outside).await;
    assert_eq!(card.status, Status::Done, "{card:?}");
    assert!(!std::path::Path::new(&format!("/tmp/opkit-escape-{outside}")).exists());
    assert!(!world.engine.data().join("DISABLED").exists());
}
