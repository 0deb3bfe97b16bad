//! The door: command line, configuration, pages, REST and sockets around the engine.
#![recursion_limit = "256"]

mod cli;
mod config;
mod web;

pub use cli::run;
pub use web::{RouteInfo, RouteKind, routes};
