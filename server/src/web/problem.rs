//! The one mapping from what went wrong to an HTTP answer: problem documents, logged once, leaking nothing.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use opkit_engine::{DiskFull, Error};

/// An answer of type `application/problem+json`.
#[derive(Debug)]
pub(crate) struct Problem {
    status: StatusCode,
    detail: String,
}

impl Problem {
    /// A status with a sentence for people.
    pub(crate) fn new(status: StatusCode, detail: impl Into<String>) -> Problem {
        Problem { status, detail: detail.into() }
    }

    /// The request is wrong.
    pub(crate) fn bad(detail: impl Into<String>) -> Problem {
        Problem::new(StatusCode::BAD_REQUEST, detail)
    }

    /// Nobody is logged in.
    pub(crate) fn anonymous() -> Problem {
        Problem::new(StatusCode::UNAUTHORIZED, "Log in, or send a token as “Authorization: Bearer …”.")
    }

    /// A fault of ours: logged under an id that the caller sees.
    pub(crate) fn fault(error: &dyn std::fmt::Debug) -> Problem {
        let id = hex::encode(rand::random::<[u8; 4]>());
        tracing::error!(request.id = id, error = ?error, "a request failed inside the server");
        let detail = format!("Something failed inside the server. Its log has more under request id {id}.");
        Problem::new(StatusCode::INTERNAL_SERVER_ERROR, detail)
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Problem {
        match error {
            Error::NotFound(text) => Problem::new(StatusCode::NOT_FOUND, text),
            Error::Refused(text) | Error::Conflict(text) => Problem::new(StatusCode::CONFLICT, text),
            Error::BadInput(text) => Problem::bad(text),
            Error::Forbidden(text) => Problem::new(StatusCode::FORBIDDEN, text),
            Error::Internal(source) if source.is::<DiskFull>() => {
                Problem::new(StatusCode::INSUFFICIENT_STORAGE, source.to_string())
            }
            Error::Internal(source) => Problem::fault(&source),
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let body = serde_json::json!({
            "type": "about:blank",
            "title": self.status.canonical_reason().unwrap_or("Error"),
            "status": self.status.as_u16(),
            "detail": self.detail,
        });
        let mut response = (self.status, Json(body)).into_response();
        let kind = HeaderValue::from_static("application/problem+json");
        response.headers_mut().insert(header::CONTENT_TYPE, kind);
        if self.status == StatusCode::UNAUTHORIZED {
            let way = HeaderValue::from_static("Bearer realm=\"opkit\"");
            response.headers_mut().insert(header::WWW_AUTHENTICATE, way);
        }
        response
    }
}
