//! Worktrees for years: made ahead, taken, refreshed; removed by hand; kept, brought back, cleared in time.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test says what it expects, and sets file times"
)]

mod support;

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use opkit_domain::ids::ObjectiveId;
use opkit_domain::objective::{Kind, Status};
use opkit_domain::view::{EditUpkeep, KeptView, NewObjective, RepoView};
use opkit_engine::{EditRepo, NewRepo};
use support::{SCOPE, World, bug, git};

/// What a set-up command leaves uncommitted: an untracked file and a change.
const LEAVES_WORK: &str = "echo precious > untracked.txt && echo more >> README.md";

fn worktree(world: &World, id: ObjectiveId) -> PathBuf {
    world.engine.data().join(format!("work/{id}/cc-worktree-{id}"))
}

/// Reads a worktree as whoever runs the test.
fn look(tree: &Path, args: &[&str]) -> String {
    let safe = format!("safe.directory={}", tree.display());
    git(tree, &[&["-c", &safe], args].concat())
}

async fn repo(world: &World) -> RepoView {
    world.engine.repos(SCOPE).await.unwrap().remove(0)
}

async fn made_ahead(world: &World, wanted: u32) {
    world
        .until(&format!("{wanted} checkouts are ready"), async || {
            (repo(world).await.ready == wanted).then_some(())
        })
        .await;
}

/// Entries of the pool: directory, its inode, the commit its marker names.
fn entries(world: &World) -> Vec<(PathBuf, u64, String)> {
    let shelf = world.engine.data().join("pool/1");
    fs::read_dir(shelf)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            let mark = fs::read(entry.path().with_extension("ready")).ok()?;
            let mark: serde_json::Value = serde_json::from_slice(&mark).ok()?;
            let dir = entry.path();
            let inode = dir.is_dir().then(|| fs::metadata(&dir).unwrap().ino())?;
            Some((dir, inode, mark["commit"].as_str()?.to_owned()))
        })
        .collect()
}

fn commit(repo: &Path, name: &str) -> String {
    fs::write(repo.join(name), "new\n").unwrap();
    git(repo, &["add", "-A"]);
    git(repo, &["commit", "-q", "-m", name]);
    git(repo, &["rev-parse", "HEAD"])
}

async fn set(world: &World, edit: EditUpkeep) {
    world.engine.set_upkeep(&world.owner, edit).await.unwrap();
}

async fn pool(world: &World, size: &str) {
    let edit = EditRepo { pool: Some(size.into()), ..EditRepo::default() };
    world.engine.edit_repo(&world.owner, "app", edit).await.unwrap();
}

async fn task(world: &World, name: &str) -> String {
    let health = world.engine.health(SCOPE).await.unwrap();
    health.tasks.into_iter().find(|task| task.name == name).map(|task| task.result).unwrap_or_default()
}

/// Housekeeping's first look is over: whatever is found later is found by the test's own.
async fn looked_around(world: &World) {
    world
        .until("housekeeping looked", async || {
            let said = task(world, "disk budget").await;
            (!said.is_empty() && said != "has not run yet").then_some(())
        })
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_takes_a_checkout_that_was_made_ahead() {
    let world = World::new(5).await;
    let source = world.add_repo("app").await;
    made_ahead(&world, 2).await;
    let before = entries(&world);
    assert_eq!(before.len(), 2, "{before:?}");
    assert_eq!(fs::metadata(world.engine.data().join("pool")).unwrap().mode() & 0o777, 0o700);
    let id = world.create(bug("app", "Add a hello file", "good")).await;
    assert_eq!(world.rests(id).await.status, Status::Done);
    let tree = worktree(&world, id);
    let inode = fs::metadata(&tree).unwrap().ino();
    assert!(before.iter().any(|(_, entry, _)| *entry == inode), "it is one of those made ahead");
    assert_eq!(look(&tree, &["branch", "--show-current"]), format!("obj/{id}"));
    assert_eq!(look(&tree, &["status", "--porcelain"]), "");
    assert!(tree.join("hello.txt").exists() && tree.join("README.md").exists());
    assert_eq!(fs::metadata(&tree).unwrap().mode() & 0o777, 0o700);
    made_ahead(&world, 2).await;

    // The base moves: what is ready is brought along, and a start before that gets the right commit all the same.
    let moved = commit(&source, "second.txt");
    let id = world.create(bug("app", "Add it again", "good")).await;
    assert_eq!(world.rests(id).await.status, Status::Done);
    let tree = worktree(&world, id);
    assert!(tree.join("second.txt").exists());
    assert_eq!(look(&tree, &["rev-parse", "HEAD~1"]), moved);
    world
        .until("every checkout is at the new base", async || {
            let now = entries(&world);
            (now.len() == 2 && now.iter().all(|(_, _, commit)| *commit == moved)).then_some(())
        })
        .await;
    for (dir, _, _) in entries(&world) {
        assert!(dir.join("second.txt").exists());
        assert_eq!(look(&dir, &["status", "--porcelain"]), "");
    }
    // Fewer are wanted: the rest goes.
    pool(&world, "0").await;
    world.until("the pool is empty", async || entries(&world).is_empty().then_some(())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_pool_starts_make_their_own_one_after_the_other() {
    let world = World::new(6).await;
    world.add_repo("app").await;
    pool(&world, "0").await;
    world.until("the pool is empty", async || (repo(&world).await.ready == 0).then_some(())).await;
    let mut all = Vec::new();
    for number in 0..5 {
        all.push(world.create(bug("app", &format!("Number {number}"), "good")).await);
    }
    for id in all {
        assert_eq!(world.rests(id).await.status, Status::Done);
        assert_eq!(look(&worktree(&world, id), &["branch", "--show-current"]), format!("obj/{id}"));
    }
    let left: Vec<_> = fs::read_dir(world.engine.data().join("pool/1")).unwrap().flatten().collect();
    assert!(left.is_empty(), "{left:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worktree_removed_by_hand_is_made_anew_from_its_branch() {
    let world = World::new(5).await;
    world.add_repo("app").await;
    let mut new = bug("app", "A project", "good");
    new.kind = Kind::Project;
    let id = world.create(new).await;
    assert_eq!(world.rests(id).await.status, Status::HumanReview);
    looked_around(&world).await;
    let tree = worktree(&world, id);
    let head = look(&tree, &["rev-parse", "HEAD"]);
    fs::remove_dir_all(&tree).unwrap();
    let stranger = world.engine.data().join("work/four");
    let nobody = world.engine.data().join("sessions/7f0c2a52-7b5f-4a53-9d4c-111111111111");
    for dir in [&stranger, &nobody] {
        fs::create_dir(dir).unwrap();
        fs::write(dir.join("file"), "whose?").unwrap();
    }
    let said = world.engine.reconcile().await.unwrap();
    assert!(
        said.iter().any(|line| line.contains(&format!("#{id}")) && line.contains("removed by hand")),
        "{said:?}"
    );
    for (dir, name) in [(&stranger, "work/four"), (&nobody, "sessions/7f0c2a52")] {
        assert!(said.iter().any(|line| line.contains(name)), "{said:?}");
        assert!(dir.join("file").exists(), "what nobody knows is never touched");
    }
    let events = world.events(id).await;
    assert!(events.iter().any(|event| event.trigger == "worktree_gone"), "{events:?}");
    world.engine.reject(&world.owner, id, "Once more.".into()).await.unwrap();
    world
        .until("it rests again", async || {
            let card = world.card(id).await;
            (card.status == Status::HumanReview).then_some(())
        })
        .await;
    assert_eq!(look(&tree, &["merge-base", "--is-ancestor", &head, "HEAD"]), "");
    assert!(tree.join("hello.txt").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_left_in_the_mirror_stops_nobody_for_long() {
    let world = World::new(5).await;
    world.add_repo("app").await;
    looked_around(&world).await;
    let mirror = world.engine.data().join("mirrors/1.git");
    let old = [mirror.join("packed-refs.lock"), mirror.join("refs/heads/main.lock")];
    for path in &old {
        let file = fs::File::create(path).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_secs(3600)).unwrap();
    }
    let fresh = mirror.join("config.lock");
    fs::write(&fresh, "").unwrap();
    let said = world.engine.reconcile().await.unwrap();
    assert_eq!(said.iter().filter(|line| line.contains("left behind")).count(), 2, "{said:?}");
    assert!(old.iter().all(|path| !path.exists()));
    assert!(fresh.exists(), "somebody may hold it");
    fs::remove_file(fresh).unwrap();
    let id = world.create(bug("app", "It goes on", "good")).await;
    assert_eq!(world.rests(id).await.status, Status::Done);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_branch_deleted_in_the_mirror_comes_back() {
    let world = World::new(5).await;
    world.add_repo("app").await;
    let id = world.create(bug("app", "Deliver", "good")).await;
    assert_eq!(world.rests(id).await.status, Status::Done);
    looked_around(&world).await;
    let mirror = world.engine.data().join("mirrors/1.git");
    let head = git(&mirror, &["rev-parse", &format!("refs/heads/obj/{id}")]);
    git(&mirror, &["update-ref", "-d", &format!("refs/heads/obj/{id}")]);
    git(&mirror, &["update-ref", "refs/heads/obj/77", &head]);
    let said = world.engine.reconcile().await.unwrap();
    assert!(said.iter().any(|line| line.contains(&format!("obj/{id} was missing"))), "{said:?}");
    assert!(said.iter().any(|line| line.contains("obj/77 belongs to no objective")), "{said:?}");
    assert_eq!(git(&mirror, &["rev-parse", &format!("refs/heads/obj/{id}")]), head);
    assert_eq!(git(&mirror, &["rev-parse", "refs/heads/obj/77"]), head, "it is not ours to delete");
}

/// An objective whose sessions leave work uncommitted and deliver nothing, and what was kept of them.
async fn leaves_work(world: &World) -> (ObjectiveId, Vec<KeptView>) {
    let path = world.repository("app");
    let new =
        NewRepo { source: path.display().to_string(), setup: Some(LEAVES_WORK.into()), ..NewRepo::default() };
    world.engine.add_repo(&world.owner, new).await.unwrap();
    let id = world
        .create(NewObjective { max_review_rounds: Some(1), ..bug("app", "Leaves work", "asks-nothing") })
        .await;
    assert_eq!(world.rests(id).await.status, Status::HumanReview);
    let kept = world.engine.rescues(SCOPE, id).await.unwrap();
    (id, kept)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_not_committed_is_kept_and_comes_back() {
    let world = World::new(5).await;
    let (id, kept) = leaves_work(&world).await;
    let one = kept.first().expect("something was kept");
    let mut files: Vec<(&str, &str)> =
        one.files.files.iter().map(|file| (file.path.as_str(), file.change.as_str())).collect();
    files.sort_unstable();
    assert_eq!(files, [("README.md", "modified"), ("untracked.txt", "added")]);
    let patch = String::from_utf8(world.engine.rescue_patch(SCOPE, id, one.id).await.unwrap()).unwrap();
    assert!(patch.contains("+precious") && patch.contains("+more"), "{patch}");
    assert!(world.engine.rescue_patch(SCOPE, id, 999).await.is_err());
    let other = ObjectiveId(id.0 + 1);
    assert!(world.engine.rescue_patch(SCOPE, other, one.id).await.is_err(), "it belongs to its objective");

    let sentence = world.engine.restore_rescue(&world.owner, id, one.id).await.unwrap();
    assert!(sentence.contains(&format!("rescue/{}", one.id)), "{sentence}");
    assert!(world.engine.restore_rescue(&world.owner, id, one.id).await.is_err(), "once is enough");
    // Nothing of the worktree is needed for it.
    fs::remove_dir_all(worktree(&world, id)).unwrap();
    world.engine.reconcile().await.unwrap();
    let view = world.engine.objective(SCOPE, id).await.unwrap();
    let known: Vec<_> = view.sessions.iter().map(|session| session.id.clone()).collect();
    world.engine.reject(&world.owner, id, "Look at what was kept.".into()).await.unwrap();
    let session = world
        .until("the next session ended", async || {
            let view = world.engine.objective(SCOPE, id).await.unwrap();
            view.sessions.into_iter().find(|s| !known.contains(&s.id) && s.ended_at.is_some())
        })
        .await;
    let context = world.engine.context(SCOPE, &session.id).await.unwrap();
    assert!(context.contains(&format!("rescue/{}", one.id)), "it is told: {context}");
    let branch = format!("rescue/{}", one.id);
    let tree = worktree(&world, id);
    assert_eq!(look(&tree, &["show", &format!("{branch}:untracked.txt")]), "precious");
    let mirror = world.engine.data().join("mirrors/1.git");
    let heads = git(&mirror, &["for-each-ref", "--format=%(refname)"]);
    assert!(!heads.contains("rescue"), "nobody else's sessions can read it: {heads}");
    let audit = world.events(id).await;
    assert!(audit.iter().any(|event| event.trigger == "rescue_restored"), "{audit:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn stashes_other_branches_and_what_was_reset_away_are_kept_too() {
    let world = World::new(5).await;
    let path = world.repository("app");
    let setup = "echo stashed > s.txt && git add s.txt && git stash -q && git switch -q -c side && \
                 echo side > side.txt && git add side.txt && git commit -q -m side && git switch -q - && \
                 echo gone > gone.txt && git add gone.txt && git commit -q -m gone && git reset -q --hard HEAD~1";
    let new = NewRepo { source: path.display().to_string(), setup: Some(setup.into()), ..NewRepo::default() };
    world.engine.add_repo(&world.owner, new).await.unwrap();
    let id = world
        .create(NewObjective { max_review_rounds: Some(1), ..bug("app", "Hides work", "asks-nothing") })
        .await;
    world.rests(id).await;
    let kept = world.engine.rescues(SCOPE, id).await.unwrap();
    let one = kept.first().expect("something was kept");
    assert!(one.files.files.is_empty(), "the worktree itself is clean: {:?}", one.files);
    assert!(one.notes.iter().any(|note| note.contains("beside it: 3")), "{:?}", one.notes);
    let rescue = world.engine.data().join("rescue/1.git");
    let reachable = git(&rescue, &["rev-list", "--objects", &one.commit]);
    for name in ["s.txt", "side.txt", "gone.txt"] {
        assert!(reachable.contains(name), "{name} is not in {reachable}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn time_clears_what_is_safe_and_nothing_else() {
    let world = World::new(5).await;
    let (id, kept) = leaves_work(&world).await;
    let changed = world.create(bug("app", "Changed by hand", "good")).await;
    assert_eq!(world.rests(changed).await.status, Status::Done);
    world.engine.cancel(&world.owner, id).await.unwrap();
    let (tree, touched) = (worktree(&world, id), worktree(&world, changed));
    // Closed for its owner itself: no obstacle.
    fs::create_dir_all(tree.join("closed/deep")).unwrap();
    let before = SystemTime::now() - Duration::from_secs(60);
    for dir in ["closed/deep", "closed", "."] {
        fs::File::open(tree.join(dir)).unwrap().set_modified(before).unwrap();
    }
    fs::set_permissions(tree.join("closed"), fs::Permissions::from_mode(0o000)).unwrap();
    let later = fs::File::create(touched.join("by-hand.txt")).unwrap();
    later.set_modified(SystemTime::now() + Duration::from_secs(3600)).unwrap();
    set(&world, EditUpkeep { worktree_days: Some(0), ..EditUpkeep::default() }).await;
    world.until("the worktree is cleared", async || (!tree.exists()).then_some(())).await;
    world
        .until("housekeeping says what stays", async || {
            let said = task(&world, "retention").await;
            (said.contains(&format!("#{changed}")) && said.contains("changed after")).then_some(())
        })
        .await;
    assert!(touched.join("by-hand.txt").exists());
    let events = world.events(id).await;
    assert!(events.iter().any(|event| event.trigger == "worktree_cleared"), "{events:?}");

    // Both files of the cleared worktree can still be had.
    let patch = world.engine.rescue_patch(SCOPE, id, kept[0].id).await.unwrap();
    assert!(String::from_utf8_lossy(&patch).contains("+precious"));
    world.engine.restore(&world.owner, id).await.unwrap();
    world
        .until("a session works in a new worktree", async || tree.join("README.md").exists().then_some(()))
        .await;
    world.rests(id).await;

    // Then their time is over too.
    set(&world, EditUpkeep { rescue_days: Some(0), record_days: Some(0), ..EditUpkeep::default() }).await;
    let gone = async || {
        let list = world.engine.rescues(SCOPE, id).await.unwrap();
        list.iter().all(|kept| kept.dropped).then_some(())
    };
    world.until("what was kept is dropped", gone).await;
    assert!(world.engine.rescue_patch(SCOPE, id, kept[0].id).await.is_err());
    let rescue = world.engine.data().join("rescue/1.git");
    assert_eq!(git(&rescue, &["for-each-ref"]), "");
    let view = world.engine.objective(SCOPE, id).await.unwrap();
    let old = world.engine.data().join(format!("sessions/{}", view.sessions.last().unwrap().id));
    world.until("the record is deleted", async || (!old.exists()).then_some(())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_disk_budget_holds_the_pool_back_and_says_so() {
    let world = World::new(5).await;
    let path = world.repository("app");
    // Compresses well: the mirror stays small, and each checkout is not.
    fs::write(path.join("large"), vec![7; 8 << 20]).unwrap();
    commit(&path, "more");
    let new = NewRepo { source: path.display().to_string(), ..NewRepo::default() };
    world.engine.add_repo(&world.owner, new).await.unwrap();
    made_ahead(&world, 2).await;
    set(&world, EditUpkeep { disk_budget_mb: Some(12), ..EditUpkeep::default() }).await;
    made_ahead(&world, 1).await;
    set(&world, EditUpkeep { disk_budget_mb: Some(4), ..EditUpkeep::default() }).await;
    made_ahead(&world, 0).await;
    // Whatever housekeeping and pool do now, nothing new is made.
    set(&world, EditUpkeep { worktree_days: Some(13), ..EditUpkeep::default() }).await;
    world
        .until("housekeeping is content", async || (task(&world, "disk budget").await == "ok").then_some(()))
        .await;
    assert_eq!(repo(&world).await.ready, 0);
    set(&world, EditUpkeep { disk_budget_mb: Some(0), ..EditUpkeep::default() }).await;
    made_ahead(&world, 2).await;
    let disk = world.engine.disk_use().await.unwrap();
    assert!(disk.pool > 16 << 20 && disk.mirrors > 0 && disk.free > 0 && !disk.is_over(), "{disk:?}");
    // What is no checkout made ahead stays, and is said.
    let large = world.engine.data().join("rescue/1.git");
    fs::create_dir_all(&large).unwrap();
    let random: Vec<u8> = (0..2_u32 << 20).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    fs::write(large.join("large"), random).unwrap();
    set(&world, EditUpkeep { disk_budget_mb: Some(1), ..EditUpkeep::default() }).await;
    world
        .until("it is said", async || {
            task(&world, "disk budget").await.contains("of a budget of 1 MB").then_some(())
        })
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn submodules_and_large_files_are_said_plainly() {
    let world = World::new(5).await;
    let path = world.repository("app");
    fs::write(path.join(".gitmodules"), "[submodule \"x\"]\n\tpath = x\n\turl = https://example.invalid/x\n")
        .unwrap();
    fs::create_dir(path.join("media")).unwrap();
    fs::write(path.join("media/.gitattributes"), "*.psd filter=lfs diff=lfs merge=lfs -text\n").unwrap();
    commit(&path, "more");
    let new = NewRepo { source: path.display().to_string(), ..NewRepo::default() };
    let view = world.engine.add_repo(&world.owner, new).await.unwrap();
    assert_eq!(view.notes.len(), 2, "{view:?}");
    assert!(view.notes[0].contains("submodules") && view.notes[1].contains("Git LFS"), "{view:?}");
    made_ahead(&world, 2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_numbers_and_commands_are_refused() {
    let world = World::new(5).await;
    world.add_repo("app").await;
    for size in ["-1", "51", "many", "1.5"] {
        let edit = EditRepo { pool: Some(size.into()), ..EditRepo::default() };
        assert!(world.engine.edit_repo(&world.owner, "app", edit).await.is_err(), "{size}");
    }
    let edit = EditRepo { setup: Some("make\u{1b}[2J".into()), ..EditRepo::default() };
    assert!(world.engine.edit_repo(&world.owner, "app", edit).await.is_err());
    let edit = EditRepo { pool: Some("1".into()), ..EditRepo::default() };
    assert!(world.engine.edit_repo(&world.owner, "nobody", edit).await.is_err());
    let edit = EditUpkeep { worktree_days: Some(4000), ..EditUpkeep::default() };
    assert!(world.engine.set_upkeep(&world.owner, edit).await.is_err());
    let edit = EditRepo { setup: Some(" make ".into()), verify: Some(String::new()), ..EditRepo::default() };
    let view = world.engine.edit_repo(&world.owner, "app", edit).await.unwrap();
    assert_eq!((view.setup.as_deref(), view.verify), (Some("make"), None));
}
