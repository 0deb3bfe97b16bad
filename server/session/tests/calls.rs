//! Calls to the session door: retried with one key, refused with the server's words.

#[path = "support/place.rs"]
mod place;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use place::Place;

/// Answers one request after the other; returns their heads and bodies.
fn serve(listener: TcpListener, answers: Vec<&'static str>) -> std::thread::JoinHandle<Vec<String>> {
    std::thread::spawn(move || {
        let mut seen = Vec::new();
        for answer in answers {
            let (mut stream, _) = listener.accept().expect("a connection");
            let mut reader = BufReader::new(stream.try_clone().expect("a clone"));
            let mut head = String::new();
            while !head.ends_with("\r\n\r\n") {
                reader.read_line(&mut head).expect("a line");
            }
            let length = head
                .to_lowercase()
                .split("content-length: ")
                .nth(1)
                .map_or(0, |rest| rest.split("\r\n").next().unwrap_or("0").parse().expect("a length"));
            let mut body = vec![0; length];
            reader.read_exact(&mut body).expect("a body");
            stream.write_all(answer.as_bytes()).expect("written");
            seen.push(format!("{head}{}", String::from_utf8_lossy(&body)));
        }
        seen
    })
}

fn answer(status: &str, body: &str) -> &'static str {
    let text =
        format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}", body.len());
    Box::leak(text.into_boxed_str())
}

fn run(place: &Place, args: &[&str]) -> std::process::Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_opkit-session"));
    command.args(args);
    command.env("OPKIT_DOOR_FILE", place.root().join("door/session-door"));
    command.env("OPKIT_TOKEN_FILE", place.root().join("token")).output().expect("it runs")
}

fn door(place: &Place) -> TcpListener {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    fs::write(place.root().join("door/session-door"), format!("{address}\n")).expect("a door");
    fs::write(place.root().join("token"), "secret-token\n").expect("a token");
    listener
}

#[test]
fn a_call_is_tried_again_with_the_same_key() {
    let place = Place::new("good");
    let server = serve(door(&place), vec![answer("503 Busy", ""), answer("200 OK", "{}")]);
    let output = run(&place, &["progress", "half", "done"]);
    assert!(output.status.success(), "{output:?}");
    let seen = server.join().expect("the server");
    let key =
        |text: &str| text.to_lowercase().split("idempotency-key: ").nth(1).map(|rest| rest[..36].to_owned());
    assert!(key(&seen[0]).is_some() && key(&seen[0]) == key(&seen[1]), "{seen:?}");
    assert!(seen[1].starts_with("POST /session/v1/progress HTTP/1.1"), "{seen:?}");
    assert!(
        seen[1].contains("Bearer secret-token") && seen[1].ends_with(r#"{"text":"half done"}"#),
        "{seen:?}"
    );
}

#[test]
fn a_refusal_is_final_and_told() {
    let place = Place::new("good");
    let server =
        serve(door(&place), vec![answer("409 Conflict", r#"{"title":"Not now","detail":"It is over."}"#)]);
    let output = run(&place, &["done"]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "opkit-session: Not now: It is over.\n");
    server.join().expect("the server");
}

#[test]
fn reads_are_printed_and_outside_a_session_nothing_is_called() {
    let place = Place::new("good");
    let server = serve(door(&place), vec![answer("200 OK", r#"{"id":42}"#)]);
    let output = run(&place, &["objective", "show"]);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "{\"id\":42}\n");
    assert!(server.join().expect("the server")[0].starts_with("GET /session/v1/objective "));
    let output = Command::new(env!("CARGO_BIN_EXE_opkit-session"))
        .arg("siblings")
        .env_clear()
        .output()
        .expect("it runs");
    assert!(String::from_utf8_lossy(&output.stderr).contains("not inside a session"));
}

#[test]
fn the_blocked_script_reports_through_the_door() {
    let mut place = Place::new("blocked");
    let server = serve(door(&place), vec![answer("200 OK", "{}")]);
    fs::set_permissions(place.root().join("token"), fs::Permissions::from_mode(0o644)).expect("mode");
    place.spec.env.push(("OPKIT_TOKEN_FILE".into(), place.root().join("token").display().to_string()));
    let exit = place.run();
    assert_eq!(exit.outcome.as_str(), "finished", "{}\n{}", exit.detail, place.record());
    let seen = server.join().expect("the server");
    assert!(
        seen[0].starts_with("POST /session/v1/blocked ") && seen[0].contains("staging server"),
        "{seen:?}"
    );
}
