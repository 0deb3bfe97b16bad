//! The public listener's router, built from one table of routes that the tests walk too.

use axum::http::Method;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::routing::{MethodRouter, get, post};
use axum::{Router, extract::State, http::StatusCode};
use tower_http::CompressionLevel;
use tower_http::compression::CompressionLayer;
use tower_http::compression::predicate::{DefaultPredicate, NotForContentType, Predicate};
use tower_sessions::cookie::SameSite;
use tower_sessions::{Expiry, SessionManagerLayer};

use super::login_store::LoginStore;
use super::{Door, board_socket, fence, identity, login, pages, rest, site, terminal_socket};

/// One route and what it needs.
pub(super) struct Route {
    pub(super) method: Method,
    pub(super) path: &'static str,
    pub(super) handler: MethodRouter<Door>,
}

impl Route {
    fn new(method: Method, path: &'static str, handler: MethodRouter<Door>) -> Route {
        Route { method, path, handler }
    }
}

/// What a route is, for the tests that try each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RouteKind {
    /// Anybody may.
    Open,
    /// REST: somebody, else 401.
    Rest,
    /// A function behind a page: somebody, else 401.
    ServerFunction,
    /// A websocket: somebody, else 401.
    Socket,
}

/// A route as the tests see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouteInfo {
    /// "GET", "POST", ...
    pub method: String,
    /// As axum writes it, with `{name}`.
    pub path: String,
    /// What it needs.
    pub kind: RouteKind,
}

/// Every route of the public listener but the pages themselves.
pub fn routes() -> Vec<RouteInfo> {
    let kind = |path: &str| match identity::need(path) {
        identity::Need::Credential if path.starts_with("/ws/") => RouteKind::Socket,
        identity::Need::Credential => RouteKind::Rest,
        identity::Need::Nobody | identity::Need::Page => RouteKind::Open,
    };
    let own = own_routes().into_iter().chain(rest::routes());
    let own = own.map(|route| RouteInfo {
        method: route.method.to_string(),
        path: route.path.to_owned(),
        kind: kind(route.path),
    });
    let functions = leptos::server_fn::axum::server_fn_paths().map(|(path, method)| RouteInfo {
        method: method.to_string(),
        path: path.to_owned(),
        kind: RouteKind::ServerFunction,
    });
    own.chain(functions).collect()
}

fn own_routes() -> Vec<Route> {
    vec![
        Route::new(Method::GET, "/healthz", get(async || "ok\n")),
        Route::new(Method::GET, "/readyz", get(ready)),
        Route::new(Method::GET, "/pkg/{build}/{*path}", get(site::bundle)),
        Route::new(Method::POST, "/login", post(login::log_in)),
        Route::new(Method::POST, "/logout", post(login::log_out)),
        Route::new(Method::POST, "/setup", post(login::set_up)),
        Route::new(Method::GET, "/ws/board", get(board_socket::open)),
        Route::new(Method::GET, "/ws/terminal/{session}", get(terminal_socket::open)),
    ]
}

/// Alive is not ready: a server that leaves, has not looked at its sessions or cannot, should get no new work.
async fn ready(State(door): State<Door>) -> (StatusCode, String) {
    match door.engine().not_ready() {
        None => (StatusCode::OK, "ready\n".to_owned()),
        Some(why) => (StatusCode::SERVICE_UNAVAILABLE, format!("not ready: {why}\n")),
    }
}

/// Adds a table to a router.
pub(super) fn with(router: Router<Door>, routes: Vec<Route>) -> Router<Door> {
    routes.into_iter().fold(router, |router, route| router.route(route.path, route.handler))
}

/// Everything that people and scripts reach over TCP.
pub(crate) fn public_router(door: Door) -> Router {
    let router = with(with(Router::new(), own_routes()), rest::routes());
    // A release has its wasm packed beside it; a large unpacked one of a developer is not worth the wait.
    let packs = DefaultPredicate::new().and(NotForContentType::const_new("application/wasm"));
    let packed = CompressionLayer::new().quality(CompressionLevel::Precise(4)).compress_when(packs);
    pages::add(router, &door)
        .route("/api/{*rest}", axum::routing::any(rest::nothing_here))
        .fallback(pages::not_found)
        // From the inside out: the last is met first.
        .layer(from_fn_with_state(door.clone(), identity::identify))
        .layer(sessions(&door))
        .layer(from_fn_with_state(door.clone(), site::root_files))
        .layer(from_fn_with_state(door.clone(), fence::check_origin))
        .layer(from_fn_with_state(door.clone(), fence::check_host))
        .layer(from_fn(fence::limit_body))
        .layer(packed)
        .layer(from_fn(fence::log_access))
        .layer(from_fn_with_state(door.clone(), fence::set_headers))
        .with_state(door)
}

fn sessions(door: &Door) -> SessionManagerLayer<LoginStore> {
    let secure = door.hosts().secure();
    SessionManagerLayer::new(LoginStore(door.clone()))
        .with_name(if secure { "__Host-opkit" } else { "opkit" })
        .with_secure(secure)
        .with_http_only(true)
        .with_same_site(SameSite::Lax)
        .with_path("/")
        .with_expiry(Expiry::OnInactivity(time::Duration::days(14)))
        .with_always_save(false)
}
