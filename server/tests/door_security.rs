//! Every door from outside: who is let in, from which page, under which name, with which headers.

#[path = "support/server.rs"]
mod support;

use opkit_server::{RouteInfo, RouteKind, routes};
use support::{OWNER, PASSWORD, Server, wait_until};

/// A path with something in each place.
fn filled(route: &RouteInfo) -> String {
    let id = if route.path.contains("sessions") { "5c1e7a2e-0000-4000-8000-000000000000" } else { "1" };
    let path = route.path.replace("{id}", id).replace("{session}", "5c1e7a2e-0000-4000-8000-000000000000");
    path.replace("{build}", "x").replace("{*path}", "app.css")
}

fn unsafe_method(route: &RouteInfo) -> bool {
    route.method != "GET"
}

#[test]
fn the_table_has_every_kind_of_route() {
    let routes = routes();
    for kind in [RouteKind::Open, RouteKind::Rest, RouteKind::ServerFunction, RouteKind::Socket] {
        assert!(routes.iter().any(|route| route.kind == kind), "{kind:?}");
    }
    let mut open: Vec<_> =
        routes.iter().filter(|r| r.kind == RouteKind::Open).map(|r| r.path.as_str()).collect();
    open.sort_unstable();
    assert_eq!(open, ["/healthz", "/login", "/logout", "/pkg/{build}/{*path}", "/readyz", "/setup"]);
}

#[test]
fn nobody_gets_in_anywhere() {
    let server = Server::with_owner();
    for route in routes().iter().filter(|route| route.kind != RouteKind::Open) {
        let request = server.request(&route.method, &filled(route)).header("origin", &server.origin());
        let request = if route.kind == RouteKind::Socket { request.upgrade() } else { request };
        let answer = request.send();
        assert_eq!(answer.status, 401, "{} {}", route.method, route.path);
        let wrong = server.request(&route.method, &filled(route)).bearer("opk_wrong").send();
        assert_eq!(wrong.status, 401, "{} {} with a wrong token", route.method, route.path);
    }
    for page in ["/", "/health", "/objective/1", "/anything?x=1"] {
        let answer = server.get(page);
        assert_eq!(answer.status, 303, "{page}");
        assert!(answer.header("location").starts_with("/login"), "{page}: {}", answer.header("location"));
    }
    assert_eq!(
        server.get("/objective/1?tab=diff").header("location"),
        "/login?next=/objective/1%3Ftab%3Ddiff"
    );
}

#[test]
fn another_sites_page_changes_nothing() {
    let server = Server::with_owner();
    let cookie = server.cookie();
    for route in routes().iter().filter(|route| unsafe_method(route) || route.kind == RouteKind::Socket) {
        for (name, value) in [
            ("origin", "http://evil.example"),
            ("origin", "null"),
            ("origin", "http://127.0.0.1:1"),
            ("sec-fetch-site", "cross-site"),
            ("sec-fetch-site", "same-site"),
            ("x-nothing", "at all"),
        ] {
            let request =
                server.request(&route.method, &filled(route)).header("cookie", &cookie).header(name, value);
            let request = if route.kind == RouteKind::Socket { request.upgrade() } else { request };
            let answer = request.send();
            assert_eq!(answer.status, 403, "{} {} with {name}: {value}", route.method, route.path);
        }
    }
    // The cookie still works: nothing logged it out.
    assert_eq!(server.request("GET", "/api/v1/objectives").header("cookie", &cookie).send().status, 200);
}

#[test]
fn only_its_own_names_are_answered() {
    let server = Server::start();
    for host in ["evil.example", "localhost.evil.example", "", "127.0.0.1.nip.io:3000"] {
        assert_eq!(server.request("GET", "/healthz").header("host", host).send().status, 421, "{host}");
    }
    for host in ["localhost", "localhost:1234", "127.0.0.1", "[::1]:80"] {
        assert_eq!(server.request("GET", "/healthz").header("host", host).send().status, 200, "{host}");
    }
}

#[test]
fn pages_carry_a_policy_with_a_nonce_of_their_own() {
    let server = Server::with_owner();
    let (one, two) = (server.get("/login"), server.get("/login"));
    assert_eq!(one.status, 200);
    let policy = one.header("content-security-policy");
    assert_ne!(policy, two.header("content-security-policy"), "a nonce is used once");
    let nonce = policy.split("'nonce-").nth(1).and_then(|rest| rest.split('\'').next()).unwrap();
    assert!(nonce.len() >= 20);
    for part in [
        "default-src 'none'",
        "'wasm-unsafe-eval'",
        "style-src 'self'",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    ] {
        assert!(policy.contains(part), "{part} in {policy}");
    }
    assert!(!policy.contains("script-src 'self' 'unsafe-inline'") && !policy.contains("'unsafe-eval'"));
    for script in one.body.split("<script").skip(1) {
        let tag = script.split('>').next().unwrap();
        assert!(tag.contains(&format!("nonce=\"{nonce}\"")) || tag.contains("src="), "<script{tag}>");
    }
    assert_eq!(one.header("cache-control"), "no-store");
    assert_eq!(one.header("x-content-type-options"), "nosniff");
    assert_eq!(one.header("x-frame-options"), "DENY");
    assert_eq!(one.header("referrer-policy"), "same-origin");
    assert_eq!(one.header("cross-origin-opener-policy"), "same-origin");
}

#[test]
fn every_page_renders_under_the_policy() {
    let server = Server::with_owner();
    let cookie = server.cookie();
    for page in ["/", "/new", "/terminals", "/needs", "/repositories", "/accounts", "/health", "/more"] {
        let answer = server.request("GET", page).header("cookie", &cookie).send();
        assert_eq!(answer.status, 200, "{page}");
        let policy = answer.header("content-security-policy");
        let nonce = policy.split("'nonce-").nth(1).and_then(|rest| rest.split('\'').next()).unwrap();
        for script in answer.body.split("<script").skip(1) {
            let tag = script.split('>').next().unwrap();
            assert!(tag.contains(&format!("nonce=\"{nonce}\"")), "{page}: <script{tag}>");
        }
        assert!(!answer.body.contains("<style"), "{page}: the policy knows no inline style sheets");
        assert!(!answer.body.contains(" onclick="), "{page}: nor inline handlers");
    }
    for missing in ["/nothing", "/objective/999", "/session/5c1e7a2e-0000-4000-8000-000000000000"] {
        let answer = server.request("GET", missing).header("cookie", &cookie).send();
        assert!([200, 404].contains(&answer.status), "{missing}: {}", answer.status);
        assert!(answer.header("content-type").starts_with("text/html"), "{missing}");
    }
    assert_eq!(server.request("GET", "/nothing").header("cookie", &cookie).send().status, 404);
}

#[test]
fn five_wrong_passwords_and_a_pause() {
    let server = Server::with_owner();
    for left in (0..5).rev() {
        // Names that do not exist count and look the same.
        let name = if left % 2 == 0 { OWNER } else { "nobody" };
        let answer = server.log_in(name, "not the password");
        assert_eq!(answer.status, 303);
        let location = answer.header("location");
        assert!(location.starts_with("/login?error=wrong&left="), "{location}");
        assert!(!answer.headers.contains_key("set-cookie"));
    }
    assert_eq!(server.log_in(OWNER, PASSWORD).header("location"), "/login?error=paused");
    // A header that claims another address changes nothing.
    let claimed = server
        .request("POST", "/login")
        .header("origin", &server.origin())
        .header("x-forwarded-for", "10.1.2.3")
        .form(&[("name", "other"), ("password", "x"), ("next", "/x")])
        .send();
    assert_eq!(claimed.header("location"), "/login?error=paused&next=/x");
}

#[test]
fn a_login_ends_on_the_server() {
    let server = Server::with_owner();
    let answer = server.log_in(OWNER, PASSWORD);
    let set = answer.header("set-cookie").to_owned();
    for part in ["opkit=", "HttpOnly", "SameSite=Lax", "Path=/", "Max-Age="] {
        assert!(set.contains(part), "{part} in {set}");
    }
    assert!(!set.contains("Secure"), "plain http");
    let cookie = answer.cookie();
    let read = || server.request("GET", "/api/v1/objectives").header("cookie", &cookie).send().status;
    assert_eq!(read(), 200);
    let again = server.request("GET", "/login").header("cookie", &cookie).send();
    assert_eq!((again.status, again.header("location")), (303, "/"));
    let out =
        server.request("POST", "/logout").header("cookie", &cookie).header("origin", &server.origin()).send();
    assert_eq!((out.status, out.header("location")), (303, "/login"));
    assert_eq!(read(), 401, "the old cookie opens nothing");
    let nobody = server.request("POST", "/logout").header("origin", &server.origin()).send();
    assert_eq!(nobody.status, 303);
}

#[test]
fn a_cookie_from_before_the_login_is_worth_nothing() {
    let server = Server::with_owner();
    let planted = "opkit=AAAAAAAAAAAAAAAAAAAAAA";
    let answer = server
        .request("POST", "/login")
        .header("origin", &server.origin())
        .header("cookie", planted)
        .form(&[("name", OWNER), ("password", PASSWORD), ("next", "//evil.example")])
        .send();
    assert_eq!(answer.header("location"), "/", "only paths of this site");
    assert_ne!(answer.cookie(), planted);
    assert_eq!(server.request("GET", "/api/v1/objectives").header("cookie", planted).send().status, 401);
}

#[test]
fn behind_https_the_cookie_is_secure_and_bound_to_the_host() {
    let data = support::data_dir();
    support::output_of(data.path(), &["setup", "--owner", OWNER, "--password-stdin"], PASSWORD);
    let server = Server::start_in(data, &["--public-url", "https://box.example"]);
    let login = |origin: &str| {
        server
            .request("POST", "/login")
            .header("host", "box.example")
            .header("origin", origin)
            .form(&[("name", OWNER), ("password", PASSWORD)])
            .send()
    };
    assert_eq!(login("http://box.example").status, 403);
    let answer = login("https://box.example");
    let set = answer.header("set-cookie");
    assert!(set.starts_with("__Host-opkit=") && set.contains("Secure") && set.contains("Path=/"), "{set}");
}

#[test]
fn the_set_up_link_makes_one_owner_once() {
    let mut server = Server::start();
    assert_eq!(server.get("/").header("location"), "/setup");
    let link = server.line("set-up link: ");
    let token = link.split("token=").nth(1).unwrap().to_owned();
    let post = |token: &str, name: &str, password: &str| {
        server
            .request("POST", "/setup")
            .header("origin", &server.origin())
            .form(&[("token", token), ("name", name), ("password", password)])
            .send()
    };
    assert_eq!(post("wrong", OWNER, PASSWORD).header("location"), "/setup?error=token");
    assert!(post(&token, OWNER, "short").header("location").starts_with("/setup?error=short&token="));
    let made = post(&token, OWNER, PASSWORD);
    assert_eq!((made.status, made.header("location")), (303, "/"));
    assert_eq!(server.request("GET", "/api/v1/repos").header("cookie", &made.cookie()).send().status, 200);
    assert_eq!(post(&token, "second", PASSWORD).header("location"), "/login");
    server.cookie();
}

#[test]
fn files_of_another_build_are_gone_and_say_which_is_here() {
    let server = Server::start();
    let answer = server.get("/pkg/0123456789ab/frontend.js");
    assert_eq!(answer.status, 404);
    assert!(!answer.header("x-opkit-build").is_empty());
    assert_eq!(server.get("/pkg/../build-id").status, 404);
}

#[test]
fn bodies_are_bounded() {
    let server = Server::with_owner();
    let token = server.token();
    let large = format!("{{\"title\": \"{}\"}}", "x".repeat(1 << 20));
    let answer = std::panic::catch_unwind(|| {
        server.request("POST", "/api/v1/objectives").bearer(&token).json(&large).send().status
    });
    // The server may hang up before it has read everything.
    assert!(answer.is_err() || answer.is_ok_and(|status| status == 413));
    wait_until("the server to go on", || match server.get("/healthz").status {
        200 => Ok(()),
        status => Err(status.to_string()),
    });
}
