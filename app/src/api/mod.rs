//! Server functions: the doors between the pages and the engine. Thin; rules and rights are checked inside.

pub mod answer;
pub mod board;
pub mod objective;
pub mod places;

pub use answer::{Answer, Refusal, Told, Why};

#[cfg(feature = "ssr")]
pub(crate) mod door {
    //! Engine and actor of the request, and errors as sentences.

    use leptos::prelude::{ServerFnError, use_context};
    use opkit_domain::access::Actor;
    use opkit_engine::{DiskFull, Engine, Error};
    use serde::Serialize;

    use super::{Answer, Refusal, Why};

    impl From<Error> for Refusal {
        fn from(error: Error) -> Refusal {
            let why = match &error {
                Error::NotFound(_) => Why::NotFound,
                Error::Conflict(_) => Why::Conflict,
                Error::Refused(_) | Error::BadInput(_) | Error::Forbidden(_) => Why::Refused,
                Error::Internal(source) if source.is::<DiskFull>() => {
                    return Refusal::new(Why::Refused, source.to_string());
                }
                Error::Internal(source) => {
                    tracing::error!(error = format!("{source:#}"), "a page's call failed");
                    return Refusal::new(
                        Why::Failed,
                        "Something failed inside the server. Its log says what.",
                    );
                }
            };
            Refusal::new(why, error.to_string())
        }
    }

    /// The engine, and who asks.
    pub(crate) fn open() -> Result<(Engine, Actor), Refusal> {
        let engine = use_context::<Engine>()
            .ok_or_else(|| Refusal::new(Why::Failed, "The server is starting. Try again."))?;
        let actor = use_context::<crate::Caller>()
            .and_then(|caller| caller.0)
            .ok_or_else(|| Refusal::new(Why::LoggedOut, "Log in first."))?;
        Ok((engine, actor))
    }

    /// What the page gets. A refusal is an answer; only a fault is an error of the request.
    pub(crate) fn told<T: Serialize>(outcome: Result<T, Refusal>) -> Result<Answer, ServerFnError> {
        match outcome {
            Ok(view) => match postcard::to_allocvec(&view) {
                Ok(bytes) => Ok(Answer::View(bytes)),
                Err(error) => Err(ServerFnError::new(error.to_string())),
            },
            Err(refusal) if refusal.why == Why::Failed => Err(ServerFnError::new(refusal.text)),
            Err(refusal) => Ok(Answer::Refused(refusal)),
        }
    }
}
