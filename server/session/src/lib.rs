//! Everything that runs beside an agent: the runner, the wall, the guard, the calls home and the demo agent.

pub mod attack;
pub mod call;
pub mod command_line;
pub mod demo;
pub mod enter;
mod files;
pub mod guard;
pub mod probe;
pub mod run;
mod snapshot;
