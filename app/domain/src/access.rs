//! Who asks, for which client, and with which role.

use serde::{Deserialize, Serialize};

use crate::ids::{ClientId, words};

words!(
    /// What a user or token may do.
    Access {
        /// Reads.
        Viewer = "viewer",
        /// Creates, moves, decides.
        Operator = "operator",
        /// Also repositories and settings of the client.
        Admin = "admin",
        /// Everything in the installation.
        Owner = "owner",
    }
);

/// Every store function takes one: the client whose rows it may touch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Scope {
    /// The client.
    pub client: ClientId,
}

/// Who does something: always from the credential, never from a body.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Actor {
    /// "anna", "local:root", "token ci", "dispatcher", "session 5c1e7a2e".
    pub name: String,
    /// The client.
    pub scope: Scope,
    /// Role.
    pub access: Access,
}

impl Actor {
    /// A part of the server itself.
    pub fn system(name: &str) -> Actor {
        Actor { name: name.to_owned(), scope: Scope { client: ClientId::DEFAULT }, access: Access::Owner }
    }

    /// May create, move and decide.
    pub fn may_operate(&self) -> bool {
        self.access >= Access::Operator
    }
}
