//! REST under `/api/v1`: one table of routes, strict about what it does not know.

mod installation;
mod json;
mod objectives;
mod sessions;

use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use axum::handler::Handler;
use axum::http::request::Parts;
use axum::http::{Method, StatusCode, header};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodFilter, MethodRouter, on};
use opkit_domain::ids::{ObjectiveId, SessionId};
use serde::de::DeserializeOwned;

use super::Door;
use super::problem::Problem;
use super::public::Route;

/// The most rows of one answer.
const MOST: u32 = 500;
/// Rows unless asked otherwise.
const USUAL: u32 = 100;

/// The whole table.
pub(super) fn routes() -> Vec<Route> {
    let mut table = objectives::routes();
    table.extend(sessions::routes());
    table.extend(installation::routes());
    table
}

/// A row of the table; query parameters that `params` does not name are refused.
fn route<H, T>(method: Method, path: &'static str, params: &'static [&'static str], handler: H) -> Route
where
    H: Handler<T, Door>,
    T: 'static,
{
    let filter = MethodFilter::try_from(method.clone()).unwrap_or(MethodFilter::GET);
    let handler: MethodRouter<Door> = on(filter, handler);
    let check = move |request: Request, next: Next| refuse_unknown(params, request, next);
    Route { method, path, handler: handler.layer(from_fn(check)) }
}

async fn refuse_unknown(params: &'static [&'static str], request: Request, next: Next) -> Response {
    let given = Query::<Vec<(String, String)>>::try_from_uri(request.uri());
    let Ok(Query(given)) = given else {
        return Problem::bad("The query of this address cannot be read.").into_response();
    };
    for (name, _) in given {
        if !params.contains(&name.as_str()) {
            let name: String = name.chars().take(40).collect();
            let known = if params.is_empty() { "none".to_owned() } else { params.join(", ") };
            return Problem::bad(format!("Unknown query parameter “{name}”. Known here: {known}."))
                .into_response();
        }
    }
    next.run(request).await
}

/// The rest of `/api`.
pub(super) async fn nothing_here() -> Problem {
    Problem::new(
        StatusCode::NOT_FOUND,
        "There is nothing at this address. The API begins at /api/v1/objectives.",
    )
}

/// Query parameters as a struct.
pub(super) struct Params<T>(pub(super) T);

impl<T: DeserializeOwned> FromRequestParts<Door> for Params<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &Door) -> Result<Params<T>, Problem> {
        match Query::<T>::try_from_uri(&parts.uri) {
            Ok(Query(value)) => Ok(Params(value)),
            Err(error) => {
                let reason = std::error::Error::source(&error).map_or(error.to_string(), ToString::to_string);
                Err(Problem::bad(format!("The query is not right: {reason}.")))
            }
        }
    }
}

/// A JSON body as a struct; no body at all counts as `{}`.
pub(super) struct Input<T>(pub(super) T);

impl<T: DeserializeOwned> FromRequest<Door> for Input<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, door: &Door) -> Result<Input<T>, Problem> {
        let kind = request.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        let json =
            kind.is_some_and(|kind| kind.trim_start().to_ascii_lowercase().starts_with("application/json"));
        let bytes = Bytes::from_request(request, door).await.map_err(|error: BytesRejection| {
            Problem::new(error.status(), "The body cannot be read, or is larger than 1 MiB.")
        })?;
        if bytes.iter().all(u8::is_ascii_whitespace) {
            return read(b"{}").map(Input);
        }
        if !json {
            let text = "Send the body as JSON, with content-type: application/json.";
            return Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, text));
        }
        read(&bytes).map(Input)
    }
}

fn read<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    // A list would fill the fields by position.
    if bytes.iter().find(|byte| !byte.is_ascii_whitespace()) != Some(&b'{') {
        return Err(Problem::bad("The body is not right: send one JSON object."));
    }
    serde_json::from_slice(bytes).map_err(|error| Problem::bad(format!("The body is not right: {error}.")))
}

/// For requests without fields.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Nothing {}

async fn path_part(parts: &mut Parts, door: &Door) -> Result<String, Problem> {
    let Path(text) = Path::<String>::from_request_parts(parts, door)
        .await
        .map_err(|error| Problem::bad(format!("The address is not right: {error}.")))?;
    Ok(text)
}

/// The objective in the path.
pub(super) struct ObjectivePath(pub(super) ObjectiveId);

impl FromRequestParts<Door> for ObjectivePath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, door: &Door) -> Result<ObjectivePath, Problem> {
        let text = path_part(parts, door).await?;
        let id = text.parse().map_err(|_| {
            let text: String = text.chars().take(40).collect();
            Problem::bad(format!("“{text}” is not an objective's number, as in 42."))
        })?;
        Ok(ObjectivePath(id))
    }
}

/// The session in the path.
pub(super) struct SessionPath(pub(super) SessionId);

impl FromRequestParts<Door> for SessionPath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, door: &Door) -> Result<SessionPath, Problem> {
        let text = path_part(parts, door).await?;
        text.parse().map(SessionPath).map_err(|error| Problem::bad(format!("{error}.")))
    }
}

/// A name in the path.
pub(super) struct NamePath(pub(super) String);

impl FromRequestParts<Door> for NamePath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, door: &Door) -> Result<NamePath, Problem> {
        path_part(parts, door).await.map(NamePath)
    }
}

/// The number of rows to answer with.
fn rows(limit: Option<u32>) -> Result<u32, Problem> {
    match limit {
        None => Ok(USUAL),
        Some(limit) if (1..=MOST).contains(&limit) => Ok(limit),
        Some(_) => Err(Problem::bad(format!("limit is a number from 1 to {MOST}."))),
    }
}
