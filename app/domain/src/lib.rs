//! The rules of Opkit: values and pure functions, shared by browser, server and session binary.
#![warn(missing_docs)]

pub mod access;
pub mod account_pool;
pub mod context_document;
pub mod dispatch;
pub mod event;
pub mod ids;
pub mod objective;
pub mod screen;
pub mod session;
pub mod siblings;
pub mod state_machine;
pub mod verdict;
pub mod view;
