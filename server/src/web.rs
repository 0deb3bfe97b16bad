//! What answers HTTP: the public listener, the control socket and the session door.

mod accounts;
mod board_socket;
mod control;
mod fence;
mod identity;
mod login;
mod login_store;
mod pages;
mod password;
mod problem;
mod public;
mod rest;
mod session_door;
mod setup;
mod site;
mod socket;
mod terminal_socket;
mod throttle;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::extract::FromRef;
use leptos::config::LeptosOptions;
use opkit_engine::Engine;
use tokio::sync::watch;

pub(crate) use control::{Peer, control_router, local_actor, mint};
pub(crate) use fence::Hosts;
pub(crate) use password::{check_new, hash_now};
pub(crate) use public::public_router;
pub use public::{RouteInfo, RouteKind, routes};
pub(crate) use session_door::session_router;
pub(crate) use setup::SetupToken;
pub(crate) use site::Site;

/// What every handler shares; cheap to clone.
#[derive(Clone)]
pub(crate) struct Door(Arc<Shared>);

struct Shared {
    engine: Engine,
    site: Site,
    options: LeptosOptions,
    hosts: Hosts,
    hasher: password::Hasher,
    throttle: throttle::Throttle,
    ended: login_store::EndedLogins,
    setup: SetupToken,
    /// An owner exists. Never goes back to false.
    owner: AtomicBool,
    /// Becomes true once, when the server is about to leave.
    leaving: watch::Sender<bool>,
}

impl Door {
    /// Puts the pieces together.
    pub(crate) fn new(engine: Engine, site: Site, hosts: Hosts, owner: bool) -> Door {
        let options = LeptosOptions::builder()
            .output_name("frontend")
            .site_root(site.root())
            .site_pkg_dir(format!("pkg/{}", site.build_id()))
            .build();
        Door(Arc::new(Shared {
            engine,
            site,
            options,
            hosts,
            hasher: password::Hasher::new(),
            throttle: throttle::Throttle::default(),
            ended: login_store::EndedLogins::default(),
            setup: SetupToken::default(),
            owner: AtomicBool::new(owner),
            leaving: watch::Sender::new(false),
        }))
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.0.engine
    }

    fn site(&self) -> &Site {
        &self.0.site
    }

    fn hosts(&self) -> &Hosts {
        &self.0.hosts
    }

    fn hasher(&self) -> &password::Hasher {
        &self.0.hasher
    }

    fn throttle(&self) -> &throttle::Throttle {
        &self.0.throttle
    }

    fn ended(&self) -> &login_store::EndedLogins {
        &self.0.ended
    }

    pub(crate) fn setup(&self) -> &SetupToken {
        &self.0.setup
    }

    pub(crate) fn has_owner(&self) -> bool {
        self.0.owner.load(Ordering::Acquire)
    }

    /// From now on the set-up link is worth nothing.
    fn owner_exists(&self) {
        self.0.owner.store(true, Ordering::Release);
        self.0.setup.forget();
    }

    /// Closes open sockets with the code for "come back soon".
    pub(crate) fn leave(&self) {
        self.0.leaving.send_replace(true);
    }

    pub(crate) fn leaving(&self) -> watch::Receiver<bool> {
        self.0.leaving.subscribe()
    }

    /// Waits until everybody who listened for `leave` has heard it and every socket is closed.
    pub(crate) async fn all_gone(&self) {
        self.0.leaving.closed().await;
    }
}

impl FromRef<Door> for LeptosOptions {
    fn from_ref(door: &Door) -> LeptosOptions {
        door.0.options.clone()
    }
}
