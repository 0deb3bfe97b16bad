//! Server functions: the doors between the pages and the engine. Thin; rules and rights are checked inside.

pub mod board;
pub mod objective;
pub mod places;

use leptos::prelude::ServerFnError;

/// What a person reads when nobody is logged in.
pub const LOG_IN: &str = "Log in first.";

/// The sentence of a failed call, for people.
pub fn says(error: &ServerFnError) -> String {
    match error {
        ServerFnError::ServerError(text) => text.clone(),
        ServerFnError::Request(_) => "The server did not answer. Check the connection and try again.".into(),
        ServerFnError::Registration(_)
        | ServerFnError::MiddlewareError(_)
        | ServerFnError::Deserialization(_)
        | ServerFnError::Serialization(_)
        | ServerFnError::Args(_)
        | ServerFnError::MissingArg(_)
        | ServerFnError::Response(_) => {
            "The server and this page do not understand each other. Reload the page.".into()
        }
        #[allow(deprecated)]
        ServerFnError::WrappedServerError(_) => "The server refused it.".into(),
    }
}

#[cfg(feature = "ssr")]
pub(crate) mod door {
    //! Engine and actor of the request, and errors as sentences.

    use leptos::prelude::{ServerFnError, use_context};
    use opkit_domain::access::Actor;
    use opkit_engine::{Engine, Error};

    /// The engine.
    pub(crate) fn engine() -> Result<Engine, ServerFnError> {
        use_context::<Engine>().ok_or_else(|| ServerFnError::new("The server is starting. Try again."))
    }

    /// Who asks.
    pub(crate) fn actor() -> Result<Actor, ServerFnError> {
        use_context::<crate::Caller>()
            .and_then(|caller| caller.0)
            .ok_or_else(|| ServerFnError::new(super::LOG_IN))
    }

    /// Both.
    pub(crate) fn open() -> Result<(Engine, Actor), ServerFnError> {
        Ok((engine()?, actor()?))
    }

    /// Turns the engine's answer into the page's.
    pub(crate) fn told<T>(answer: opkit_engine::Result<T>) -> Result<T, ServerFnError> {
        answer.map_err(|error| match error {
            Error::NotFound(_)
            | Error::Refused(_)
            | Error::Conflict(_)
            | Error::BadInput(_)
            | Error::Forbidden(_) => ServerFnError::new(error.to_string()),
            Error::Internal(source) => {
                tracing::error!(error = format!("{source:#}"), "a page's call failed");
                ServerFnError::new("Something failed inside the server. Its log says what.")
            }
        })
    }
}
