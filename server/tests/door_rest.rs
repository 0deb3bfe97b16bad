//! REST and command line against a real server: strictness, round trips, exit codes.

#[path = "support/server.rs"]
mod support;

use std::os::unix::fs::PermissionsExt;

use serde_json::json;
use support::{Request, Server, output_of, run, wait_until};

fn with_repository() -> (Server, tempfile::TempDir, String) {
    let server = Server::with_owner();
    let folder = support::data_dir();
    let path = support::repository(folder.path());
    output_of(server.data.path(), &["repos", "add", &path, "--name", "sample"], "");
    let token = server.token();
    (server, folder, token)
}

#[test]
fn what_is_not_known_is_refused() {
    let (server, _folder, token) = with_repository();
    let post = |path: &str, body: &str| server.request("POST", path).bearer(&token).json(body).send();
    let get = |path: &str| server.request("GET", path).bearer(&token).send();

    let unknown = post("/api/v1/objectives", r#"{"title":"t","repo":"sample","type":"bug","actor":"root"}"#);
    assert_eq!(unknown.status, 400, "{}", unknown.body);
    assert_eq!(unknown.header("content-type"), "application/problem+json");
    let problem = unknown.json();
    assert_eq!(problem["status"], 400);
    assert!(problem["detail"].as_str().unwrap().contains("actor"), "{problem}");

    let bad_type = post("/api/v1/objectives", r#"{"title":"t","repo":"sample","type":"epic"}"#);
    assert_eq!(bad_type.status, 400);
    assert_eq!(post("/api/v1/objectives", "{").status, 400);
    assert_eq!(get("/api/v1/objectives?sort=title").status, 400);
    let status = get("/api/v1/objectives?status=finished");
    assert_eq!(status.status, 400);
    assert!(status.json()["detail"].as_str().unwrap().contains("ai_review"), "{}", status.body);
    assert_eq!(get("/api/v1/objectives?limit=0").status, 400);
    assert_eq!(get("/api/v1/objectives/x").status, 400);
    assert_eq!(get("/api/v1/objectives/999").status, 404);
    assert_eq!(get("/api/v1/sessions/x/context").status, 400);
    assert_eq!(get("/api/v1/sessions?state=dead").status, 400);
    assert_eq!(get("/api/v1/nothing").status, 404);
    assert_eq!(server.request("DELETE", "/api/v1/objectives/1").bearer(&token).send().status, 405);
    let no_json = server.request("POST", "/api/v1/objectives").bearer(&token).form(&[("title", "t")]).send();
    assert_eq!(no_json.status, 415);
}

#[test]
fn an_objective_round_trip() {
    let (server, _folder, token) = with_repository();
    let body = json!({
        "title": "Say hello", "repo": "sample", "type": "bug", "brief": "Long text", "hold": true,
        "criteria": [{"text": "There is a greeting", "check": "test -f hello.txt"}],
    })
    .to_string();
    let create = || {
        let request = server.request("POST", "/api/v1/objectives").bearer(&token);
        request.header("idempotency-key", "key-1").json(&body).send()
    };
    let created = create();
    assert_eq!(created.status, 201, "{}", created.body);
    let id = created.json()["id"].as_i64().unwrap();
    assert_eq!(create().json()["id"], id, "the same key gives the same objective");

    let got = server.request("GET", &format!("/api/v1/objectives/{id}")).bearer(&token).send().json();
    for name in [
        "id",
        "title",
        "brief",
        "goal",
        "type",
        "status",
        "sub_state",
        "attention",
        "attention_note",
        "criteria",
        "review_round",
        "repo",
        "branch",
        "base",
        "base_commit",
        "head_commit",
        "priority",
        "parent",
        "agent",
        "script",
        "hold",
        "labels",
        "version",
        "created_at",
        "updated_at",
    ] {
        assert!(got.get(name).is_some(), "{name} in {got}");
    }
    assert_eq!((&got["brief"], &got["base"]), (&json!("Long text"), &json!("main")));

    let list = server.request("GET", "/api/v1/objectives").bearer(&token).send().json();
    assert_eq!(list["items"].as_array().unwrap().len(), 1);
    assert!(list["next"].is_null() && list["items"][0].get("brief").is_none());

    let path = format!("/api/v1/objectives/{id}");
    let moved = server.request("PATCH", &path).bearer(&token).json(r#"{"status":"done"}"#).send();
    assert_eq!(moved.status, 400);
    assert_eq!(moved.json()["detail"], "Moves have their own door: POST …/move.");
    let edited = server.request("PATCH", &path).bearer(&token).json(r#"{"title":"Say good day"}"#).send();
    assert_eq!((edited.status, &edited.json()["title"]), (200, &json!("Say good day")));

    let jump =
        server.request("POST", &format!("{path}/move")).bearer(&token).json(r#"{"status":"done"}"#).send();
    assert_eq!(jump.status, 409, "nothing reaches done without a pass: {}", jump.body);

    let events = server.request("GET", &format!("{path}/events")).bearer(&token).send().json();
    let first = &events["items"][0];
    for name in ["seq", "at", "kind", "from", "to", "trigger", "actor", "reason", "session"] {
        assert!(first.get(name).is_some(), "{name} in {first}");
    }
    assert!(first["actor"].as_str().unwrap().contains("ci"), "the actor is the credential's: {first}");
}

#[test]
fn the_command_line_speaks_plainly() {
    let (server, _folder, _) = with_repository();
    let data = server.data.path();
    let add =
        ["objective", "add", "--repo", "sample", "--type", "bug", "--title", "From the shell", "--hold"];
    let criteria = ["--criterion", "a", "--criterion", "b", "--check", "true"];
    let number = output_of(data, &[&add[..], &criteria[..]].concat(), "");
    let id: i64 = number.parse().expect("the number alone");
    let shown = output_of(data, &["objective", "show", &format!("#{id}"), "--json"], "");
    let shown: serde_json::Value = serde_json::from_str(&shown).unwrap();
    let expected = json!([{"text": "a", "check": null}, {"text": "b", "check": "true"}]);
    assert_eq!(shown["criteria"], expected);
    let list: serde_json::Value =
        serde_json::from_str(&output_of(data, &["objective", "list", "--json"], "")).unwrap();
    assert_eq!(list["items"][0]["id"], id);

    let unknown = server.cli(&["objective", "show", "999"]);
    assert_eq!(unknown.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&unknown.stderr).starts_with("opkit: "));
    assert_eq!(server.cli(&["objective", "move", &number, "finished"]).status.code(), Some(1));
    assert_eq!(server.cli(&["objective", "move", &number]).status.code(), Some(2));
    output_of(data, &["objective", "cancel", &number], "");
    assert_eq!(server.cli(&["objective", "watch", &number]).status.code(), Some(4));
}

#[test]
fn set_up_and_tokens_work_without_a_server() {
    let data = support::data_dir();
    let short = run(data.path(), &["setup", "--owner", "anna", "--password-stdin"], "short\n");
    assert_eq!(short.status.code(), Some(1));
    output_of(data.path(), &["setup", "--owner", support::OWNER, "--password-stdin"], support::PASSWORD);
    let second = run(data.path(), &["setup", "--owner", "bert", "--password-stdin"], support::PASSWORD);
    assert_eq!(second.status.code(), Some(1), "one owner");
    let token = output_of(data.path(), &["tokens", "create", "--actor", "ci", "--scope", "operate"], "");
    assert!(token.starts_with("opk_") && !token.contains(char::is_whitespace));
    let server = Server::start_in(data, &[]);
    assert_eq!(server.request("GET", "/api/v1/repos").bearer(&token).send().status, 200);
    let unknown = server.cli(&["tokens", "create", "--actor", "ci", "--scope", "everything"]);
    assert_eq!(unknown.status.code(), Some(1));
}

#[test]
fn the_owner_can_be_made_while_the_server_runs() {
    let server = Server::start();
    output_of(
        server.data.path(),
        &["setup", "--owner", support::OWNER, "--password-stdin"],
        support::PASSWORD,
    );
    server.cookie();
    assert_eq!(server.get("/").header("location"), "/login");
}

#[test]
fn the_control_socket_is_private() {
    let server = Server::start();
    let run = server.data.path().join("run");
    let run = std::fs::read_to_string(run.join("where")).map_or(run, |elsewhere| elsewhere.trim().into());
    let mode = std::fs::metadata(run.join("control.sock")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    for path in ["/control/v1/doctor", "/control/v1/enable"] {
        let answer = server.request("GET", path).send();
        assert_ne!(answer.status, 200, "{path} is not served over TCP");
    }
}

#[test]
fn the_session_door_serves_sessions_and_nothing_else() {
    let server = Server::with_owner();
    let token = server.token();
    let file = server.data.path().join("door/session-door");
    let door: std::net::SocketAddr = std::fs::read_to_string(file).unwrap().trim().parse().unwrap();
    assert!(door.ip().is_loopback());
    let post = || Request::new(door, "POST", "/session/v1/progress");
    assert_eq!(post().json(r#"{"text":"x"}"#).send().status, 401);
    let other = post().bearer(&token).json(r#"{"text":"x"}"#).send();
    assert_eq!(other.status, 403, "an API token is not a session's");
    assert_eq!(post().bearer("x").header("origin", "http://evil.example").json("{}").send().status, 403);
    assert_eq!(post().bearer("x").json(r#"{"text":"x","objective":2}"#).send().status, 400);
    for path in ["/api/v1/objectives", "/control/v1/doctor", "/", "/login", "/ws/board"] {
        assert_eq!(Request::new(door, "GET", path).bearer(&token).send().status, 404, "{path}");
    }
    let public = server.request("POST", "/session/v1/progress").bearer(&token).json(r#"{"text":"x"}"#).send();
    assert_ne!(public.status, 200);
}

#[test]
fn strangers_need_an_owner_first() {
    let data = support::data_dir();
    let output = run(data.path(), &["serve", "--listen", "0.0.0.0:0"], "");
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("there is no owner yet"));
}

#[test]
fn a_port_in_use_is_said() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let data = support::data_dir();
    let output = run(data.path(), &["serve", "--listen", &address], "");
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("is in use by another program"));
}

#[test]
fn health_and_readiness() {
    let server = Server::start();
    assert_eq!(server.get("/healthz").status, 200);
    wait_until("the server to be ready", || match server.get("/readyz").status {
        200 => Ok(()),
        status => Err(status.to_string()),
    });
}

#[test]
fn a_second_server_on_the_same_data_is_refused() {
    let server = Server::start();
    let output = run(server.data.path(), &["serve", "--listen", "127.0.0.1:0"], "");
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(server.get("/healthz").status, 200);
}

#[test]
fn it_leaves_in_good_order() {
    let server = Server::start();
    let (code, data) = server.terminate();
    assert_eq!(code, Some(0));
    Server::start_in(data, &[]);
}
