//! Identifiers: each kind of thing has its own type, so that they cannot be mixed up.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

macro_rules! number_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub i64);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl FromStr for $name {
            type Err = std::num::ParseIntError;
            fn from_str(text: &str) -> Result<Self, Self::Err> {
                text.trim_start_matches('#').parse().map($name)
            }
        }
    };
}

number_id!(
    /// An objective; people see it as `#42`. Unique in the installation.
    ObjectiveId
);
number_id!(
    /// A registered repository.
    RepositoryId
);
number_id!(
    /// A client (tenant). Every row belongs to one.
    ClientId
);
number_id!(
    /// A person who logs in.
    UserId
);

impl ClientId {
    /// The one client that exists until others are made.
    pub const DEFAULT: ClientId = ClientId(1);
}

/// A session's id: a lower-case UUID, the same one that the agent CLI gets. Also called run id.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SessionId(String);

/// The text is not a lower-case UUID.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a session id is a lower-case UUID, as in 5c1e7a2e-0000-4000-8000-000000000000")]
pub struct NotASessionId;

impl SessionId {
    /// The id as text, safe in file names: only `[0-9a-f-]`.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The first eight characters, for people.
    pub fn short(&self) -> &str {
        &self.0[..8]
    }
}

impl FromStr for SessionId {
    type Err = NotASessionId;
    fn from_str(text: &str) -> Result<Self, NotASessionId> {
        let fits = text.len() == 36
            && text.bytes().enumerate().all(|(at, byte)| match at {
                8 | 13 | 18 | 23 => byte == b'-',
                _ => byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte),
            });
        if fits { Ok(SessionId(text.to_owned())) } else { Err(NotASessionId) }
    }
}

impl TryFrom<String> for SessionId {
    type Error = NotASessionId;
    fn try_from(text: String) -> Result<Self, NotASessionId> {
        text.parse()
    }
}

impl From<SessionId> for String {
    fn from(id: SessionId) -> String {
        id.0
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Declares an enum that is stored and sent as one snake_case word.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $word:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
        pub enum $name {
            $($(#[$vdoc])* #[serde(rename = $word)] $variant),+
        }

        impl $name {
            /// Every value, in declaration order.
            pub const ALL: &'static [$name] = &[$($name::$variant),+];

            /// The stored word.
            pub fn as_str(self) -> &'static str {
                match self { $($name::$variant => $word),+ }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl std::str::FromStr for $name {
            type Err = crate::ids::UnknownWord;
            fn from_str(text: &str) -> Result<Self, Self::Err> {
                match text {
                    $($word => Ok($name::$variant),)+
                    _ => Err(crate::ids::UnknownWord {
                        got: text.chars().take(40).collect(),
                        want: [$($word),+].join(", "),
                    }),
                }
            }
        }
    };
}
pub(crate) use words;

/// A word outside the list of a closed vocabulary.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("“{got}” is not one of: {want}")]
pub struct UnknownWord {
    /// What was given, cut to 40 characters.
    pub got: String,
    /// The words that are allowed.
    pub want: String,
}
