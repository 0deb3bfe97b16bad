//! A real engine on a directory of its own, with the real runner, tmux and git.
#![allow(dead_code, unreachable_pub, reason = "each test file uses its own part")]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use opkit_domain::access::{Actor, Scope};
use opkit_domain::ids::{ClientId, ObjectiveId};
use opkit_domain::objective::{Criterion, Kind, Status};
use opkit_domain::view::{CardView, EventView, NewObjective};
use opkit_engine::{Config, Engine, NewRepo};

pub const SCOPE: Scope = Scope { client: ClientId::DEFAULT };

pub struct World {
    pub dir: tempfile::TempDir,
    pub engine: Engine,
    pub owner: Actor,
}

impl Drop for World {
    fn drop(&mut self) {
        stop_tmux(&self.engine.run_dir().join("tmux"));
    }
}

/// Ends the tmux servers of one data directory, and with them what they started.
pub fn stop_tmux(dir: &Path) {
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let _ = Command::new("tmux").arg("-S").arg(entry.path()).arg("kill-server").output();
    }
}

/// `opkit-session` of this build: beside the test's own directory.
pub fn session_binary() -> PathBuf {
    let mut dir = std::env::current_exe().expect("the test's own path");
    dir.pop();
    dir.pop();
    let path = dir.join("opkit-session");
    assert!(path.exists(), "{} is missing: run `cargo build -p opkit-session` first", path.display());
    path
}

/// A directory that the agents' user can pass.
pub fn open_dir() -> tempfile::TempDir {
    use std::os::unix::fs::PermissionsExt;
    let dir =
        tempfile::Builder::new().prefix("opkit-").tempdir_in("/var/tmp").expect("a temporary directory");
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o711)).expect("its mode");
    dir
}

pub async fn engine(data: &Path, cap: u32) -> Engine {
    let config = Config {
        data: data.to_owned(),
        session_binary: session_binary(),
        build_id: "test".into(),
        cap: Some(cap),
        ..Config::default()
    };
    let engine = Engine::open(config).await.expect("the engine opens");
    engine.start();
    engine
}

impl World {
    pub async fn new(cap: u32) -> World {
        let dir = open_dir();
        let engine = engine(&dir.path().join("data"), cap).await;
        World { dir, engine, owner: Actor::system("owner") }
    }

    /// A repository with one commit.
    pub fn repository(&self, name: &str) -> PathBuf {
        let path = self.dir.path().join(name);
        make_repository(&path);
        path
    }

    pub async fn add_repo(&self, name: &str) -> PathBuf {
        let path = self.repository(name);
        let new = NewRepo { source: path.display().to_string(), ..NewRepo::default() };
        self.engine.add_repo(&self.owner, new).await.expect("the repository is added");
        path
    }

    pub async fn create(&self, new: NewObjective) -> ObjectiveId {
        self.engine.create(&self.owner, new, None).await.expect("the objective is written").id
    }

    pub async fn card(&self, id: ObjectiveId) -> CardView {
        self.engine.card(SCOPE, id).await.expect("the card is here")
    }

    pub async fn events(&self, id: ObjectiveId) -> Vec<EventView> {
        self.engine.events(SCOPE, id, 0, 1000).await.expect("events can be read")
    }

    /// The statuses an objective went through.
    pub async fn path(&self, id: ObjectiveId) -> Vec<Status> {
        self.events(id).await.iter().filter_map(|event| event.to).collect()
    }

    /// Waits until an objective rests: done, cancelled or with a person.
    pub async fn rests(&self, id: ObjectiveId) -> CardView {
        self.until(&format!("#{id} rests"), async || {
            let card = self.card(id).await;
            matches!(card.status, Status::Done | Status::HumanReview | Status::Cancelled).then_some(card)
        })
        .await
    }

    pub async fn until<T>(&self, what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
        let deadline = Instant::now() + Duration::from_secs(90);
        loop {
            if let Some(found) = look().await {
                return found;
            }
            if Instant::now() > deadline {
                self.dump().await;
                panic!("waited 90 s in vain until {what}");
            }
            tokio::time::sleep(Duration::from_millis(25)).await;
        }
    }

    async fn dump(&self) {
        for card in self
            .engine
            .list(SCOPE, &opkit_engine::ListQuery { limit: 100, ..Default::default() })
            .await
            .unwrap_or_default()
        {
            eprintln!(
                "#{} {} {:?} {:?} {}",
                card.id, card.status, card.sub_state, card.attention, card.attention_note
            );
            for event in self.events(card.id).await {
                eprintln!(
                    "   {} {:?}->{:?} {} {} | {}",
                    event.kind, event.from, event.to, event.trigger, event.actor, event.reason
                );
            }
        }
    }
}

pub fn make_repository(path: &Path) {
    std::fs::create_dir_all(path).expect("a directory");
    git(path, &["init", "-q", "--initial-branch=main"]);
    std::fs::write(path.join("README.md"), "# A repository\n").expect("a file");
    git(path, &["add", "-A"]);
    git(path, &["commit", "-q", "-m", "first"]);
}

pub fn git(path: &Path, args: &[&str]) -> String {
    let output = Command::new("git")
        .current_dir(path)
        .args(["-c", "user.name=t", "-c", "user.email=t@example.invalid"])
        .args(args)
        .output()
        .expect("git runs");
    assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

pub fn bug(repo: &str, title: &str, script: &str) -> NewObjective {
    NewObjective {
        title: title.into(),
        repo: repo.into(),
        kind: Kind::Bug,
        brief: "Make it so.".into(),
        goal: String::new(),
        criteria: vec![Criterion {
            text: "hello.txt exists".into(),
            check: Some("test -f hello.txt".into()),
        }],
        base: None,
        priority: 0,
        agent: None,
        script: Some(script.into()),
        review: None,
        parent: None,
        blocked_by: vec![],
        labels: vec![],
        hold: false,
        max_review_rounds: None,
    }
}
