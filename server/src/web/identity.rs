//! Who asks: from the login cookie or the bearer token, never from a body; and which doors need nobody.

use axum::extract::{FromRequestParts, Request, State};
use axum::http::request::Parts;
use axum::http::{Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Redirect, Response};
use opkit_domain::access::{Actor, Scope};
use opkit_domain::ids::UserId;
use sha2::{Digest, Sha256};
use tower_sessions::Session;

use super::login_store::{BORN, LONGEST_MS, SEEN, USER, key};
use super::problem::Problem;
use super::{Door, fence, login};
use opkit_engine::now_ms;

/// The last use of a login is written when it is older than this.
const SEEN_EVERY_MS: i64 = 5 * 60 * 1000;

/// Who asks.
#[derive(Debug, Clone, Default)]
pub(crate) struct Identity {
    /// None: nobody.
    pub(crate) actor: Option<Actor>,
    /// The login's key, for sockets that must close when it ends.
    pub(crate) login: Option<String>,
    /// When the login ends at the latest, ms since 1970.
    pub(crate) expires: Option<i64>,
}

impl Identity {
    /// Somebody who did not log in with a cookie.
    pub(crate) fn by_other_means(actor: Actor) -> Identity {
        Identity { actor: Some(actor), login: None, expires: None }
    }
}

/// Handlers that need somebody take this.
pub(crate) struct Who(pub(crate) Actor);

impl FromRequestParts<Door> for Who {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &Door) -> Result<Who, Problem> {
        let identity = parts.extensions.get::<Identity>();
        identity.and_then(|identity| identity.actor.clone()).map(Who).ok_or_else(Problem::anonymous)
    }
}

/// The stored form of an API token.
pub(crate) fn token_hash(token: &str) -> String {
    hex::encode(Sha256::digest(token.as_bytes()))
}

/// Whom a path lets in without credential.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Need {
    /// Anybody.
    Nobody,
    /// Somebody; others get 401.
    Credential,
    /// Somebody; others are sent to the login page.
    Page,
}

/// Everything that is not listed needs somebody.
pub(super) fn need(path: &str) -> Need {
    match path {
        "/login" | "/setup" | "/logout" | "/healthz" | "/readyz" => Need::Nobody,
        _ if path.starts_with("/pkg/") => Need::Nobody,
        _ if path.starts_with("/api/") || path.starts_with("/ws/") => Need::Credential,
        _ => Need::Page,
    }
}

/// Finds out who asks and turns nobody away from what needs somebody.
pub(super) async fn identify(State(door): State<Door>, mut request: Request, next: Next) -> Response {
    let need = need(request.uri().path());
    // Liveness and the bundle ask nothing of the database.
    let looks = need != Need::Nobody || matches!(request.uri().path(), "/login" | "/setup");
    let credential = if looks { Credential::of(&request) } else { Credential::None };
    let identity = match look_up(&door, credential).await {
        Ok(identity) => identity,
        Err(problem) => return problem.into_response(),
    };
    if identity.actor.is_none() {
        match need {
            Need::Nobody => {}
            Need::Credential => return Problem::anonymous().into_response(),
            Need::Page => return to_login(&door, &request),
        }
    }
    if let Some(response) = login::skip_when_logged_in(&identity, request.method(), request.uri().path()) {
        return response;
    }
    request.extensions_mut().insert(identity);
    next.run(request).await
}

/// What a request shows of itself.
enum Credential {
    None,
    Token(String),
    Cookie(Session),
}

impl Credential {
    /// Tokens count where scripts go; a page is for somebody with a cookie.
    fn of(request: &Request) -> Credential {
        let path = request.uri().path();
        let scripts = path.starts_with("/api/v1/") || path.starts_with("/ws/");
        match fence::bearer(request.headers()).filter(|_| scripts) {
            Some(token) => Credential::Token(token_hash(token)),
            None => {
                request.extensions().get::<Session>().cloned().map_or(Credential::None, Credential::Cookie)
            }
        }
    }
}

async fn look_up(door: &Door, credential: Credential) -> Result<Identity, Problem> {
    match credential {
        Credential::None => Ok(Identity::default()),
        Credential::Cookie(session) => by_cookie(door, &session).await,
        Credential::Token(hash) => match door.engine().token(&hash).await? {
            Some(actor) => Ok(Identity::by_other_means(actor)),
            None => Err(Problem::new(StatusCode::UNAUTHORIZED, "This token is unknown, expired or revoked.")),
        },
    }
}

async fn by_cookie(door: &Door, session: &Session) -> Result<Identity, Problem> {
    let Some(id) = session.id() else { return Ok(Identity::default()) };
    let fault = |error: tower_sessions::session::Error| Problem::fault(&error);
    let Some(user) = session.get::<i64>(USER).await.map_err(fault)? else { return Ok(Identity::default()) };
    let born = session.get::<i64>(BORN).await.map_err(fault)?.unwrap_or(0);
    let expires = born.saturating_add(LONGEST_MS);
    let now = now_ms();
    let user = if expires > now { door.engine().user(UserId(user)).await? } else { None };
    let Some(user) = user else {
        session.flush().await.map_err(fault)?;
        return Ok(Identity::default());
    };
    let seen = session.get::<i64>(SEEN).await.map_err(fault)?.unwrap_or(0);
    if now - seen > SEEN_EVERY_MS {
        session.insert(SEEN, now).await.map_err(fault)?;
    }
    let actor = Actor { name: user.name, scope: Scope { client: user.client }, access: user.access };
    Ok(Identity { actor: Some(actor), login: Some(key(&id)), expires: Some(expires) })
}

fn to_login(door: &Door, request: &Request) -> Response {
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return Problem::anonymous().into_response();
    }
    if !door.has_owner() {
        return Redirect::to("/setup").into_response();
    }
    let wanted = request.uri().path_and_query().map_or("/", |path| path.as_str());
    match wanted {
        "/" => Redirect::to("/login").into_response(),
        wanted => Redirect::to(&format!("/login?next={}", escaped(own_path(wanted)))).into_response(),
    }
}

/// `next` if it is a path of this site, else the start page.
pub(super) fn own_path(next: &str) -> &str {
    let plain = next.len() <= 2000 && next.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\');
    let own = next.starts_with('/') && !next.starts_with("//");
    // The login page itself would be a loop.
    let loops =
        ["/login", "/logout", "/setup"].iter().any(|door| next.split(['?', '#']).next() == Some(door));
    if plain && own && !loops { next } else { "/" }
}

/// Percent-encoded for a query value.
pub(super) fn escaped(text: &str) -> String {
    let keep = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~' | b'/');
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if keep(byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn next_stays_on_this_site() {
        for good in ["/", "/objectives/42?tab=diff", "/board?text=a%20b"] {
            assert_eq!(own_path(good), good);
        }
        let bad = [
            "",
            "//evil.example",
            "https://evil.example",
            "/\\evil.example",
            "/\t/evil",
            "/a\nb",
            "/login?x",
        ];
        for bad in bad {
            assert_eq!(own_path(bad), "/", "{bad:?}");
        }
    }

    #[test]
    fn what_is_not_listed_needs_somebody() {
        assert_eq!(need("/login"), Need::Nobody);
        assert_eq!(need("/pkg/0/app.css"), Need::Nobody);
        assert_eq!(need("/api/v1/objectives"), Need::Credential);
        assert_eq!(need("/api/move_card123"), Need::Credential);
        assert_eq!(need("/ws/board"), Need::Credential);
        for page in ["/", "/health", "/login/", "/anything", "/pkg"] {
            assert_eq!(need(page), Need::Page, "{page}");
        }
    }

    #[test]
    fn escapes_query_values() {
        assert_eq!(escaped("/a?b=c&d"), "/a%3Fb%3Dc%26d");
    }
}
