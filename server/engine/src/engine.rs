//! `Engine`: the product without doors. Opening it takes the data directory; `start` sets its tasks going.

mod people;
mod views;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use opkit_domain::access::{Access, Actor, Scope};
use opkit_domain::account_pool::Policy;
use opkit_domain::event::Feed;
use opkit_domain::ids::{ClientId, ObjectiveId, RepositoryId, SessionId};
use opkit_domain::objective::{Integration, Status};
use opkit_domain::session::{Identity, RunStatus, WallMode};
use opkit_domain::view::CardView;
use tokio::sync::{Notify, broadcast};

use crate::agents::Agents;
use crate::data_dir::{self, DataDir};
use crate::error::{Error, Result};
use crate::git::Git;
use crate::health::Tasks;
use crate::store::Store;
use crate::tmux::Tmux;

/// The cap when nobody says otherwise.
pub(crate) const DEFAULT_CAP: u32 = 25;

/// How the server was started.
#[derive(Debug, Clone)]
pub struct Config {
    /// The data directory.
    pub data: PathBuf,
    /// The `opkit-session` program that belongs to this server.
    pub session_binary: PathBuf,
    /// The site's build id, for the feed.
    pub build_id: String,
    /// `MAX_CONCURRENT_SESSIONS`; the run-time setting wins.
    pub cap: Option<u32>,
    /// The Claude Code program, if there is one.
    pub agent_claude: Option<PathBuf>,
    /// Whether the kernel's wall is asked for; anything but `Enforced` is shown in red.
    pub wall: WallMode,
    /// How accounts are filled.
    pub account_policy: Policy,
    /// Free bytes below which nothing new starts; none = 512 MB.
    pub min_free: Option<u64>,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            data: PathBuf::new(),
            session_binary: PathBuf::new(),
            build_id: String::new(),
            cap: None,
            agent_claude: None,
            wall: WallMode::Enforced,
            account_policy: Policy::LeastLoaded,
            min_free: None,
        }
    }
}

/// Which objectives a list shows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ListQuery {
    /// Only this status.
    pub status: Option<Status>,
    /// Only children of this one.
    pub parent: Option<ObjectiveId>,
    /// Numbers after this one.
    pub after: Option<ObjectiveId>,
    /// At most this many, 1 to 1000.
    pub limit: u32,
}

/// Which sessions a list shows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SessionQuery {
    /// Only of this objective.
    pub objective: Option<ObjectiveId>,
    /// Only those that have not ended.
    pub live_only: bool,
    /// At most this many; 0 = 200.
    pub limit: u32,
    /// Go on behind this one, in the order of the list.
    pub after: Option<SessionId>,
}

/// A move that was made.
#[derive(Debug, Clone)]
pub struct Moved {
    /// The card afterwards.
    pub card: CardView,
    /// A sentence for people: "#424 starts next."
    pub message: String,
}

/// A repository to register.
#[derive(Debug, Clone, Default, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewRepo {
    /// Absolute path or URL.
    pub source: String,
    /// Name; none = the last part of the source.
    #[serde(default)]
    pub name: Option<String>,
    /// Base branch; none = the source's own.
    #[serde(default)]
    pub base: Option<String>,
    /// Command that runs once in a new worktree.
    #[serde(default)]
    pub setup: Option<String>,
    /// Command of the floor.
    #[serde(default)]
    pub verify: Option<String>,
    /// What happens with a delivered branch.
    #[serde(default)]
    pub integrate: Option<Integration>,
}

/// Changes to a repository; absent = unchanged, an empty command = none.
#[derive(Debug, Clone, Default, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EditRepo {
    /// Command that runs once in a new worktree.
    #[serde(default)]
    pub setup: Option<String>,
    /// Command of the floor.
    #[serde(default)]
    pub verify: Option<String>,
    /// What happens with a delivered branch.
    #[serde(default)]
    pub integrate: Option<Integration>,
    /// Checkouts made ahead: a number, or `default`.
    #[serde(default)]
    pub pool: Option<String>,
}

/// A call of a session.
#[derive(Debug, Clone)]
pub enum SessionCall {
    /// A line for the card.
    Progress {
        /// The line.
        text: String,
    },
    /// It needs a person.
    Blocked {
        /// What it lacks.
        reason: String,
    },
    /// It says it is done (the exit file decides).
    Done,
    /// Its own objective.
    Objective,
    /// The six fields of its siblings.
    Siblings,
}

/// The engine; cheap to clone.
#[derive(Clone)]
pub struct Engine(Arc<Inner>);

struct Inner {
    config: Config,
    dirs: DataDir,
    store: Store,
    git: Git,
    tmux: Tmux,
    agents: Agents,
    identity: Option<Identity>,
    /// `bin/<build id>/opkit-session`: sessions keep the version they began with.
    runner: PathBuf,
    /// The cap in force; the setting's row is read once and written through.
    cap: AtomicU32,
    ready: AtomicBool,
    draining: AtomicBool,
    /// Wakes the dispatcher; a timer makes it right, this makes it fast.
    dispatch: Notify,
    /// Wakes the poller.
    poll: Notify,
    /// Wakes the feed's pump after a commit.
    feed_wake: Notify,
    feed: broadcast::Sender<Arc<Feed>>,
    /// Live lines of running sessions; the database gets them every few seconds at most.
    live: Mutex<HashMap<SessionId, RunStatus>>,
    /// Launches of this process: under way, or when they ended.
    launches: Mutex<HashMap<SessionId, Option<std::time::Instant>>>,
    /// Ended sessions that are being settled.
    settling: Mutex<HashSet<SessionId>>,
    /// Two starts at a time.
    start_turns: tokio::sync::Semaphore,
    /// Agents whose guard failed, with the sentence for people; nothing of them starts.
    broken_guards: Mutex<BTreeMap<String, String>>,
    probes: crate::probed::Probes,
    /// Few at once: settling runs git.
    settle_turns: tokio::sync::Semaphore,
    /// Viewers by session.
    viewers: Mutex<HashMap<SessionId, u32>>,
    /// One turn a repository for whatever writes its mirror.
    turns: Mutex<HashMap<RepositoryId, Arc<tokio::sync::Mutex<()>>>>,
    tasks: Tasks,
    pool: crate::pool::Pool,
    /// Wakes housekeeping.
    house: Notify,
    /// What the disk held when somebody last counted.
    disk: Mutex<Option<opkit_domain::view::DiskUse>>,
}

impl Engine {
    /// Opens a data directory: lock, layout, programs, user, database. Refusals say what to do.
    pub async fn open(config: Config) -> Result<Engine> {
        // Whatever can be refused is refused before anything is made.
        let git = Git::find()?;
        let identity = crate::os_users::agent_identity()?;
        if let Some(identity) = &identity {
            // The directory itself gets its mode from us.
            let path = std::path::absolute(&config.data)?;
            data_dir::passable(path.parent().unwrap_or(&path), identity)?;
        }
        crate::backup::refuse_unfinished(&config.data)?;
        let dirs = DataDir::open(&config.data)?;
        let pool = crate::pool::Pool::open(&dirs.root)?;
        let tmux = Tmux::find(&dirs)?;
        let runner = crate::install::runner(&dirs, &config.session_binary)?;
        let store = Store::open(&dirs.database()).await?;
        store.ensure_accounts().await?;
        let stored = store.setting("max_concurrent_sessions").await?.and_then(|text| text.parse().ok());
        let cap = stored.or(config.cap).unwrap_or(DEFAULT_CAP);
        let broken_guards = store.broken_guards().await?;
        let probes = crate::probed::Probes::load(&store).await?;
        let agents = Agents::new(config.agent_claude.clone());
        let (feed, _) = broadcast::channel(1024);
        Ok(Engine(Arc::new(Inner {
            config,
            dirs,
            store,
            git,
            tmux,
            agents,
            identity,
            runner,
            cap: AtomicU32::new(cap),
            ready: AtomicBool::new(false),
            draining: AtomicBool::new(false),
            dispatch: Notify::new(),
            poll: Notify::new(),
            feed_wake: Notify::new(),
            feed,
            live: Mutex::default(),
            launches: Mutex::default(),
            settling: Mutex::default(),
            start_turns: tokio::sync::Semaphore::new(2),
            broken_guards: Mutex::new(broken_guards),
            probes,
            settle_turns: tokio::sync::Semaphore::new(3),
            viewers: Mutex::default(),
            turns: Mutex::default(),
            tasks: Tasks::default(),
            pool,
            house: Notify::new(),
            disk: Mutex::default(),
        })))
    }

    /// Sets the background tasks going.
    pub fn start(&self) {
        crate::state_poller::spawn(self.clone());
        crate::dispatcher::spawn(self.clone());
        crate::feed::spawn(self.clone());
        crate::health::spawn(self.clone());
        crate::clock::spawn(self.clone());
        crate::journal::spawn(self.clone());
        crate::housekeeping::spawn(self.clone());
        crate::pool::spawn(self.clone());
        crate::probed::spawn(self.clone());
    }

    /// The poller's first complete pass is over; before that nothing is claimed.
    pub fn is_ready(&self) -> bool {
        self.0.ready.load(Ordering::Acquire)
    }

    pub(crate) fn set_ready(&self) {
        self.0.ready.store(true, Ordering::Release);
        self.0.dispatch.notify_one();
    }

    /// Stops claiming; sessions go on by themselves.
    pub async fn drain(&self) {
        self.0.draining.store(true, Ordering::Release);
        self.0.feed_wake.notify_one();
    }

    /// Closes the database at the end of a process.
    pub async fn close(&self) {
        self.0.store.close().await;
    }

    pub(crate) fn draining(&self) -> bool {
        self.0.draining.load(Ordering::Acquire)
    }

    /// The site's build id.
    pub fn build_id(&self) -> &str {
        &self.0.config.build_id
    }

    /// The data directory.
    pub fn data(&self) -> &Path {
        &self.0.dirs.root
    }

    /// Where the control socket lives.
    pub fn run_dir(&self) -> &Path {
        &self.0.dirs.run
    }

    /// Tells sessions where the session door listens.
    pub fn publish_session_door(&self, addr: SocketAddr) -> Result<()> {
        data_dir::write_atomically(&self.0.dirs.door_file(), format!("{addr}\n").as_bytes(), 0o644)
    }

    pub(crate) fn store(&self) -> &Store {
        &self.0.store
    }
    pub(crate) fn dirs(&self) -> &DataDir {
        &self.0.dirs
    }
    pub(crate) fn git(&self) -> &Git {
        &self.0.git
    }
    pub(crate) fn tmux(&self) -> &Tmux {
        &self.0.tmux
    }
    pub(crate) fn agents(&self) -> &Agents {
        &self.0.agents
    }
    /// The user that sessions of accounts without an OS user run as; none when the service is not root.
    pub(crate) fn identity(&self) -> Option<&Identity> {
        self.0.identity.as_ref()
    }
    pub(crate) fn runner(&self) -> &Path {
        &self.0.runner
    }
    pub(crate) fn tasks(&self) -> &Tasks {
        &self.0.tasks
    }
    pub(crate) fn pool(&self) -> &crate::pool::Pool {
        &self.0.pool
    }
    pub(crate) fn house_wake(&self) -> &Notify {
        &self.0.house
    }
    pub(crate) fn counted(&self) -> std::sync::MutexGuard<'_, Option<opkit_domain::view::DiskUse>> {
        self.0.disk.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
    pub(crate) fn dispatch_wake(&self) -> &Notify {
        &self.0.dispatch
    }
    pub(crate) fn poll_wake(&self) -> &Notify {
        &self.0.poll
    }
    pub(crate) fn feed_wake(&self) -> &Notify {
        &self.0.feed_wake
    }
    pub(crate) fn feed_sender(&self) -> &broadcast::Sender<Arc<Feed>> {
        &self.0.feed
    }
    pub(crate) fn live_lines(&self) -> std::sync::MutexGuard<'_, HashMap<SessionId, RunStatus>> {
        self.0.live.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
    pub(crate) fn launches(
        &self,
    ) -> std::sync::MutexGuard<'_, HashMap<SessionId, Option<std::time::Instant>>> {
        self.0.launches.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
    pub(crate) fn settling(&self) -> std::sync::MutexGuard<'_, HashSet<SessionId>> {
        self.0.settling.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
    pub(crate) fn start_turns(&self) -> &tokio::sync::Semaphore {
        &self.0.start_turns
    }
    pub(crate) fn wall_mode(&self) -> WallMode {
        self.0.config.wall
    }
    pub(crate) fn account_policy(&self) -> Policy {
        self.0.config.account_policy
    }
    pub(crate) fn disk_floor(&self) -> u64 {
        self.0.config.min_free.unwrap_or(crate::health::DISK_FLOOR)
    }
    pub(crate) fn broken_guards(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, String>> {
        self.0.broken_guards.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
    pub(crate) fn probes(&self) -> &crate::probed::Probes {
        &self.0.probes
    }
    pub(crate) fn settle_turns(&self) -> &tokio::sync::Semaphore {
        &self.0.settle_turns
    }
    pub(crate) fn viewers(&self) -> std::sync::MutexGuard<'_, HashMap<SessionId, u32>> {
        self.0.viewers.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Something was committed: feed, dispatcher and poller look.
    pub(crate) fn changed(&self) {
        self.0.feed_wake.notify_one();
        self.0.dispatch.notify_one();
    }

    /// One writer at a time in a repository's mirror.
    pub(crate) async fn repo_turn(&self, id: RepositoryId) -> tokio::sync::OwnedMutexGuard<()> {
        let turn = {
            let mut turns = self.0.turns.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            turns.entry(id).or_default().clone()
        };
        turn.lock_owned().await
    }

    /// Refuses whoever may only read.
    pub(crate) fn operator(&self, actor: &Actor) -> Result<()> {
        if actor.may_operate() {
            Ok(())
        } else {
            Err(Error::Forbidden("Your role may look, not act. Ask an admin for the operator role.".into()))
        }
    }

    /// The cap that was set: run-time setting, else environment, else 25.
    pub(crate) fn cap_setting(&self) -> u32 {
        self.0.cap.load(Ordering::Relaxed)
    }

    /// Changes the cap at run time. A lower one lets sessions drain.
    pub async fn set_cap(&self, actor: &Actor, cap: u32) -> Result<()> {
        if actor.access < Access::Admin {
            return Err(Error::Forbidden("Changing the cap needs the admin role.".into()));
        }
        if cap > 500 {
            return Err(Error::BadInput("The cap is at most 500.".into()));
        }
        self.0.store.set_setting(actor, "max_concurrent_sessions", &cap.to_string()).await?;
        self.0.cap.store(cap, Ordering::Relaxed);
        self.changed();
        Ok(())
    }

    /// The one client that exists.
    pub(crate) fn default_scope() -> Scope {
        Scope { client: ClientId::DEFAULT }
    }
}
