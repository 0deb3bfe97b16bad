//! What can go wrong for a caller, in the words that a person gets to see.

/// The error of every use case.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Not there, or of another client.
    #[error("{0}")]
    NotFound(String),
    /// The rules forbid it now; the sentence says why and what to do.
    #[error("{0}")]
    Refused(String),
    /// Somebody else changed it first.
    #[error("{0}")]
    Conflict(String),
    /// The input is wrong; the sentence says what to do.
    #[error("{0}")]
    BadInput(String),
    /// The actor's role does not allow it.
    #[error("{0}")]
    Forbidden(String),
    /// A fault of ours or of the machine.
    #[error("something failed inside the server")]
    Internal(#[source] anyhow::Error),
}

/// The result of every use case.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The reason inside [`Error::Internal`] when there is no room: no fault of ours, and people can mend it.
#[derive(Debug, thiserror::Error)]
#[error("The disk is full, so nothing can be stored. Free some space; it goes on by itself.")]
pub struct DiskFull;

impl From<sqlx::Error> for Error {
    fn from(error: sqlx::Error) -> Self {
        // SQLITE_FULL; the low byte of an extended code is the code.
        let code = error.as_database_error().and_then(|error| error.code()?.parse::<u32>().ok());
        if code.is_some_and(|code| code & 0xff == 13) {
            return Error::Internal(DiskFull.into());
        }
        Error::Internal(anyhow::Error::new(error).context("the database refused a statement"))
    }
}

impl From<std::io::Error> for Error {
    fn from(error: std::io::Error) -> Self {
        if error.kind() == std::io::ErrorKind::StorageFull {
            return Error::Internal(DiskFull.into());
        }
        Error::Internal(error.into())
    }
}

impl From<anyhow::Error> for Error {
    fn from(error: anyhow::Error) -> Self {
        match error.downcast::<Error>() {
            Ok(ours) => ours,
            Err(other) => Error::Internal(other),
        }
    }
}

impl From<serde_json::Error> for Error {
    fn from(error: serde_json::Error) -> Self {
        Error::Internal(error.into())
    }
}

impl From<opkit_domain::state_machine::Refused> for Error {
    fn from(refused: opkit_domain::state_machine::Refused) -> Self {
        Error::Refused(refused.0)
    }
}

impl From<opkit_domain::objective::BadText> for Error {
    fn from(bad: opkit_domain::objective::BadText) -> Self {
        Error::BadInput(bad.0)
    }
}
