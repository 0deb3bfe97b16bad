//! What every request meets first: host and origin checks, size limits, and the headers of every answer.

use std::time::Instant;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::{self, HeaderMap, HeaderName, HeaderValue};
use axum::http::{Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use http_body_util::Limited;

use super::Door;
use super::problem::Problem;
use crate::config::PublicUrl;

/// The largest body of a request, bytes.
const LARGEST_BODY: usize = 1 << 20;

/// Which names this server answers to.
#[derive(Debug, Clone, Default)]
pub(crate) struct Hosts {
    public: Option<PublicUrl>,
}

impl Hosts {
    pub(crate) fn new(public: Option<PublicUrl>) -> Hosts {
        Hosts { public }
    }

    /// The public address is https: cookies become `Secure`.
    pub(crate) fn secure(&self) -> bool {
        self.public.as_ref().is_some_and(|public| public.https)
    }

    fn knows(&self, host: &str) -> bool {
        let Some(name) = without_port(host) else { return false };
        let name = name.to_ascii_lowercase();
        matches!(name.as_str(), "localhost" | "127.0.0.1" | "[::1]")
            || self.public.as_ref().is_some_and(|public| public.host == name)
    }

    /// Whether a page of `origin` may act here; `host` was checked before.
    fn may_act(&self, origin: &str, host: &str) -> bool {
        let public = self.public.as_ref();
        if public.is_some_and(|public| public.origin.eq_ignore_ascii_case(origin)) {
            return true;
        }
        // Under the public name only the public origin counts: it may be https behind a proxy.
        let name = without_port(host).unwrap_or_default();
        let direct = public.is_none_or(|public| !public.host.eq_ignore_ascii_case(name));
        direct && origin.strip_prefix("http://").is_some_and(|own| own.eq_ignore_ascii_case(host))
    }
}

/// The host of `host[:port]`; none if the port is not a number.
fn without_port(host: &str) -> Option<&str> {
    let end = if host.starts_with('[') { host.find(']')? + 1 } else { host.find(':').unwrap_or(host.len()) };
    let port = &host[end..];
    let fits = port.is_empty() || port.strip_prefix(':').is_some_and(|port| port.parse::<u16>().is_ok());
    fits.then(|| &host[..end])
}

fn text(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    headers.get(name)?.to_str().ok()
}

/// The nonce of this response's content policy; pages put it on their inline scripts.
#[derive(Debug, Clone)]
pub(super) struct CspNonce(pub(super) String);

/// The token of `Authorization: Bearer …`.
pub(super) fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = text(headers, header::AUTHORIZATION)?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// Refuses names that are not ours: another site's name that points here is a trap.
pub(super) async fn check_host(State(door): State<Door>, request: Request, next: Next) -> Response {
    let given = request.uri().authority().map(|authority| authority.as_str());
    let host = given.or_else(|| text(request.headers(), header::HOST)).unwrap_or_default();
    if door.hosts().knows(host) {
        return next.run(request).await;
    }
    Problem::new(
        StatusCode::MISDIRECTED_REQUEST,
        "This server does not answer to that host name. Use localhost, or start it with --public-url.",
    )
    .into_response()
}

/// Refuses what another site's page sends, before any login is looked up.
pub(super) async fn check_origin(State(door): State<Door>, request: Request, next: Next) -> Response {
    let headers = request.headers();
    let safe = matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS);
    let upgrade = headers.contains_key(header::UPGRADE) || request.uri().path().starts_with("/ws/");
    let by_token = bearer(headers).is_some() && !headers.contains_key(header::COOKIE);
    if (safe && !upgrade) || by_token || from_own_page(&door, headers) {
        return next.run(request).await;
    }
    Problem::new(
        StatusCode::FORBIDDEN,
        "This request comes from another site. Use the page itself, or a token.",
    )
    .into_response()
}

fn from_own_page(door: &Door, headers: &HeaderMap) -> bool {
    let site = text(headers, HeaderName::from_static("sec-fetch-site"));
    let host = text(headers, header::HOST).unwrap_or_default();
    match headers.get(header::ORIGIN) {
        Some(origin) => {
            let own = origin.to_str().is_ok_and(|origin| door.hosts().may_act(origin, host));
            own && site.is_none_or(|site| site == "same-origin")
        }
        None => site == Some("same-origin"),
    }
}

/// Bounds the body, whoever reads it.
pub(super) async fn limit_body(request: Request, next: Next) -> Response {
    let announced =
        text(request.headers(), header::CONTENT_LENGTH).and_then(|length| length.parse::<u64>().ok());
    if announced.is_some_and(|length| length > LARGEST_BODY as u64) {
        return Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "The body is larger than 1 MiB.").into_response();
    }
    next.run(request.map(|body| Body::new(Limited::new(body, LARGEST_BODY)))).await
}

/// Gives the request its nonce and every answer its headers.
pub(super) async fn set_headers(State(door): State<Door>, mut request: Request, next: Next) -> Response {
    let api = request.uri().path().starts_with("/api/");
    let nonce = base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(rand::random::<[u8; 16]>());
    request.extensions_mut().insert(CspNonce(nonce.clone()));
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    if let Ok(policy) = HeaderValue::from_str(&policy(&nonce)) {
        headers.insert(header::CONTENT_SECURITY_POLICY, policy);
    }
    for (name, value) in [
        ("x-content-type-options", "nosniff"),
        ("referrer-policy", "same-origin"),
        ("x-frame-options", "DENY"),
        ("cross-origin-opener-policy", "same-origin"),
        ("permissions-policy", "camera=(), microphone=(), geolocation=(), payment=(), usb=()"),
    ] {
        headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    // A page of another build learns from any call that it is old.
    if let (true, Ok(build)) = (api, HeaderValue::from_str(door.site().build_id())) {
        headers.insert(HeaderName::from_static("x-opkit-build"), build);
    }
    if !headers.contains_key(header::CACHE_CONTROL) {
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    }
    response
}

fn policy(nonce: &str) -> String {
    format!(
        "default-src 'none'; script-src 'self' 'nonce-{nonce}' 'wasm-unsafe-eval'; style-src 'self'; \
         style-src-attr 'unsafe-inline'; img-src 'self' data:; font-src 'self'; connect-src 'self'; \
         manifest-src 'self'; worker-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    )
}

/// One line for each request at debug level, without its query string.
pub(super) async fn log_access(request: Request, next: Next) -> Response {
    let start = Instant::now();
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let response = next.run(request).await;
    let status = response.status().as_u16();
    tracing::debug!(%method, path, status, took_us = start.elapsed().as_micros() as u64, "request answered");
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_names() {
        let plain = Hosts::default();
        for good in ["localhost", "LOCALHOST:3000", "127.0.0.1:1", "[::1]", "[::1]:80"] {
            assert!(plain.knows(good), "{good}");
        }
        for bad in
            ["", "evil.example", "localhost.evil.example", "127.0.0.1:x", "[::1", "127.0.0.1.nip.io:80"]
        {
            assert!(!plain.knows(bad), "{bad}");
        }
        let public = Hosts::new(Some(PublicUrl::parse("https://box.example").unwrap()));
        assert!(
            public.knows("Box.example") && public.knows("box.example:8443") && public.knows("localhost:3000")
        );
    }

    #[test]
    fn origins() {
        let plain = Hosts::default();
        assert!(plain.may_act("http://127.0.0.1:3000", "127.0.0.1:3000"));
        for bad in ["null", "http://127.0.0.1:3001", "https://127.0.0.1:3000", "http://localhost:3000", ""] {
            assert!(!plain.may_act(bad, "127.0.0.1:3000"), "{bad}");
        }
        let public = Hosts::new(Some(PublicUrl::parse("https://box.example").unwrap()));
        assert!(public.may_act("https://box.example", "box.example"));
        assert!(!public.may_act("http://box.example", "box.example"));
        assert!(public.may_act("http://localhost:3000", "localhost:3000"));
    }
}
