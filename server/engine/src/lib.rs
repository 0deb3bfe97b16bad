//! What happens: store, dispatcher, sessions, reviews, repositories. No HTTP, no pages.

mod agents;
mod board;
mod clock;
mod context;
mod data_dir;
mod diff;
mod dispatcher;
mod engine;
mod error;
mod feed;
mod git;
mod health;
mod install;
mod kill_switch;
mod memory;
mod merge;
mod objective_page;
mod programs;
mod repository;
mod reviewer;
mod session_door;
mod session_manager;
mod settle;
mod state_poller;
mod store;
mod terminal;
mod tmux;

pub use agents::DEMO_SCRIPTS;
pub use clock::now_ms;
pub use engine::{Config, Engine, ListQuery, Moved, NewRepo, SessionCall, SessionQuery};
pub use error::{Error, Result};
pub use feed::FeedStream;
pub use store::cards::ObjectiveFields;
pub use store::people::UserRow;
pub use terminal::TerminalStream;
