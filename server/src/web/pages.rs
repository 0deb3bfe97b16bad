//! The pages: rendered by the app with the engine and the caller at hand.

use axum::Router;
use axum::body::Body;
use axum::extract::{FromRef, Request, State};
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use leptos::config::LeptosOptions;
use leptos::context::{provide_context, use_context};
use leptos::nonce::Nonce;
use leptos_axum::{LeptosRoutes, ResponseOptions, generate_route_list};
use opkit_app::{App, Caller, shell};
use opkit_engine::Engine;

use super::Door;
use super::fence::CspNonce;
use super::identity::Identity;

/// Adds every page and server function.
pub(super) fn add(router: Router<Door>, door: &Door) -> Router<Door> {
    let options = LeptosOptions::from_ref(door);
    router.leptos_routes_with_context(door, generate_route_list(App), context(door), move || {
        shell(options.clone())
    })
}

/// What pages and server functions find in their context.
fn context(door: &Door) -> impl Fn() + Clone + Send + Sync + 'static {
    let engine: Engine = door.engine().clone();
    move || {
        provide_context(engine.clone());
        let parts = use_context::<Parts>();
        let identity = parts.as_ref().and_then(|parts| parts.extensions.get::<Identity>());
        provide_context(Caller(identity.and_then(|identity| identity.actor.clone())));
        // Replaces the renderer's own nonce by the one that the header carries.
        if let Some(nonce) = parts.as_ref().and_then(|parts| parts.extensions.get::<CspNonce>()) {
            provide_context(Nonce::from_value(nonce.0.as_str()));
        }
    }
}

/// Everything else: the app's own page for what is not there.
pub(super) async fn not_found(State(door): State<Door>, request: Request<Body>) -> Response {
    let options = LeptosOptions::from_ref(&door);
    let provide = context(&door);
    let handler = leptos_axum::render_app_to_stream_with_context(
        move || {
            provide();
            if let Some(response) = use_context::<ResponseOptions>() {
                response.set_status(StatusCode::NOT_FOUND);
            }
        },
        move || shell(options.clone()),
    );
    handler(request).await.into_response()
}
