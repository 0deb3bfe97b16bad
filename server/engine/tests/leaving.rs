//! A server that leaves says that it should get no new work.

mod support;

use support::{World, bug};

#[tokio::test(flavor = "multi_thread")]
async fn while_it_leaves_it_is_not_ready() {
    let world = World::new(5).await;
    world.add_repo("app").await;
    let first = world.create(bug("app", "Add a hello file", "good")).await;
    world.rests(first).await;
    assert_eq!(world.engine.not_ready(), None);
    world.engine.drain().await;
    assert!(world.engine.not_ready().is_some_and(|why| why.contains("leaves")));
}
